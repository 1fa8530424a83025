// Package lists keeps the administrators' allow and block lists in the SQL
// database. guard holds a copy in memory, which it asks for every attempt.
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
	"time"

	"authguard/internal/changes"
	"authguard/internal/sqltx"
)

// DefaultFor is how long an entry lasts unless its request says otherwise.
const DefaultFor = 168 * time.Hour

// MaxNote is the longest note and the longest name of a person, in bytes.
const MaxNote = 500

var (
	// ErrPrefix says that a text is neither an address nor a range.
	ErrPrefix = errors.New("lists: not an address or range")
	// ErrTooWide says that a range covers the whole internet.
	ErrTooWide = errors.New("lists: the range holds every IP address")
	// ErrNotListed says that there is no such entry.
	ErrNotListed = errors.New("lists: not listed")
)

// A Verdict is what a list says. The zero Verdict is none and is refused.
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

// A Request asks for an entry.
type Request struct {
	Prefix  netip.Prefix // see ParsePrefix
	Verdict Verdict
	For     time.Duration // how long; 0: DefaultFor
	Forever bool          // never expires; For must be 0
	Note    string
	By      string // who asks
	// Force allows blocking every address there is. Allowing every address stays
	// an error: that would switch the product off without anybody noticing.
	Force bool
}

// Validate names everything that is wrong with a request; for a range of every
// address that includes ErrTooWide.
func (r Request) Validate() error {
	all := unmap(r.Prefix).Bits() == 0
	var problems []error
	for _, one := range []struct {
		wrong bool
		err   error
	}{
		{!r.Prefix.IsValid(), ErrPrefix},
		{r.Verdict != Allow && r.Verdict != Block, fmt.Errorf("lists: verdict: must be allow or block, not %.20q", r.Verdict)},
		{r.For < 0 || r.For > 0 && r.Forever, errors.New("lists: for: must be more than 0, or forever, not both")},
		{len(r.Note) > MaxNote || len(r.By) > MaxNote, fmt.Errorf("lists: note: must be at most %d bytes", MaxNote)},
		{!sqltx.Holds(r.Note) || !sqltx.Holds(r.By), errors.New("lists: note: must be text")},
		{all && r.Verdict == Allow, fmt.Errorf("%w: allowing it would switch authguard off; use `authguard captcha disable` or monitored limits", ErrTooWide)},
		{all && r.Verdict != Allow && !r.Force, fmt.Errorf("%w: blocking it locks out all clients, including yours; use --force if that is intended", ErrTooWide)},
	} {
		if one.wrong {
			problems = append(problems, one.err)
		}
	}
	return errors.Join(problems...)
}

// Table is the lists table. It is safe for concurrent use, also by several
// processes.
type Table struct{ db *sql.DB }

// New takes a migrated database.
func New(db *sql.DB) *Table { return &Table{db} }

// Add lists a range, and replaces an entry of exactly the same range.
func (t *Table) Add(ctx context.Context, r Request, now time.Time) (Entry, error) {
	all, err := t.AddAll(ctx, []Request{r}, now)
	if err != nil {
		return Entry{}, err
	}
	return all[0], nil
}

// inOneStatement is how many entries one statement has: SQLite takes 999 values in all.
const inOneStatement = 100

// AddAll is Add for many, in one transaction and as one change: all or none. No range
// may be there twice.
func (t *Table) AddAll(ctx context.Context, requests []Request, now time.Time) (entries []Entry, err error) {
	for _, r := range requests {
		if err := r.Validate(); err != nil {
			return nil, err
		}
		entries = append(entries, r.entry(now))
	}
	err = sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		for some := range slices.Chunk(entries, inOneStatement) {
			if err := insert(ctx, tx, some); err != nil {
				return err
			}
		}
		return changes.Bump(ctx, tx, changes.Lists)
	})
	if err != nil {
		return nil, fmt.Errorf("lists: add: %w", err)
	}
	return entries, nil
}

// entry is what a good request makes.
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

// expires is when the entry ends as the table has it: 0 is never.
func (e Entry) expires() int64 {
	if e.ExpiresAt.IsZero() {
		return 0
	}
	return e.ExpiresAt.UnixMilli()
}

func insert(ctx context.Context, tx *sql.Tx, entries []Entry) error {
	var rows []string
	var args []any
	for i, e := range entries {
		n := 7 * i
		rows = append(rows, fmt.Sprintf("($%d, $%d, $%d, $%d, $%d, $%d, $%d)", n+1, n+2, n+3, n+4, n+5, n+6, n+7))
		args = append(args, e.ID, e.Prefix.String(), string(e.Verdict), e.Note, e.CreatedBy, e.CreatedAt.UnixMilli(), e.expires())
	}
	_, err := sqltx.Exec(ctx, tx, `INSERT INTO lists (id, cidr, verdict, note, created_by, created_at, expires_at) VALUES `+strings.Join(rows, ", ")+`
		ON CONFLICT (cidr) DO UPDATE SET id = excluded.id, verdict = excluded.verdict,
		note = excluded.note, created_by = excluded.created_by, created_at = excluded.created_at, expires_at = excluded.expires_at, told = 0`, args...)
	return err
}

// Prolong changes when the entry of exactly this range ends: so long after now, or
// never for 0. The error is ErrNotListed if there is none that is active.
func (t *Table) Prolong(ctx context.Context, prefix netip.Prefix, by time.Duration, now time.Time) (until time.Time, err error) {
	prefix, expires := unmap(prefix).Masked(), int64(0)
	if by > 0 {
		until = now.Truncate(time.Millisecond).Add(by)
		expires = until.UnixMilli()
	}
	told := 0
	if by <= soon {
		told = 1 // whoever prolongs it by hours knows when it ends
	}
	rows, err := t.change(ctx, `UPDATE lists SET expires_at = $1, told = $2 WHERE cidr = $3 AND (expires_at = 0 OR expires_at > $4)`, expires, told, prefix.String(), now.UnixMilli())
	if err != nil {
		return until, fmt.Errorf("lists: extend %v: %w", prefix, err)
	}
	if rows == 0 {
		return until, fmt.Errorf("%w: %v", ErrNotListed, prefix)
	}
	return until, nil
}

