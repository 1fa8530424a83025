package audit

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"authguard/internal/events"
)

// The default and the maximum number of rows of a page, and the rows that Each reads at a time.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
	eachLimit    = 5000
)

// searchFor limits a search: with a billion rows, it would run for an hour after the administrator has left.
const searchFor = 30 * time.Second

// ErrSlow means that a search took longer than searchFor.
var ErrSlow = errors.New("the search took over 30 s: limit it to a time, an account or an IP address")

// A Filter selects the rows that match all of its nonzero fields.
type Filter struct {
	Realm   string // default all
	Account string // normalized, as in events
	// Network is an IP address, which also matches rows of its network (/24, /48), or a network with everything inside.
	Network netip.Prefix
	Who     string // a part of it; the case of ASCII letters is ignored
	// Kind is a kind of rows, or an ending of attempts: "failed", "blocked" …
	Kind string
	// Unchallenged leaves out challenged attempts, which during an attack are most rows.
	Unchallenged bool
	What         string    // the code of a decision, an operation or a reason
	Since        time.Time // inclusive
	Until        time.Time // exclusive
	Before       int64     // only rows with a lower ID: Page.Next of the previous page
	// OldestFirst reverses the order. Page.Next is then for After.
	OldestFirst bool
	After       int64 // only rows with a higher ID
	Limit       int   // default DefaultLimit, at most MaxLimit
}

// A Page is the result of Log.Page, in the filter's order.
type Page struct {
	Rows []Row
	// Next is Filter.Before, or Filter.After, of the following page; 0 for none.
	Next int64
}

// One returns the filter for a single IP address.
func One(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen())
}

// Kinds returns the valid values of Filter.Kind.
func Kinds() []string {
	all := []string{KindAdmin, KindMode, KindAttack, KindEvent, KindAttempt}
	for _, e := range []events.Ending{events.Succeeded, events.Failed, events.Challenged, events.Refused, events.Waited,
		events.FakeFailure, events.Abandoned} {
		all = append(all, e.String())
	}
	return all
}

// Each calls row for the matching rows in the filter's order, until row fails. It holds no lock or cursor while row
// runs, so it may take long. It omits rows written meanwhile and ignores Limit.
func (l *Log) Each(ctx context.Context, f Filter, row func(Row) error) error {
	if f.OldestFirst && f.Before == 0 {
		last, err := l.find(ctx, Filter{}, conditions{}, 1)
		if err != nil || len(last) == 0 {
			return err
		}
		f.Before = last[0].ID + 1
	}
	for {
		rows, err := l.find(ctx, f, f.conditions(), eachLimit)
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := row(r); err != nil {
				return err
			}
		}
		if len(rows) < eachLimit {
			return nil
		}
		if last := rows[len(rows)-1].ID; f.OldestFirst {
			f.After = last
		} else {
			f.Before = last
		}
	}
}

// Recent returns the rows of Page.
func (l *Log) Recent(ctx context.Context, f Filter) ([]Row, error) {
	page, err := l.Page(ctx, f)
	return page.Rows, err
}

// Page returns the newest matching rows, or the oldest, without the last second's. A filter that no index serves reads
// the whole log, for searchFor at most; then the error is ErrSlow.
func (l *Log) Page(ctx context.Context, f Filter) (p Page, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.search)
	defer cancel()
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	most := min(f.Limit, MaxLimit)
	p.Rows, err = l.find(ctx, f, f.conditions(), most+1) // is there one more?
	if len(p.Rows) > most {
		p.Rows, p.Next = p.Rows[:most], p.Rows[most-1].ID
	}
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		err = ErrSlow
	}
	return p, err
}

// find selects IDs first, because an index on the account or the IP address contains them: only the rows of the page
// are read whole. Each alternative is a further condition on an index that is in the order of IDs; a database merges
// them without sorting.
func (l *Log) find(ctx context.Context, f Filter, c conditions, limit int, alternatives ...string) ([]Row, error) {
	if len(alternatives) == 0 && f.Account != "" && f.Realm != "" {
		alternatives = []string{"part = 0", "part = 1", "part = 2", "part = 3", "part = 4"}
	}
	ids := "SELECT id FROM audit" + c.where("")
	for i, alternative := range alternatives {
		if i == 0 {
			ids = "SELECT id FROM audit" + c.where(alternative)
		} else {
			ids += " UNION ALL SELECT id FROM audit" + c.where(alternative)
		}
	}
	order := "DESC"
	if f.OldestFirst {
		order = "ASC"
	}
	return l.rows(ctx, fmt.Sprintf("SELECT %s FROM audit WHERE id IN (%s ORDER BY id %s LIMIT %d) ORDER BY id %[3]s",
		columns, ids, order, limit), c.args...)
}

