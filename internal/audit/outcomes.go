package audit

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/internal/events"
	"authguard/internal/sqltx"
)

// An Outcome is what became of an account's passwords.
type Outcome struct {
	LastLogin   time.Time `json:"last_login,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	// Failures are those since the time that was asked for, but no more than those of the
	// newest MostFailures rows.
	Failures int64 `json:"failures"`
	AtLeast  bool  `json:"failures_at_least,omitempty"` // there are more
}

// MostFailures is how many rows about an account's failures are read to count them: an
// attack may have left a million in a day.
const MostFailures = 1000

// Each of these reads one of the indexes audit_succeeded and audit_failed, whose
// conditions they repeat word for word: SQLite takes such an index for nothing else.
const (
	succeededOf = `SELECT ` + columns + ` FROM audit WHERE decision = 'succeeded' AND realm = $1 AND account = $2 ORDER BY id DESC LIMIT $3`
	lastOf      = `COALESCE((SELECT CASE WHEN last_at > at THEN last_at ELSE at END FROM audit
		WHERE decision = '%s' AND realm = $1 AND account = $2 ORDER BY id DESC LIMIT 1), 0)`
	outcomeOf = `SELECT COALESCE(SUM(count), 0), count(*) FROM
		(SELECT count FROM audit WHERE decision = 'failed' AND realm = $1 AND account = $2 AND id >= $3 ORDER BY id DESC LIMIT $4) AS newest`
	nextOf = `(SELECT account FROM audit WHERE decision = '%s' AND realm = $1 AND account %s $2 ORDER BY account LIMIT 1)`
)

func lastQuery() string {
	return `SELECT ` + fmt.Sprintf(lastOf, "succeeded") + `, ` + fmt.Sprintf(lastOf, "failed")
}

// Outcome tells when an account was last logged in to and last failed, and how many
// failures there were since a time.
func (l *Log) Outcome(ctx context.Context, realm, account string, since time.Time) (o Outcome, err error) {
	var login, failure, rows int64
	realm, account = realmOf(realm), events.Escape(account)
	if err = l.db.QueryRowContext(ctx, lastQuery(), realm, account).Scan(&login, &failure); err == nil {
		err = l.db.QueryRowContext(ctx, outcomeOf, realm, account, since.UnixMilli()<<sequenceBits, MostFailures).Scan(&o.Failures, &rows)
	}
	if err != nil {
		return o, fmt.Errorf("audit: outcome: %w", err)
	}
	o.AtLeast = rows == MostFailures
	if login > 0 {
		o.LastLogin = time.UnixMilli(login)
	}
	if failure > 0 {
		o.LastFailure = time.UnixMilli(failure)
	}
	return o, nil
}

// A Failing is an account, or a name that is nobody's, whose passwords were wrong.
type Failing struct {
	Account  string
	Failures int64 // since the time that was asked for
	Last     time.Time
}

// MostFailing is how many rows of wrong passwords Failing adds up: an attack writes
// hundreds a minute, and whoever looks waits for it.
const MostFailing = 30_000

// failing reads the newest rows by the index audit_part.
// CAST: a sum is no BIGINT in PostgreSQL.
const failing = `SELECT account, CAST(failures AS BIGINT), last, seen FROM (
	SELECT account, SUM(CASE WHEN at >= $2 THEN count ELSE 0 END) AS failures, MAX(at) AS last, COUNT(*) AS seen FROM (
		SELECT account, at, count FROM audit WHERE part = 1 AND realm = $1 AND id >= $3 ORDER BY id DESC LIMIT $4) AS newest
	GROUP BY account) AS each_account`

// Failing are the accounts of a realm whose passwords were wrong, in no order: as far as
// the newest MostFailing rows go, and back to all with ever, else since a time. Whole is
// false if there were more rows.
func (l *Log) Failing(ctx context.Context, realm string, since time.Time, ever bool) (all []Failing, whole bool, err error) {
	from := since.UnixMilli() << sequenceBits
	if ever {
		from = 0
	}
	var rows int64
	err = sqltx.Each(ctx, l.db, func(each *sql.Rows) error {
		var f Failing
		var last, seen int64
		err := each.Scan(&f.Account, &f.Failures, &last, &seen)
		f.Last = time.UnixMilli(last)
		if rows += seen; f.Account != "" {
			all = append(all, f)
		}
		return err
	}, failing, realmOf(realm), since.UnixMilli(), from, MostFailing)
	if err != nil {
		return nil, false, fmt.Errorf("audit: failing accounts: %w", err)
	}
	return all, rows < MostFailing, nil
}

// MostSuccesses is how many successes of an account Successes reads.
const MostSuccesses = 1000

// Successes are an account's newest successes, newest first.
func (l *Log) Successes(ctx context.Context, realm, account string) ([]Row, error) {
	return l.rows(ctx, succeededOf, realmOf(realm), events.Escape(account), MostSuccesses)
}

// Door is where the attempts of a row came.
func (r Row) Door() string {
	door, _, _ := strings.Cut(r.Detail, ", ")
	return door
}

// AtDevice reports whether a device cookie vouched for the attempts of a row.
func (r Row) AtDevice() bool { return strings.HasSuffix(r.Detail, knownDevice) }

// Sprayed reports whether the attempts of a row had a password that strangers try on many
// accounts.
func (r Row) Sprayed() bool { return strings.HasSuffix(r.Detail, sprayedPassword) }

// Summed reports whether a row sums up attempts that had too many rows already: it names
// what all of them had in common.
func (r Row) Summed() bool { return r.Kind == KindAttempt && strings.HasSuffix(r.Detail, summedUp) }

// About are the newest rows about an account or an address, newest first: n at most. With
// both it looks for what they have in common among the newest thousand of either, so that
// an attack on the one does not make it read everything.
func (l *Log) About(ctx context.Context, realm, account string, address netip.Addr, n int) (list []Row, err error) {
	of := Filter{Realm: realmOf(realm), Account: account, Limit: n}
	from := Filter{Realm: of.Realm, Limit: n}
	if address.IsValid() {
		from.Network = One(address)
	}
	if account != "" && address.IsValid() {
		return l.both(ctx, of, from, n)
	}
	if account != "" {
		return l.Recent(ctx, of)
	}
	return l.Recent(ctx, from)
}

func (l *Log) both(ctx context.Context, of, from Filter, n int) ([]Row, error) {
	of.Limit, from.Limit = MaxLimit, MaxLimit
	list, err := l.Recent(ctx, of)
	if err != nil {
		return nil, err
	}
	more, err := l.Recent(ctx, from)
	// What an administrator did for the account was done at no address.
	account, at := events.Escape(of.Account), events.AddressText(from.Network.Addr())
	list = slices.DeleteFunc(append(list, more...), func(r Row) bool {
		return r.Account != account || r.Address != at && r.Kind == KindAttempt
	})
	return newest(list, n), err
}

// newest are the first n, each once.
func newest(list []Row, n int) []Row {
	slices.SortFunc(list, func(a, b Row) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	list = slices.CompactFunc(list, func(a, b Row) bool { return a.ID == b.ID })
	return list[:min(n, len(list))]
}

// Names are the accounts of a realm, in byte order, whose names begin with a prefix and
// follow after, of which a password was looked at: right ones or, with failed, also wrong
// ones, whose names anybody can invent. It asks once for each name and never reads the
// rows between two of them.
func (l *Log) Names(ctx context.Context, realm, prefix, after string, failed bool, limit int) (names []string, err error) {
	prefix, from, beyond := events.Escape(prefix), ">=", ""
	if beyond = prefix; after != "" && events.Escape(after) >= prefix {
		from, beyond = ">", events.Escape(after)
	}
	if beyond == "" {
		from = ">" // nobody's name is empty
	}
	for len(names) < limit {
		next, err := l.nextName(ctx, realmOf(realm), beyond, from, failed)
		if err != nil || next == "" || !strings.HasPrefix(next, prefix) {
			return names, err
		}
		names, beyond, from = append(names, next), next, ">"
	}
	return names, nil
}

// nextName is the first name beyond another; empty if there is none.
func (l *Log) nextName(ctx context.Context, realm, beyond, from string, failed bool) (string, error) {
	query := `SELECT ` + fmt.Sprintf(nextOf, "succeeded", from)
	if failed {
		query += `, ` + fmt.Sprintf(nextOf, "failed", from)
	} else {
		query += `, NULL`
	}
	var right, wrong sql.NullString
	if err := l.db.QueryRowContext(ctx, query, realm, beyond).Scan(&right, &wrong); err != nil {
		return "", fmt.Errorf("audit: names: %w", err)
	}
	if !right.Valid || wrong.Valid && wrong.String < right.String {
		return wrong.String, nil
	}
	return right.String, nil
}
