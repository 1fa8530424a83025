package policy

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/guard"
	"authguard/internal/background"
	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	// mostRecent limits the remembered account and IP pairs.
	mostRecent = 50_000
	// flushEvery is the interval between writes.
	flushEvery = 10 * time.Second
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

// An Effect counts the attempts over a limit in the last day. All but Attempts are estimates within about 1 %.
type Effect struct {
	Attempts  int64 `json:"attempts"`
	Accounts  int64 `json:"accounts"`
	Addresses int64 `json:"addresses"` // an IPv6 /64 is one
	// Later is how many of the accounts logged in afterwards from the same IP address, at the same node: likely false
	// positives.
	Later int64 `json:"logged_in_later"`
}

// A tally is one node's count of a limit's effects in one hour.
type tally struct {
	attempts                   int64
	accounts, addresses, later *events.Distinct
	changed                    bool // not yet in the database
}

type tallyKey struct {
	realm string
	hour  int64 // its start, Unix milliseconds
	Limit
}

type client struct{ realm, account, address string }

// Effects is a sink of the event bus that counts attempts over a limit, and the accounts and IP addresses that they
// affected (HyperLogLog: no names are stored). Each node has its own rows in the database. It is safe for concurrent
// use.
type Effects struct {
	db   *sql.DB
	log  *slog.Logger
	now  func() time.Time
	hash func(string) uint64
	node string

	flushing sync.Mutex

	mu     sync.Mutex
	open   map[tallyKey]*tally
	recent *lru.Cache[client, []Limit]
}

var _ events.Sink = (*Effects)(nil)

// NewEffects returns Effects over a migrated database. The secret is the same on all nodes.
func NewEffects(db *sql.DB, secret []byte, now func() time.Time, log *slog.Logger) *Effects {
	l := &Effects{db: db, log: log, now: now, hash: events.KeyedHash(secret), node: rand.Text(), open: map[tallyKey]*tally{}}
	l.recent, _ = lru.New[client, []Limit](mostRecent) // fails only for a size below 1
	return l
}

// Handle counts events.
func (l *Effects) Handle(batch []guard.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range batch {
		e := &batch[i]
		ending := events.EndingOf(e)
		if ending == events.Undecided && e.Edge != guard.Met {
			continue
		}
		from := clientOf(e)
		for _, one := range limitsOf(e) {
			l.count(from, one, e.At)
		}
		if ending == events.Succeeded {
			limits, _ := l.recent.Get(from)
			for _, one := range limits {
				l.tally(from, one, e.At).later.Add(from.account)
			}
			l.recent.Remove(from)
		}
	}
}

// HandleSwitch does nothing.
func (l *Effects) HandleSwitch(events.ModeSwitch) {}

// Tick does nothing: Run saves.
func (l *Effects) Tick(time.Time) {}

func clientOf(e *guard.Event) client {
	c := client{cmp.Or(e.Realm, guard.DefaultRealm), e.Account, events.AddressText(e.Address)}
	if e.Reasons.Has(guard.BadAccountName) {
		c.account = ""
	}
	if a := e.Address.Unmap().WithZone(""); a.Is6() {
		c.address = netip.PrefixFrom(a, 64).Masked().String()
	}
	return c
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
		by := guard.SprayLimits
		if e.Reasons.Has(guard.StepUpNeeded) {
			by = guard.StepUpLimits
		}
		all = append(all, Limit{LimitSet: by})
	}
	return all
}

// TextOf returns Limit.Text for a reason's limit.
func TextOf(r guard.Reason) string {
	switch {
	case r.Limit != nil && r.Event != "":
		return fmt.Sprintf("%d/%s %s by %s", r.Limit.Failures, times.FormatDuration(r.Limit.Window), r.Limit.Action, r.Subject)
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
	return fmt.Sprintf("%d/%s %s", l.Failures, times.FormatDuration(l.Window), l.Action)
}

// count counts an attempt; the caller holds the lock.
func (l *Effects) count(from client, one Limit, at time.Time) {
	t := l.tally(from, one, at)
	t.attempts++
	t.addresses.Add(from.address)
	if from.account != "" {
		t.accounts.Add(from.account)
	}
	if limits, _ := l.recent.Get(from); !slices.Contains(limits, one) {
		l.recent.Add(from, append(slices.Clip(limits), one))
	}
}

// tally returns the tally of an hour, which then changes; the caller holds the lock.
func (l *Effects) tally(from client, one Limit, at time.Time) *tally {
	key := tallyKey{from.realm, at.Truncate(time.Hour).UnixMilli(), one}
	t := l.open[key]
	if t == nil {
		t = newTally(l.hash)
		l.open[key] = t
	}
	t.changed = true
	return t
}

// Run saves every few seconds until ctx ends, and once more then.
func (l *Effects) Run(ctx context.Context) {
	flush := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, flushWithin)
		defer cancel()
		return l.Flush(ctx)
	}
	background.Save(ctx, flushEvery, flush, func(err error) {
		l.log.Warn("effects of limits could not be saved; they are retried", "error", err)
	})
}