// conditions are those of a WHERE clause, joined by AND.
type conditions struct {
	texts []string
	args  []any
}

// add appends a condition with a question mark for each value.
func (c *conditions) add(text string, values ...any) {
	for _, value := range values {
		c.args = append(c.args, value)
		text = strings.Replace(text, "?", "$"+strconv.Itoa(len(c.args)), 1)
	}
	c.texts = append(c.texts, text)
}

func (c conditions) where(more string) string {
	texts := c.texts
	if more != "" {
		texts = append(slices.Clone(texts), more)
	}
	if len(texts) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(texts, " AND ")
}

// conditions returns those of the filter. One on part, account or place uses an index.
func (f Filter) conditions() (c conditions) {
	if f.Realm != "" {
		c.add("realm = ?", f.Realm)
	}
	if f.Account != "" {
		c.add("account = ?", events.Escape(f.Account))
	}
	f.addNetwork(&c)
	f.addKind(&c)
	if f.Unchallenged {
		c.add("NOT (kind = 'attempt' AND decision = 'challenged')")
	}
	if f.What != "" {
		code := "%," + likeText(f.What) // also with a suffix: the limit, and whether it was monitored
		c.add(`(decision = ? OR (',' || reasons || ',' LIKE ? ESCAPE '\' OR ',' || reasons LIKE ? ESCAPE '\')
			AND replace(reasons, ?, '') <> reasons)`, // SQLite's LIKE ignores the case
			f.What, code+",%", code+":%", f.What)
	}
	if f.Who != "" {
		c.add("part = 4")
		c.add(`lower(who) LIKE lower(?) ESCAPE '\'`, "%"+likeText(events.Escape(f.Who))+"%")
	}
	// The ID begins with the time.
	if f.Since.UnixMilli() > 0 {
		c.add("id >= ?", f.Since.UnixMilli()<<sequenceBits)
	}
	if !f.Until.IsZero() {
		c.add("id < ?", max(f.Until.UnixMilli(), 0)<<sequenceBits)
	}
	if f.Before > 0 {
		c.add("id < ?", f.Before)
	}
	if f.After > 0 {
		c.add("id > ?", f.After)
	}
	return c
}

// addNetwork leaves the index out where it would select most rows, or where the account's is better: SQLite cannot tell.
func (f Filter) addNetwork(c *conditions) {
	if !f.Network.IsValid() {
		return
	}
	column := "place"
	if f.Account != "" || f.Network.Bits() <= 8 {
		column = "place || ''"
	}
	if f.Network.IsSingleIP() {
		c.add(column+" IN (?, ?)", placeOf(f.Network), placeOf(networkOf(f.Network.Addr())))
		return
	}
	first, last := placeOf(f.Network), f.Network.Masked().Addr().AsSlice()
	for i := f.Network.Bits(); i < 8*len(last); i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	c.add(column+" >= ?", first)
	c.add(column+" < ?", fmt.Sprintf("%s%x0", first[:1], last)) // "0" follows "/"
}

func (f Filter) addKind(c *conditions) {
	switch {
	case f.Kind == "":
	case f.Kind == KindAdmin || f.Kind == KindMode:
		c.add("part = 4")
		c.add("kind = ?", f.Kind)
	case f.Kind == KindAttack:
		c.add("part = 2")
		c.add("kind = ?", f.Kind)
	case f.Kind == events.Succeeded.String():
		c.add("part = 3")
		c.add("kind = 'attempt'")
	case slices.Contains([]string{KindEvent, KindAttempt}, f.Kind):
		c.add("kind = ?", f.Kind)
	default:
		c.add("kind = 'attempt'")
		c.add("decision = ?", f.Kind)
	}
}

func likeText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s)
}

// placeOf returns a sortable form of an IP address or network: family, first address and length, such as
// "4cb007100/024". Everything in a network lies between its own place and the place of its last address.
func placeOf(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	family := 6
	if p.Addr().Is4() {
		family = 4
	}
	return fmt.Sprintf("%d%x/%03d", family, p.Masked().Addr().AsSlice(), p.Bits())
}

// place is placeOf for the text of a row; empty if it is neither an IP address nor a network.
func place(address string) string {
	if a, err := netip.ParseAddr(address); err == nil {
		return placeOf(One(a))
	}
	p, _ := netip.ParsePrefix(address)
	return placeOf(p)
}
