package audit

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/sqltx"
)

// The default and the maximum number of rows of a page.
const (
	DefaultLimit = 100
	MaxLimit     = 1000
)

// The limits of what one page reads: no index covers who or why, so a page searches the newest rows.
const (
	window  = 10_000 // rows at a time; a network or realm with at most this many rows is searched completely
	windows = 10
)

// A Filter selects the rows that match all of its nonzero fields.
type Filter struct {
	Realm   string // default all
	Account string // normalized, as in events
	// Network is an IP address, which also matches rows of its network (/24, /48), or a network with everything inside.
	Network netip.Prefix
	Who     string // a part of it, case-insensitive
	// Kind is a kind of rows, or an ending of attempts: "failed", "blocked" …
	Kind   string
	What   string    // the code of a decision, an operation or a reason
	Since  time.Time // inclusive
	Until  time.Time // exclusive
	Before int64     // only rows with a lower ID: Page.Next of the previous page
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
	// Searched is how far back an incomplete search went: further rows may match.
	Searched time.Time
}

// One returns the filter for a single IP address.
func One(address netip.Addr) netip.Prefix {
	address = address.Unmap().WithZone("")
	return netip.PrefixFrom(address, address.BitLen())
}

// Kinds returns the valid values of Filter.Kind.
func Kinds() []string {
	all := []string{KindAdmin, KindMode, KindEvent, KindAttempt}
	for _, e := range []events.Ending{events.Succeeded, events.Failed, events.Challenged, events.Refused, events.Waited,
		events.FakeFailure, events.Abandoned} {
		all = append(all, e.String())
	}
	return all
}

