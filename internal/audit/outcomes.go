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

// An Outcome sums up an account's logins.
type Outcome struct {
	LastLogin   time.Time `json:"last_login,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	// Failures are the failures since the requested time, at most those of the newest MostFailures rows.
	Failures int64 `json:"failures"`
	AtLeast  bool  `json:"failures_at_least,omitempty"` // there are more
}

// MostFailures limits the rows read to count an account's failures, because an attack can leave a million in a day.
const MostFailures = 1000

// The conditions of the partial indexes audit_succeeded and audit_failed, verbatim: else SQLite does not use them.
const (
	succeededOf = `SELECT ` + columns + ` FROM audit WHERE decision = 'succeeded' AND realm = $1 AND account = $2
		ORDER BY id DESC LIMIT $3`
	lastOf = `COALESCE((SELECT CASE WHEN last_at > at THEN last_at ELSE at END FROM audit
		WHERE decision = '%s' AND realm = $1 AND account = $2 ORDER BY id DESC LIMIT 1), 0)`
	outcomeOf = `SELECT COALESCE(SUM(count), 0), count(*) FROM
		(SELECT count FROM audit WHERE decision = 'failed' AND realm = $1 AND account = $2 AND id >= $3 ORDER BY id DESC
		LIMIT $4) AS newest`
	nextOf = `(SELECT account FROM audit WHERE decision = '%s' AND realm = $1 AND account %s $2 ORDER BY account LIMIT 1)`
)

func lastQuery() string {
	return `SELECT ` + fmt.Sprintf(lastOf, "succeeded") + `, ` + fmt.Sprintf(lastOf, "failed")
}

// Outcome returns when an account last logged in and last failed, and its failures since a time.
func (l *Log) Outcome(ctx context.Context, realm, account string, since time.Time) (o Outcome, err error) {
	var login, failure, rows int64
	realm, account = realmOf(realm), events.Escape(account)
	if err = l.db.QueryRowContext(ctx, lastQuery(), realm, account).Scan(&login, &failure); err == nil {
		err = l.db.QueryRowContext(ctx, outcomeOf, realm, account, since.UnixMilli()<<sequenceBits,
			MostFailures).Scan(&o.Failures, &rows)
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

// A Failing is a tried user name, existing or not, with its wrong passwords.
type Failing struct {
	Account  string
	Failures int64 // since the requested time
	Last     time.Time
}

// MostFailing limits the rows that Failing reads: an attack writes hundreds a minute, and an administrator waits.
const MostFailing = 30_000

// failing reads the newest rows by the index audit_part. PostgreSQL's SUM is not a BIGINT, hence CAST.
const failing = `SELECT account, CAST(failures AS BIGINT), last, seen FROM (
	SELECT account, SUM(CASE WHEN at >= $2 THEN count ELSE 0 END) AS failures, MAX(at) AS last, COUNT(*) AS seen FROM (
		SELECT account, at, count FROM audit WHERE part = 1 AND realm = $1 AND id >= $3 ORDER BY id DESC LIMIT $4) AS newest
	GROUP BY account) AS each_account`

// Failing returns the accounts of a realm with wrong passwords, unordered: among the newest MostFailing rows, since a
// time or, with ever, all. whole is false if there were more rows.
func (l *Log) Failing(ctx context.Context, realm string, since time.Time,
	ever bool) (all []Failing, whole bool, err error) {
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

// MostSuccesses limits the rows of Successes.
const MostSuccesses = 1000

// Successes returns an account's newest successful logins, newest first.
func (l *Log) Successes(ctx context.Context, realm, account string) ([]Row, error) {
	return l.rows(ctx, succeededOf, realmOf(realm), events.Escape(account), MostSuccesses)
}

// Integration returns the integration of a row's attempts.
func (r Row) Integration() string {
	door, _, _ := strings.Cut(r.Detail, ", ")
	return door
}

// AtDevice reports whether the device cookie made the client a known client.
func (r Row) AtDevice() bool { return strings.HasSuffix(r.Detail, knownDevice) }

// Sprayed reports whether the attempts had a sprayed password.
func (r Row) Sprayed() bool { return strings.HasSuffix(r.Detail, sprayedPassword) }

// Summed reports whether a row sums up attempts beyond the quota. It has only what they have in common.
func (r Row) Summed() bool { return r.Kind == KindAttempt && strings.HasSuffix(r.Detail, summedUp) }

// About returns the newest n rows about an account or an IP address. With both it intersects the newest thousand of
// each, so that an attack on one does not make it read everything.
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
	// Operations on the account have no IP address.
	account, at := events.Escape(of.Account), events.AddressText(from.Network.Addr())
	list = slices.DeleteFunc(append(list, more...), func(r Row) bool {
		return r.Account != account || r.Address != at && r.Kind == KindAttempt
	})
	return newest(list, n), err
}

func newest(list []Row, n int) []Row {
	slices.SortFunc(list, func(a, b Row) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	list = slices.CompactFunc(list, func(a, b Row) bool { return a.ID == b.ID })
	return list[:min(n, len(list))]
}

// Names returns the user names of a realm with checked passwords that begin with prefix and follow after, in byte
// order. With failed it includes wrong passwords, whose names an attacker can invent. It reads one row per name.
func (l *Log) Names(ctx context.Context, realm, prefix, after string, failed bool,
	limit int) (names []string, err error) {
	prefix, from, beyond := events.Escape(prefix), ">=", ""
	if beyond = prefix; after != "" && events.Escape(after) >= prefix {
		from, beyond = ">", events.Escape(after)
	}
	if beyond == "" {
		from = ">" // no user name is empty
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
