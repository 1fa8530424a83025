package policy

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/duration"
	"authguard/internal/events"
	"authguard/internal/sqltx"
)

const (
	// mostPairs limits the account and IP pairs that are stored by name per limit, hour and node. Further ones are counted
	// together, so that invented names cannot fill the table.
	mostPairs = 100
	// mostLater limits the additional pairs that are stored because they logged in later.
	mostLater = 3000
	// mostRecent limits the remembered account and IP pairs.
	mostRecent = 50_000
	// flushEvery is the interval between writes.
	flushEvery = 10 * time.Second
	// laterFor is how long a login is matched with the rows of other nodes.
	laterFor = 3 * flushEvery
	// flushWithin limits one write.
	flushWithin = 20 * time.Second
	// Day is how long the counts are kept, to the hour.
	Day = 24 * time.Hour
)

// A Limit is a configured limit (or an action without a count), identified by its subject (LimitSet).
type Limit struct {
	LimitSet string
	Text     string // "5/24h challenge"; the action, for the only limit of a subject
	// Monitored is set for what a monitored limit would have done.
	Monitored bool
}

// Limit.Text of actions without a count.
const (
	TextCAPTCHA = "challenge"
	TextSlow    = "delay"
	TextBlock   = "block"
)

// Met counts the attempts over a limit in the last day. Beyond the bound, all but Attempts are lower bounds.
type Met struct {
	Attempts  int64 `json:"attempts"`
	Accounts  int64 `json:"accounts"`
	Addresses int64 `json:"addresses"`
	// Later is how many of the accounts logged in afterwards from the same IP address: likely false positives.
	Later int64 `json:"logged_in_later"`
	More  bool  `json:"at_least,omitempty"` // the numbers are lower bounds
	// KnownClients are the newest of the accounts that logged in later.
	KnownClients []Person `json:"people,omitempty"`
}

// A Person is an account and IP pair.
type Person struct {
	Account string `json:"account"`
	Address string `json:"address"`
}

type person struct {
	realm string
	Person
}

type rowKey struct {
	realm string
	hour  int64
	Limit
	Person
}

type row struct {
	first int64
	count int64
	later bool
}

// A Ledger is a sink of the event bus that counts attempts over a limit. After some seconds in memory, the nodes'
// counts add up in the database. It is safe for concurrent use.
type Ledger struct {
	db  *sql.DB
	log *slog.Logger
	now func() time.Time

	flushing sync.Mutex

	mu     sync.Mutex
	open   map[rowKey]*row // not yet in the database
	hour   int64           // of known and pairs
	known  map[rowKey]bool // rows with a name
	pairs  map[limitOf]int
	later  map[limitOf]int
	recent *lru.Cache[person, []Limit]
	logins map[person]time.Time // their rows may be other nodes'
}

type limitOf struct {
	realm string
	Limit
}

var _ events.Sink = (*Ledger)(nil)

// NewLedger returns a ledger over a migrated database.
func NewLedger(db *sql.DB, now func() time.Time, log *slog.Logger) *Ledger {
	l := &Ledger{db: db, log: log, now: now, open: map[rowKey]*row{}, logins: map[person]time.Time{}}
	l.recent, _ = lru.New[person, []Limit](mostRecent) // fails only for a size below 1
	l.begin(0)
	return l
}

// begin starts an hour; the caller holds the lock.
func (l *Ledger) begin(hour int64) {
	l.hour, l.known, l.pairs, l.later = hour, map[rowKey]bool{}, map[limitOf]int{}, map[limitOf]int{}
}

// Handle counts events.
func (l *Ledger) Handle(batch []guard.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		e := &batch[i]
		ending := events.EndingOf(e)
		if ending == events.Undecided && e.Edge != guard.Met {
			continue
		}
		who := person{cmp.Or(e.Realm, guard.DefaultRealm), personOf(e)}
		met := limitsOf(e)
		for _, one := range met {
			l.met(who, one, e.At)
		}
		if ending == events.Succeeded {
			l.loggedIn(who, e)
		}
	}
}

// HandleSwitch does nothing.
func (l *Ledger) HandleSwitch(events.ModeSwitch) {}

// Tick does nothing: Run saves.
func (l *Ledger) Tick(time.Time) {}

// personOf returns the pair of an event; an IPv6 /64 counts as one address.
func personOf(e *guard.Event) Person {
	p := Person{Account: events.Escape(e.Account), Address: events.AddressText(e.Address)}
	if e.Reasons.Has(guard.BadAccountName) {
		p.Account = ""
	}
	if a := e.Address.Unmap().WithZone(""); a.Is6() {
		p.Address = netip.PrefixFrom(a, 64).Masked().String()
	}
	return p
}