// change runs one statement and tells all nodes if it changed anything.
func (t *Table) change(ctx context.Context, statement string, args ...any) (rows int64, err error) {
	err = sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		if rows, err = sqltx.Exec(ctx, tx, statement, args...); err != nil || rows == 0 {
			return err
		}
		return changes.Bump(ctx, tx, changes.Lists)
	})
	return rows, err
}

// Remove takes exactly this range off the list. The error is ErrNotListed if it
// is not there, even if a wider one is.
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

// All is every entry that is active at a time, oldest first.
func (t *Table) All(ctx context.Context, now time.Time) ([]Entry, error) {
	return t.read(ctx, `WHERE expires_at = 0 OR expires_at > $1 ORDER BY created_at, id`, now.UnixMilli())
}

func (t *Table) read(ctx context.Context, where string, args ...any) (entries []Entry, err error) {
	err = sqltx.Each(ctx, t.db, func(rows *sql.Rows) error {
		e, err := scan(rows)
		entries = append(entries, e)
		return err
	}, `SELECT id, cidr, verdict, note, created_by, created_at, expires_at FROM lists `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("lists: read: %w", err)
	}
	return entries, nil
}

// soon is how long before its end somebody is told of an entry.
const soon = 24 * time.Hour

// Expiring are the entries that somebody has to be told of: if one that was made for
// longer than a day ends within a day, all that do within two, so that there is one
// alert a day and not one for each entry. Told says that it was done.
func (t *Table) Expiring(ctx context.Context, now time.Time) ([]Entry, error) {
	all, err := t.read(ctx, `WHERE told = 0 AND expires_at > $1 AND expires_at <= $2 AND expires_at - created_at > $3 ORDER BY expires_at, cidr`,
		now.UnixMilli(), now.Add(2*soon).UnixMilli(), soon.Milliseconds())
	if len(all) > 0 && all[0].ExpiresAt.Sub(now) > soon {
		return nil, err
	}
	return all, err
}

// Told notes that somebody was told that entries are about to expire.
func (t *Table) Told(ctx context.Context, entries []Entry) error {
	err := sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		for _, e := range entries {
			if _, err := sqltx.Exec(ctx, tx, `UPDATE lists SET told = 1 WHERE id = $1`, e.ID); err != nil {
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

// Purge deletes what expired before a time, and what named lists met the day before
// that, and returns how many rows that was.
func (t *Table) Purge(ctx context.Context, before time.Time) (int64, error) {
	if _, err := sqltx.Exec(ctx, t.db, `DELETE FROM list_hits WHERE hour < $1`, before.Add(-25*time.Hour).UnixMilli()); err != nil {
		return 0, fmt.Errorf("lists: purge: %w", err)
	}
	rows, err := sqltx.Exec(ctx, t.db, `DELETE FROM lists WHERE expires_at > 0 AND expires_at <= $1`, before.UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("lists: purge: %w", err)
	}
	return rows, nil
}

// Hits are how many attempts came from addresses on a named list, and how many of them
// the list stopped.
type Hits struct {
	Met     int64 `json:"met"`
	Stopped int64 `json:"stopped"`
}

// Plus are both together.
func (h Hits) Plus(more Hits) Hits { return Hits{h.Met + more.Met, h.Stopped + more.Stopped} }

// AddHits adds what a realm's named lists met just now.
func (t *Table) AddHits(ctx context.Context, realm string, all map[string]Hits, now time.Time) error {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		_, err := sqltx.Exec(ctx, t.db, `INSERT INTO list_hits (realm, list, hour, met, stopped) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (realm, list, hour) DO UPDATE SET met = list_hits.met + excluded.met, stopped = list_hits.stopped + excluded.stopped`,
			realm, name, now.Truncate(time.Hour).UnixMilli(), all[name].Met, all[name].Stopped)
		if err != nil {
			return fmt.Errorf("lists: hits of %s: %w", name, err)
		}
	}
	return nil
}

// HitsOf are what a realm's named lists have met since a time, to the hour.
func (t *Table) HitsOf(ctx context.Context, realm string, since time.Time) (map[string]Hits, error) {
	all := map[string]Hits{}
	err := sqltx.Each(ctx, t.db, func(rows *sql.Rows) error {
		var name string
		var h Hits
		err := rows.Scan(&name, &h.Met, &h.Stopped)
		all[name] = h
		return err
	}, `SELECT list, SUM(met), SUM(stopped) FROM list_hits WHERE realm = $1 AND hour > $2 GROUP BY list`, realm, since.Truncate(time.Hour).UnixMilli())
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
	e.CreatedAt = time.UnixMilli(created)
	if expires != 0 {
		e.ExpiresAt = time.UnixMilli(expires)
	}
	e.Prefix, err = netip.ParsePrefix(cidr)
	return e, err
}

// ParsePrefix reads an address (one host: /32 or /128) or a range in CIDR form.
// Host bits are cleared, and an IPv4-mapped IPv6 address is the IPv4 address. A
// zone is refused: it means something on one machine only. The error is
// ErrPrefix.
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

// unmap leaves a range alone that is wider than ::ffff:0:0/96: it does not hold
// IPv4 addresses only.
func unmap(prefix netip.Prefix) netip.Prefix {
	if prefix.Addr().Is4In6() && prefix.Bits() >= 96 {
		return netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix
}
