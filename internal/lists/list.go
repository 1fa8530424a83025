// Package lists stores the administrators' allowlist and blocklist in the SQL database. Package guard has a copy in
// memory, which it checks for every attempt.
//
// [Cover] and [ExportFormat] export them for firewalls and proxies, so that these decide before a request costs
// anything: as ranges that do not overlap, because most tools lack "the most specific entry decides". The only user
// input in an export is addresses, never notes (R23).
package lists

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/database"
	"authguard/internal/times"
)

// DefaultFor is how long an entry lasts by default.
const DefaultFor = 168 * time.Hour

// MaxNote is the maximum length of a note and of an administrator's name, in bytes.
const MaxNote = 500

var (
	// ErrPrefix means that a text is neither an IP address nor a range.
	ErrPrefix = errors.New("lists: not an address or range")
	// ErrTooWide means that a range contains every IP address.
	ErrTooWide = errors.New("lists: the range holds every IP address")
	// ErrNotListed means that there is no such entry.
	ErrNotListed = errors.New("lists: not listed")
)

// A Verdict is what an entry does. The zero Verdict is invalid.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Block Verdict = "block"
)

// An Entry is one range with a verdict.
type Entry struct {
	ID        string       `json:"-"`
	Prefix    netip.Prefix `json:"cidr"`
	Verdict   Verdict      `json:"verdict"`
	Note      string       `json:"note,omitempty"`
	CreatedBy string       `json:"by"`
	CreatedAt time.Time    `json:"created"`
	ExpiresAt time.Time    `json:"expires,omitzero"` // zero: never
}

// A Request describes a new entry.
type Request struct {
	Prefix  netip.Prefix // see ParsePrefix
	Verdict Verdict
	For     time.Duration // 0: DefaultFor
	Forever bool          // never expires; For must be 0
	Note    string
	By      string // the administrator
	// Force permits blocking every IP address. Allowing that is always an error: it would silently end the protection.
	Force bool
}

// Validate joins all problems of a request, with ErrTooWide for a range of every IP address.
func (r Request) Validate() error {
	all := unmap(r.Prefix).Bits() == 0
	var problems []error
	for _, one := range []struct {
		wrong bool
		err   error
	}{
		{!r.Prefix.IsValid(), ErrPrefix},
		{r.Verdict != Allow && r.Verdict != Block, fmt.Errorf("lists: verdict: must be allow or block, not %.20q",
			r.Verdict)},
		{r.For < 0 || r.For > 0 && r.Forever, errors.New("lists: for: must be more than 0, or forever, not both")},
		{len(r.Note) > MaxNote || len(r.By) > MaxNote, fmt.Errorf("lists: note: must be at most %d bytes", MaxNote)},
		{!database.Holds(r.Note) || !database.Holds(r.By), errors.New("lists: note: must be text")},
		{all && r.Verdict == Allow, fmt.Errorf("%w: allowing it would switch authguard off; use "+
			"`authguard captcha disable` or monitored limits", ErrTooWide)},
		{all && r.Verdict != Allow && !r.Force,
			fmt.Errorf("%w: blocking it locks out all clients, including yours; use --force if that is intended", ErrTooWide)},
	} {
		if one.wrong {
			problems = append(problems, one.err)
		}
	}
	return errors.Join(problems...)
}

// Table is the database table. It is safe for concurrent use, also by several processes. The operations of
// administrators also need Memory.
type Table struct {
	// Memory is the copy for the guards.
	Memory *guard.Lists
	// Direct, if set, returns the configured proxies: blocking one blocks all clients behind it.
	Direct func() []netip.Prefix

	db      *sql.DB
	reading sync.Mutex // serializes Reload
}

// New returns a Table over a migrated database.
func New(db *sql.DB) *Table { return &Table{db: db} }

// Add adds an entry and replaces one of exactly the same range.
func (t *Table) Add(ctx context.Context, r Request, now time.Time) (Entry, error) {
	all, err := t.AddAll(ctx, []Request{r}, now)
	if err != nil {
		return Entry{}, err
	}
	return all[0], nil
}

// inOneStatement is the number of entries per statement; SQLite takes 999 values.
const inOneStatement = 100

// AddAll is Add for many entries in one transaction, all or none. The ranges must be distinct.
func (t *Table) AddAll(ctx context.Context, requests []Request, now time.Time) (entries []Entry, err error) {
	for _, r := range requests {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		entries = append(entries, r.entry(now))
	}
	err = database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		for some := range slices.Chunk(entries, inOneStatement) {
			if err := insert(ctx, tx, some); err != nil {
				return err
			}
		}
		return database.Announce(ctx, tx, database.ListsChanged)
	})
	if err != nil {
		return nil, fmt.Errorf("lists: add: %w", err)
	}
	return entries, nil
}