// Each calls row for the matching rows in the filter's order, until row fails. It reads one page at a time and holds no
// lock or cursor between pages, so it may take long. It omits rows written meanwhile and ignores Limit.
func (l *Log) Each(ctx context.Context, f Filter, row func(Row) error) error {
	f.Limit = MaxLimit
	if f.OldestFirst && f.Before == 0 {
		last, err := l.Page(ctx, Filter{Limit: 1})
		if err != nil || len(last.Rows) == 0 {
			return err
		}
		f.Before = last.Rows[0].ID + 1
	}
	for {
		page, err := l.Page(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range page.Rows {
			if err := row(r); err != nil {
				return err
			}
		}
		if page.Next == 0 {
			return nil
		}
		if f.OldestFirst {
			f.After = page.Next
		} else {
			f.Before = page.Next
		}
	}
}

// Recent returns the rows of Page.
func (l *Log) Recent(ctx context.Context, f Filter) ([]Row, error) {
	page, err := l.Page(ctx, f)
	return page.Rows, err
}

// Page returns the newest matching rows, or the oldest, without the last second's. It reads a bounded part of the
// table.
func (l *Log) Page(ctx context.Context, f Filter) (p Page, err error) {
	if f.Limit <= 0 {
		f.Limit = DefaultLimit
	}
	most := min(f.Limit, MaxLimit)
	f.Limit = most + 1 // is there one more?
	sources, err := l.sources(ctx, f)
	if err != nil {
		return p, fmt.Errorf("audit: find: %w", err)
	}
	left, bound := windows*l.window, int64(0) // rows beyond bound were not searched in every source
	beyond := func(id, bound int64) bool { return id < bound != f.OldestFirst && id != bound }
	for _, s := range sources {
		rows, reached, err := l.walk(ctx, s, f, &left)
		if err != nil {
			return p, fmt.Errorf("audit: find: %w", err)
		}
		if p.Rows = append(p.Rows, rows...); bound == 0 || reached != 0 && beyond(bound, reached) {
			bound = reached
		}
	}
	p.Rows = newest(p.Rows, len(p.Rows))
	if f.OldestFirst {
		slices.Reverse(p.Rows)
	}
	p.Rows = slices.DeleteFunc(p.Rows, func(r Row) bool { return bound > 0 && beyond(r.ID, bound) })
	if len(p.Rows) > most {
		p.Rows, p.Next = p.Rows[:most], p.Rows[most-1].ID
	} else if p.Next = bound; bound > 0 {
		p.Searched = time.UnixMilli(bound >> sequenceBits)
	}
	return p, nil
}

type condition struct {
	text   string
	values []any
}

func is(text string, values ...any) condition { return condition{text, values} }

// compiled joins conditions and numbers their values from 1.
func compiled(all ...condition) (text string, args []any) {
	var b strings.Builder
	for i, c := range all {
		if i > 0 {
			b.WriteString(" AND ")
		}
		for j, piece := range strings.Split(c.text, "?") {
			if j > 0 {
				args = append(args, c.values[j-1])
				b.WriteString("$" + strconv.Itoa(len(args)))
			}
			b.WriteString(piece)
		}
	}
	return b.String(), args
}

// A source yields matching rows in the order of their IDs.
type source struct {
	index  []condition // conditions that an index answers
	merged bool        // all parts, by an index that begins with the part
	ids    []int64     // instead of an index: row IDs, newest first
}

// sources returns sources that together contain each matching row once.
func (l *Log) sources(ctx context.Context, f Filter) (all []source, err error) {
	realms := []string{f.Realm}
	if f.Realm == "" {
		if realms, err = l.realms(ctx); err != nil {
			return nil, err
		}
	}
	single := f.Network.IsValid() && f.Network.IsSingleIP()
	switch {
	case f.Account != "":
		for _, realm := range realms {
			for _, which := range []string{"decision = 'succeeded'", "decision = 'failed'",
				"decision NOT IN ('succeeded', 'failed')"} {
				all = append(all, source{index: []condition{is(which), is("realm = ?", realm),
					is("account = ?", events.Escape(f.Account))}})
			}
		}
		return all, nil
	case single:
		for _, realm := range realms {
			in, at := is("realm = ?", realm), f.Network.Addr()
			all = append(all, source{index: []condition{in, is("address = ?", events.AddressText(at))}},
				source{index: []condition{in, is("address = ?", networkText(networkOf(at)))}})
		}
		return all, nil
	}
	if f.Network.IsValid() || f.Realm != "" && !slices.Contains([]string{KindAdmin, KindMode}, f.Kind) && f.Who == "" {
		ids, found, err := l.few(ctx, f, realms)
		if err != nil || found {
			return []source{{ids: ids}}, err
		}
	}
	parts := f.parts()
	for _, p := range parts {
		all = append(all, source{index: []condition{is("part = ?", p)}})
	}
	switch {
	case parts == nil && database.IsPostgres(l.db):
		all = []source{{index: []condition{is("part IN (0, 1, 2, 3, 4)")}, merged: true}}
	case parts == nil:
		all = []source{{index: []condition{is("1 = 1")}}}
	}
	return all, nil
}

// parts returns the parts that can contain matching rows; nil for all.
func (f Filter) parts() []int {
	switch {
	case f.Who != "", f.Kind == KindAdmin, f.Kind == KindMode:
		return []int{partActions}
	case f.Kind == KindEvent:
		return []int{partStopped}
	case f.Kind == events.Succeeded.String():
		return []int{partSucceeded}
	case f.Kind == events.Failed.String():
		return []int{partFailed, partSums}
	case f.Kind != "" && f.Kind != KindAttempt:
		return []int{partStopped, partSums}
	}
	return nil
}

func (l *Log) realms(ctx context.Context) (all []string, err error) {
	for last := ""; ; all = append(all, last) {
		err := l.db.QueryRowContext(ctx, "SELECT realm FROM audit WHERE realm > $1 ORDER BY realm LIMIT 1", last).Scan(&last)
		if errors.Is(err, sql.ErrNoRows) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// few returns the row IDs of realms and a network if there are few.
func (l *Log) few(ctx context.Context, f Filter, realms []string) (ids []int64, found bool, err error) {
	seen := 0
	for _, realm := range realms {
		query, args := compiled(append([]condition{is("realm = ?", realm)}, inText(f.Network)...)...)
		err = sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
			var id int64
			var address string
			err := rows.Scan(&id, &address)
			if seen++; within(f.Network, address) {
				ids = append(ids, id)
			}
			return err
		}, fmt.Sprintf("SELECT id, address FROM audit WHERE %s LIMIT %d", query, l.window+1-seen), args...)
		if err != nil || seen > l.window {
			return nil, false, err
		}
	}
	slices.Sort(ids)
	slices.Reverse(ids)
	return ids, true, nil
}

func within(network netip.Prefix, address string) bool {
	if !network.IsValid() {
		return true
	}
	if a, err := netip.ParseAddr(address); err == nil {
		return network.Contains(a)
	}
	p, err := netip.ParsePrefix(address)
	return err == nil && p.Bits() >= network.Bits() && network.Contains(p.Addr())
}

// inText narrows addresses by their common text: 198.51. for 198.51.100.0/22, 2001:db8: for 2001:db8::/32.
func inText(network netip.Prefix) []condition {
	if !network.IsValid() {
		return nil
	}
	at, between, beyond, begin := network.Masked().Addr(), ":", ";", ""
	if at.Is4() {
		between, beyond = ".", "/"
		for _, octet := range at.AsSlice()[:min(network.Bits(), 24)/8] {
			begin += strconv.Itoa(int(octet)) + between
		}
	} else {
		groups := at.AsSlice()
		for i := 0; i+2 <= network.Bits()/8 && (groups[i] != 0 || groups[i+1] != 0); i += 2 { // zeros may be left out
			begin += strconv.FormatUint(uint64(groups[i])<<8|uint64(groups[i+1]), 16) + between
		}
	}
	if begin == "" {
		return nil
	}
	return []condition{is("address >= ?", begin), is("address < ?", strings.TrimSuffix(begin, between)+beyond)}
}

// rest returns the conditions that no index answers. It appends an empty text to indexed columns: otherwise SQLite
// reads that whole index and sorts it (1.9 s for nine million rows).
func (f Filter) rest() (all []condition) {
	if f.Realm != "" && f.Account == "" {
		all = append(all, is("realm || '' = ?", f.Realm))
	}
	switch {
	case f.Kind == "":
	case slices.Contains([]string{KindAdmin, KindMode, KindEvent, KindAttempt}, f.Kind):
		all = append(all, is("kind = ?", f.Kind))
	default:
		all = append(all, is("kind = 'attempt'"), is("decision || '' = ?", f.Kind))
	}
	if f.What != "" {
		code := "%," + likeText(f.What) // also with a suffix: the limit, and whether it was monitored
		all = append(all, is(`(decision = ? OR ',' || reasons || ',' LIKE ? ESCAPE '\' OR ',' || reasons LIKE ? ESCAPE '\')`,
			f.What, code+",%", code+":%"))
	}
	if f.Who != "" {
		all = append(all, is(`lower(who) LIKE ? ESCAPE '\'`, "%"+likeText(strings.ToLower(events.Escape(f.Who)))+"%"))
	}
	switch {
	case !f.Network.IsValid() || f.Account == "" && f.Network.IsSingleIP():
	case f.Network.IsSingleIP():
		at := f.Network.Addr()
		all = append(all, is("(address || '' = ? OR address || '' = ?)", events.AddressText(at), networkText(networkOf(at))))
	default:
		for _, c := range inText(f.Network) {
			all = append(all, is(strings.Replace(c.text, "address", "address || ''", 1), c.values...))
		}
	}
	return all
}

func likeText(s string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s)
}