// limitsOf returns the limits that stopped the event, or would have, without duplicates.
func limitsOf(e *guard.Event) (all []Limit) {
	for _, r := range e.Reasons {
		one := Limit{r.LimitSet(), TextOf(r), r.Monitored || r.Limit != nil && r.Limit.Action == guard.Alert}
		if one.LimitSet == "" || e.Settled && !r.Monitored || slices.Contains(all, one) {
			continue
		}
		all = append(all, one)
	}
	if e.Settled && e.Outcome == guard.Insufficient {
		all = append(all, Limit{LimitSet: guard.SprayLimits})
	}
	return all
}

// TextOf returns Limit.Text for a reason's limit.
func TextOf(r guard.Reason) string {
	switch {
	case r.Limit != nil && r.Event != "":
		return fmt.Sprintf("%d/%s %s by %s", r.Limit.Failures, duration.Format(r.Limit.Window), r.Limit.Action, r.Subject)
	case r.Limit != nil:
		return LimitText(*r.Limit)
	case r.Cause == guard.ModeOn:
		return TextCAPTCHA
	case r.Cause == guard.SiteThrottled:
		return TextSlow
	case r.Cause == guard.BlockedByAdmin:
		return TextBlock
	}
	return ""
}

// LimitText returns a limit as configured, without monitor.
func LimitText(l guard.Limit) string {
	if l.Failures == 0 {
		return "0 " + l.Action.String()
	}
	return fmt.Sprintf("%d/%s %s", l.Failures, duration.Format(l.Window), l.Action)
}

// met counts one; the caller holds the lock.
func (l *Ledger) met(who person, one Limit, at time.Time) {
	hour := at.Truncate(time.Hour).UnixMilli()
	if hour > l.hour {
		l.begin(hour)
	}
	key, of := rowKey{who.realm, hour, one, who.Person}, limitOf{who.realm, one}
	if !l.known[key] {
		if l.pairs[of] >= mostPairs {
			key.Person = Person{}
		} else {
			l.known[key] = true
			l.pairs[of]++
		}
	}
	l.row(key, at).count++
	if limits, _ := l.recent.Get(who); !slices.Contains(limits, one) {
		l.recent.Add(who, append(slices.Clip(limits), one))
	}
}

func (l *Ledger) row(key rowKey, at time.Time) *row {
	r := l.open[key]
	if r == nil {
		r = &row{first: at.UnixMilli()}
		l.open[key] = r
	}
	return r
}

// loggedIn notes a successful login; the caller holds the lock. This node's rows are marked here, others in the
// database, and only for an unknown client, since limits stop no others.
func (l *Ledger) loggedIn(who person, e *guard.Event) {
	limits, met := l.recent.Get(who)
	if !met && e.NewClient && len(l.logins) < mostRecent {
		l.logins[who] = e.At
	}
	hour := e.At.Truncate(time.Hour).UnixMilli()
	for _, one := range limits {
		key, of := rowKey{who.realm, hour, one, who.Person}, limitOf{who.realm, one}
		if !l.known[key] {
			if l.later[of] >= mostLater {
				continue
			}
			l.later[of]++
		}
		l.row(key, e.At).later = true
	}
	l.recent.Remove(who)
}

// Run saves every few seconds until ctx ends, and once more then.
func (l *Ledger) Run(ctx context.Context) {
	flush := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushWithin)
		defer cancel()
		return l.Flush(ctx)
	}
	background.Save(ctx, flushEvery, flush, func(err error) {
		l.log.Warn("hits of limits could not be saved; they are retried", "error", err)
	})
}

// Flush saves the new counts. After a failure they wait, for a day at most.
func (l *Ledger) Flush(ctx context.Context) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	l.mu.Lock()
	open, logins := l.open, maps.Clone(l.logins)
	l.open = map[rowKey]*row{}
	l.mu.Unlock()
	if len(open)+len(logins) == 0 {
		return nil
	}
	err := sqltx.Run(ctx, l.db, func(tx *sql.Tx) error { return write(ctx, tx, open, logins) })
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.putBack(open)
		return fmt.Errorf("policy: saving hits of limits: %w", err)
	}
	now := l.now()
	maps.DeleteFunc(l.logins, func(_ person, at time.Time) bool { return now.Sub(at) > laterFor })
	return nil
}

// putBack keeps counts that could not be written, except expired ones; the caller holds the lock.
func (l *Ledger) putBack(open map[rowKey]*row) {
	oldest := l.now().Add(-Day).UnixMilli()
	for key, r := range open {
		if key.hour < oldest {
			continue
		}
		if now := l.open[key]; now != nil {
			r.count, r.later = r.count+now.count, r.later || now.later
		}
		l.open[key] = r
	}
}