func (r Request) entry(now time.Time) Entry {
	e := Entry{
		ID: rand.Text(), Prefix: unmap(r.Prefix).Masked(), Verdict: r.Verdict,
		Note: r.Note, CreatedBy: r.By, CreatedAt: now.Truncate(time.Millisecond),
	}
	if !r.Forever {
		e.ExpiresAt = e.CreatedAt.Add(cmp.Or(r.For, DefaultFor))
	}
	return e
}

func insert(ctx context.Context, tx *sql.Tx, entries []Entry) error {
	var rows []string
	var args []any
	for i, e := range entries {
		n := 7 * i
		rows = append(rows, fmt.Sprintf("($%d, $%d, $%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5, n+6, n+7))
		args = append(args, e.ID, e.Prefix.String(), string(e.Verdict), e.Note, e.CreatedBy, e.CreatedAt.UnixMilli(),
			database.Milliseconds(e.ExpiresAt))
	}
	_, err := database.Exec(ctx, tx, `INSERT INTO lists (id, cidr, verdict, note, created_by, created_at, expires_at)
		VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (cidr) DO UPDATE SET id = excluded.id, verdict = excluded.verdict,
		note = excluded.note, created_by = excluded.created_by, created_at = excluded.created_at, expires_at =
			excluded.expires_at, told = 0`, args...)
	return err
}

// Prolong sets when the active entry of exactly this range expires: by after now, or never for 0. The error is
// ErrNotListed if there is none.
func (t *Table) Prolong(ctx context.Context, prefix netip.Prefix, by time.Duration,
	now time.Time) (until time.Time, err error) {
	prefix, expires := unmap(prefix).Masked(), int64(0)
	if by > 0 {
		until = now.Truncate(time.Millisecond).Add(by)
		expires = until.UnixMilli()
	}
	told := 0
	if by <= soon {
		told = 1 // no reminder for an extension by hours
	}
	rows, err := t.change(ctx, `UPDATE lists SET expires_at = $1, told = $2 WHERE cidr = $3 AND (expires_at = 0
		OR expires_at > $4)`, expires, told, prefix.String(), now.UnixMilli())
	if err != nil {
		return until, fmt.Errorf("lists: extend %v: %w", prefix, err)
	}
	if rows == 0 {
		return until, fmt.Errorf("%w: %v", ErrNotListed, prefix)
	}
	return until, nil
}

// change runs one statement and notifies all nodes of a change.
func (t *Table) change(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	err = database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		if rows, err = database.Exec(ctx, tx, statement, args...); err != nil || rows == 0 {
			return err
		}
		return database.Announce(ctx, tx, database.ListsChanged)
	})
	return rows, err
}

// Remove removes the entry of exactly this range, not a wider one. The error is ErrNotListed if there is none.
func (t *Table) Remove(ctx context.Context, prefix netip.Prefix) error {
	prefix = unmap(prefix).Masked()
	rows, err := t.change(ctx, `DELETE FROM lists WHERE cidr = $1`, prefix.String())
	if err != nil {
		return fmt.Errorf("lists: remove %v: %w", prefix, err)
	}
	if rows == 0 {
		return fmt.Errorf("%w: %v", ErrNotListed, prefix)
	}
	return nil
}

// All returns the active entries, oldest first.
func (t *Table) All(ctx context.Context, now time.Time) ([]Entry, error) {
	return t.read(ctx, `WHERE expires_at = 0 OR expires_at > $1 ORDER BY created_at, id`, now.UnixMilli())
}

func (t *Table) read(ctx context.Context, where string, args ...any) (entries []Entry, err error) {
	err = database.Each(ctx, t.db, func(rows *sql.Rows) error {
		e, err := scan(rows)
		entries = append(entries, e)
		return err
	}, `SELECT id, cidr, verdict, note, created_by, created_at, expires_at FROM lists `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("lists: read: %w", err)
	}
	return entries, nil
}

// soon is how long before its expiry an entry is alerted.
const soon = 24 * time.Hour

// expiring returns the entries to alert about. If one made for longer than a day expires within a day, it returns all
// that expire within two: one alert a day, not one per entry. alerted marks them.
func (t *Table) expiring(ctx context.Context, now time.Time) ([]Entry, error) {
	all, err := t.read(ctx, `WHERE told = 0 AND expires_at > $1 AND expires_at <= $2 AND expires_at - created_at > $3
		ORDER BY expires_at, cidr`,
		now.UnixMilli(), now.Add(2*soon).UnixMilli(), soon.Milliseconds())
	if len(all) > 0 && all[0].ExpiresAt.Sub(now) > soon {
		return nil, err
	}
	return all, err
}

// shownExpiring is how many entries an alert lists.
const shownExpiring = 20