// keeps filters the database's rows by network, which SQL cannot.
func (f Filter) keeps(r Row) bool {
	return !f.Network.IsValid() || f.Network.IsSingleIP() || within(f.Network, r.Address)
}

// span returns the range of IDs from the filter's times and cursor.
func (f Filter) span() (from, before int64) {
	before = math.MaxInt64
	if f.Before > 0 {
		before = f.Before
	}
	if !f.Until.IsZero() {
		before = min(before, max(f.Until.UnixMilli(), 0)<<sequenceBits)
	}
	if !f.Since.IsZero() {
		from = max(f.Since.UnixMilli(), 0) << sequenceBits
	}
	return max(from, f.After+1), before
}

// walk returns the first rows of a source in the filter's order, up to its limit, while left lasts. They are complete
// up to the ID reached; 0 if there are no others.
func (l *Log) walk(ctx context.Context, s source, f Filter, left *int) (found []Row, reached int64, err error) {
	from, before := f.span()
	if s.index == nil {
		return l.fetch(ctx, s.ids, f, from, before)
	}
	rest := f.rest()
	for {
		edge, most, window := int64(0), f.Limit-len(found), l.window
		if len(rest) == 0 {
			window = most
		}
		if len(rest) > 0 || s.merged {
			if edge, err = l.edge(ctx, f, s, window, is("id >= ?", from), is("id < ?", before)); err != nil {
				return nil, 0, err
			}
		}
		least, end := max(from, edge), before
		if f.OldestFirst {
			if least = from; edge > 0 {
				end = edge + 1
			}
		}
		got, err := l.some(ctx, f, most, append(append(slices.Clone(s.index), is("id >= ?", least), is("id < ?", end)),
			rest...)...)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range got {
			if f.keeps(r) {
				found = append(found, r)
			}
		}
		switch {
		case len(found) == f.Limit:
			return found, found[len(found)-1].ID, nil
		case len(got) == most: // but some are of other networks
			edge, *left = got[len(got)-1].ID, *left-len(got)
		case edge == 0:
			return found, 0, nil
		default:
			*left -= window
		}
		if *left <= 0 {
			return found, edge, nil
		}
		if f.OldestFirst {
			from = edge + 1
		} else {
			before = edge
		}
	}
}