// write writes rows in the same order on all nodes, which avoids deadlocks.
func write(ctx context.Context, tx *sql.Tx, open map[rowKey]*row, logins map[person]time.Time) error {
	if len(open) > 0 {
		insert, err := tx.PrepareContext(ctx, `INSERT INTO policy_effects (realm, hour, limit_set, limit_text, monitored,
			account, address, first, count, later) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
			ON CONFLICT (realm, hour, limit_set, limit_text, monitored, account, address)
			DO UPDATE SET count = policy_effects.count + excluded.count, later =
				CASE WHEN excluded.later > 0 THEN 1 ELSE policy_effects.later END`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for _, key := range slices.SortedFunc(maps.Keys(open), rowKey.compare) {
			r := open[key]
			if _, err := insert.ExecContext(ctx, key.realm, key.hour, key.LimitSet, key.Text, flag(key.Monitored), key.Account,
				key.Address, r.first, r.count, flag(r.later)); err != nil {
				return err
			}
		}
	}
	byName := func(a, b person) int {
		return cmp.Or(strings.Compare(a.realm, b.realm), strings.Compare(a.Account, b.Account), strings.Compare(a.Address,
			b.Address))
	}
	for _, who := range slices.SortedFunc(maps.Keys(logins), byName) {
		at := logins[who]
		if _, err := sqltx.Exec(ctx, tx, `UPDATE policy_effects SET later = 1
			WHERE realm = $1 AND account = $2 AND address = $3 AND later = 0 AND first <= $4 AND hour > $5`,
			who.realm, who.Account, who.Address, at.UnixMilli(), at.Add(-Day).Truncate(time.Hour).UnixMilli()); err != nil {
			return err
		}
	}
	return nil
}

func (k rowKey) compare(o rowKey) int {
	return cmp.Or(strings.Compare(k.realm, o.realm), cmp.Compare(k.hour, o.hour), strings.Compare(k.LimitSet, o.LimitSet),
		strings.Compare(k.Text, o.Text),
		cmp.Compare(flag(k.Monitored), flag(o.Monitored)), strings.Compare(k.Account, o.Account), strings.Compare(k.Address,
			o.Address))
}

func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// morePeople limits the accounts per limit that are named because they logged in later.
const morePeople = 5

// LastDay returns a realm's counts of the last 24 hours, to the hour. Other nodes' counts lag by some seconds.
func (l *Ledger) LastDay(ctx context.Context, realm string) (map[Limit]Met, error) {
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	all, since := map[Limit]Met{}, l.now().Add(-Day).Truncate(time.Hour).UnixMilli()
	err := sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
		var one Limit
		var watched, more int64
		var m Met
		err := rows.Scan(&one.LimitSet, &one.Text, &watched, &m.Attempts, &m.Accounts, &m.Addresses, &m.Later, &more)
		one.Monitored, m.More = watched != 0, more != 0
		all[one] = m
		return err
	}, `SELECT limit_set, limit_text, monitored, SUM(count),
		COUNT(DISTINCT CASE WHEN account <> '' THEN account END), COUNT(DISTINCT CASE WHEN address <> '' THEN address END),
		COUNT(DISTINCT CASE WHEN later = 1 AND account <> '' THEN account END), MAX(CASE WHEN address = '' THEN 1 ELSE 0 END)
		FROM policy_effects WHERE realm = $1 AND hour > $2 GROUP BY limit_set, limit_text, monitored`, realm, since)
	if err == nil {
		err = sqltx.Each(ctx, l.db, func(rows *sql.Rows) error {
			var one Limit
			var watched int64
			var p Person
			err := rows.Scan(&one.LimitSet, &one.Text, &watched, &p.Account, &p.Address)
			one.Monitored = watched != 0
			if m := all[one]; len(m.KnownClients) < morePeople {
				m.KnownClients = append(m.KnownClients, p)
				all[one] = m
			}
			return err
		}, `SELECT limit_set, limit_text, monitored, account, address FROM policy_effects
			WHERE realm = $1 AND hour > $2 AND later = 1 AND account <> ''
			GROUP BY limit_set, limit_text, monitored, account, address
			ORDER BY MAX(first) DESC, account, address LIMIT 500`, realm, since)
	}
	if err != nil {
		return nil, fmt.Errorf("policy: reading hits of limits: %w", err)
	}
	return all, nil
}

// Purge deletes expired counts.
func (l *Ledger) Purge(ctx context.Context) (int64, error) {
	oldest := l.now().Add(-Day - time.Hour).UnixMilli()
	rows, err := sqltx.Exec(ctx, l.db, `DELETE FROM policy_effects WHERE hour < $1`, oldest)
	if err != nil {
		return 0, fmt.Errorf("policy: purge: %w", err)
	}
	return rows, nil
}