// AlertExpiring sends one alert about all entries that expire soon, at most once a day. It marks them afterwards, so
// that a crash in between repeats the alert.
func (t *Table) AlertExpiring(ctx context.Context, now time.Time, to *alerts.Alerter) error {
	all, err := t.expiring(ctx, now)
	if err != nil || len(all) == 0 {
		return err
	}
	var body strings.Builder
	fmt.Fprintf(&body, "%d entries expire within two days, the first at %s. Extend them on the page IP lists.",
		len(all), times.Text(all[0].ExpiresAt.UTC()))
	for _, e := range all[:min(len(all), shownExpiring)] {
		fmt.Fprintf(&body, "\n%s %s until %s", e.Verdict, e.Prefix, times.Text(e.ExpiresAt.UTC()))
		if e.Note != "" {
			fmt.Fprintf(&body, ": %s", alerts.Name(e.Note))
		}
	}
	if more := len(all) - shownExpiring; more > 0 {
		fmt.Fprintf(&body, "\nand %d more", more)
	}
	to.Raise(alerts.ListExpiring, "", body.String())
	return t.alerted(ctx, all)
}

// alerted marks entries, so that they raise no second alert.
func (t *Table) alerted(ctx context.Context, entries []Entry) error {
	err := database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		for _, e := range entries {
			if _, err := database.Exec(ctx, tx, `UPDATE lists SET told = 1 WHERE id = $1`, e.ID); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("lists: marking as reported: %w", err)
	}
	return nil
}

// Purge deletes entries expired before a time and older matches of IP lists. It returns the number of entries.
func (t *Table) Purge(ctx context.Context, before time.Time) (int64, error) {
	if _, err := database.Exec(ctx, t.db, `DELETE FROM list_hits
		WHERE hour < $1`, before.Add(-25*time.Hour).UnixMilli()); err != nil {
		return 0, fmt.Errorf("lists: purge: %w", err)
	}
	rows, err := database.Exec(ctx, t.db, `DELETE FROM lists WHERE expires_at > 0 AND expires_at <= $1`, before.UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("lists: purge: %w", err)
	}
	return rows, nil
}

// Hits are the attempts from IP addresses on an IP list, and those that the list stopped.
type Hits struct {
	Met     int64 `json:"met"`
	Stopped int64 `json:"stopped"`
}

// Plus returns the sum.
func (h Hits) Plus(more Hits) Hits { return Hits{h.Met + more.Met, h.Stopped + more.Stopped} }

// AddHits adds current matches of a realm's IP lists.
func (t *Table) AddHits(ctx context.Context, realm string, all map[string]Hits, now time.Time) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := database.Exec(ctx, t.db, `INSERT INTO list_hits (realm, list, hour, met, stopped) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (realm, list, hour) DO UPDATE
				SET met = list_hits.met + excluded.met, stopped = list_hits.stopped + excluded.stopped`,
			realm, name, now.Truncate(time.Hour).UnixMilli(), all[name].Met, all[name].Stopped)
		if err != nil {
			return fmt.Errorf("lists: hits of %s: %w", name, err)
		}
	}
	return nil
}

// HitsOf returns the matches of a realm's IP lists since a time, to the hour.
func (t *Table) HitsOf(ctx context.Context, realm string, since time.Time) (map[string]Hits, error) {
	all := map[string]Hits{}
	err := database.Each(ctx, t.db, func(rows *sql.Rows) error {
		var name string
		var h Hits
		err := rows.Scan(&name, &h.Met, &h.Stopped)
		all[name] = h
		return err
	}, `SELECT list, SUM(met), SUM(stopped) FROM list_hits WHERE realm = $1 AND hour > $2
		GROUP BY list`, realm, since.Truncate(time.Hour).UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("lists: hits: %w", err)
	}
	return all, nil
}

func scan(rows *sql.Rows) (e Entry, err error) {
	var cidr string
	var created, expires int64
	if err = rows.Scan(&e.ID, &cidr, &e.Verdict, &e.Note, &e.CreatedBy, &created, &expires); err != nil {
		return Entry{}, err
	}
	e.CreatedAt, e.ExpiresAt = time.UnixMilli(created), database.Time(expires)
	e.Prefix, err = netip.ParsePrefix(cidr)
	return e, err
}

// ParsePrefix parses an IP address (as /32 or /128) or a range in CIDR form. It clears host bits and unmaps IPv4-mapped
// IPv6 addresses. It rejects zones, which are local to one machine. The error is ErrPrefix.
func ParsePrefix(text string) (netip.Prefix, error) {
	text = strings.TrimSpace(text)
	prefix, err := netip.ParsePrefix(text)
	if !strings.Contains(text, "/") {
		var addr netip.Addr
		if addr, err = netip.ParseAddr(text); err == nil && addr.Zone() == "" {
			prefix = netip.PrefixFrom(addr, addr.BitLen())
		}
	}
	if err != nil || !prefix.IsValid() {
		return netip.Prefix{}, fmt.Errorf("%w: %.60q; write 192.0.2.7, 192.0.2.0/24 or 2001:db8::/48", ErrPrefix, text)
	}
	return unmap(prefix).Masked(), nil
}

// unmap leaves a range wider than ::ffff:0:0/96 unchanged, because it does not contain only IPv4 addresses.
func unmap(prefix netip.Prefix) netip.Prefix {
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix
}