func (f Filter) order() string {
	if f.OldestFirst {
		return "ORDER BY id"
	}
	return "ORDER BY id DESC"
}

// edge returns the ID of the row that ends a window; 0 if there are fewer rows.
func (l *Log) edge(ctx context.Context, f Filter, s source, window int, span ...condition) (id int64, err error) {
	where, args := compiled(append(slices.Clone(s.index), span...)...)
	from := "audit WHERE " + where
	if s.merged { // no index has the first rows across parts, so take the first of each
		first := make([]string, parts)
		where, args = compiled(span...)
		for i := range first {
			first[i] = fmt.Sprintf("(SELECT id FROM audit WHERE part = %d AND %s %s LIMIT %d)", i, where, f.order(), window)
		}
		from = "(" + strings.Join(first, " UNION ALL ") + ") AS first"
	}
	err = l.db.QueryRowContext(ctx, fmt.Sprintf("SELECT id FROM %s %s LIMIT 1 OFFSET %d", from, f.order(), window-1),
		args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return id, err
}

func (l *Log) some(ctx context.Context, f Filter, most int, all ...condition) ([]Row, error) {
	where, args := compiled(all...)
	return l.rows(ctx, fmt.Sprintf("SELECT %s FROM audit WHERE %s %s LIMIT %d", columns, where, f.order(), most), args...)
}

// fetch returns the matching rows among known IDs.
func (l *Log) fetch(ctx context.Context, ids []int64, f Filter, from,
	before int64) (found []Row, reached int64, err error) {
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id < from || id >= before })
	if f.OldestFirst {
		slices.Reverse(ids)
	}
	for part := range slices.Chunk(ids, max(f.Limit, 100)) {
		values := make([]any, len(part))
		for i, id := range part {
			values[i] = id
		}
		in := is("part IN (0, 1, 2, 3, 4) AND id IN (?"+strings.Repeat(", ?", len(part)-1)+")", values...)
		got, err := l.some(ctx, f, len(part), append([]condition{in}, f.rest()...)...)
		if err != nil {
			return nil, 0, err
		}
		for _, r := range got {
			if found = append(found, r); len(found) == f.Limit {
				return found, r.ID, nil
			}
		}
	}
	return found, 0, nil
}