// A row is a tally as it is saved. It has no names.
type row struct {
	Attempts                   int64
	Accounts, Addresses, Later []byte
}

func newTally(hash func(string) uint64) *tally {
	return &tally{accounts: events.NewDistinct(hash), addresses: events.NewDistinct(hash), later: events.NewDistinct(hash)}
}

// Flush saves the changed tallies. After a failure they wait, for a day at most.
func (l *Effects) Flush(ctx context.Context) error {
	l.flushing.Lock()
	defer l.flushing.Unlock()
	rows := l.changed()
	if len(rows) == 0 {
		return nil
	}
	err := database.InTx(ctx, l.db, func(tx *sql.Tx) error {
		for key, r := range rows {
			counts, err := json.Marshal(r)
			if err == nil {
				_, err = tx.ExecContext(ctx, `INSERT INTO policy_effects (realm, hour, limit_set, limit_text, monitored, node,
					counts) VALUES ($1, $2, $3, $4, $5, $6, $7)
					ON CONFLICT (realm, hour, limit_set, limit_text, monitored, node) DO UPDATE SET counts = excluded.counts`,
					key.realm, key.hour, key.LimitSet, key.Text, flag(key.Monitored), l.node, string(counts))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for key := range rows {
		if t := l.open[key]; t != nil {
			t.changed = true
		}
	}
	return fmt.Errorf("policy: saving effects of limits: %w", err)
}

// changed returns the rows to save, and forgets hours that are over and saved.
func (l *Effects) changed() map[tallyKey]row {
	l.mu.Lock()
	defer l.mu.Unlock()
	rows, now := map[tallyKey]row{}, l.now()
	maps.DeleteFunc(l.open, func(key tallyKey, t *tally) bool {
		if over := now.Sub(time.UnixMilli(key.hour)); !t.changed && over > 2*time.Hour || over > Day+time.Hour {
			return true
		}
		if t.changed {
			rows[key] = row{t.attempts, t.accounts.Save(), t.addresses.Save(), t.later.Save()}
			t.changed = false
		}
		return false
	})
	return rows
}

func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// LastDay returns a realm's counts of the last 24 hours, to the hour. Other nodes' counts lag by some seconds.
func (l *Effects) LastDay(ctx context.Context, realm string) (map[Limit]Effect, error) {
	if err := l.Flush(ctx); err != nil {
		return nil, err
	}
	sums := map[Limit]*tally{}
	err := database.Each(ctx, l.db, func(rows *sql.Rows) error {
		var one Limit
		var r row
		var monitored int64
		var counts string
		if err := rows.Scan(&one.LimitSet, &one.Text, &monitored, &counts); err != nil {
			return err
		}
		one.Monitored = monitored != 0
		sum := sums[one]
		if sum == nil {
			sum = newTally(l.hash)
			sums[one] = sum
		}
		err := json.Unmarshal([]byte(counts), &r)
		sum.attempts += r.Attempts
		sum.accounts.Load(r.Accounts)
		sum.addresses.Load(r.Addresses)
		sum.later.Load(r.Later)
		return err
	}, `SELECT limit_set, limit_text, monitored, counts FROM policy_effects WHERE realm = $1 AND hour > $2`,
		realm, l.now().Add(-Day).Truncate(time.Hour).UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("policy: reading effects of limits: %w", err)
	}
	all := map[Limit]Effect{}
	for one, sum := range sums {
		all[one] = Effect{sum.attempts, int64(sum.accounts.Count()), int64(sum.addresses.Count()), int64(sum.later.Count())}
	}
	return all, nil
}

// Purge deletes expired counts.
func (l *Effects) Purge(ctx context.Context) (int64, error) {
	oldest := l.now().Add(-Day - time.Hour).UnixMilli()
	rows, err := database.Exec(ctx, l.db, `DELETE FROM policy_effects WHERE hour < $1`, oldest)
	if err != nil {
		return 0, fmt.Errorf("policy: purge: %w", err)
	}
	return rows, nil
}
