package audit

import (
	"context"
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/internal/database"
	"authguard/internal/events"
)

// An Outcome sums up an account's logins.
type Outcome struct {
	LastLogin   time.Time `json:"last_login,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	// Failures are the failures since the requested time, or a lower bound: those of any MostFailures rows.
	Failures int64 `json:"failures"`
	AtLeast  bool  `json:"failures_at_least,omitempty"` // there may be more
}

// MostFailures limits the rows read to count an account's failures, because an attack can leave a million in a day.
const MostFailures = 1000

// The queries of an account name part, with which the index audit_account is in the order of IDs. Wrong passwords are in
// parts 1 and, summed up, 2.
const (
	succeededOf = `SELECT ` + columns + ` FROM audit WHERE part = 3 AND realm = $1 AND account = $2
		ORDER BY id DESC LIMIT $3`
	lastOf = `SELECT
		COALESCE((SELECT CASE WHEN last_at > at THEN last_at ELSE at END FROM audit WHERE id =
			(SELECT MAX(id) FROM audit WHERE part = 3 AND realm = $1 AND account = $2)), 0),
		COALESCE((SELECT CASE WHEN last_at > at THEN last_at ELSE at END FROM audit WHERE id = (SELECT MAX(id) FROM
			(SELECT MAX(id) AS id FROM audit WHERE part = 1 AND realm = $1 AND account = $2 UNION ALL
			SELECT MAX(id) FROM audit WHERE part = 2 AND realm = $1 AND account = $2 AND decision = 'failed') AS each_part)), 0)`
	failuresOf = `SELECT COALESCE(SUM(count), 0), count(*) FROM (SELECT count FROM audit
		WHERE part IN (1, 2) AND decision = 'failed' AND realm = $1 AND account = $2 AND id >= $3 LIMIT $4) AS each_row`
)

// Outcome returns when an account last logged in and last failed, and its failures since a time.
func (l *Log) Outcome(ctx context.Context, realm, account string, since time.Time) (o Outcome, err error) {
	var login, failure, rows int64
	realm, account = realmOf(realm), events.Escape(account)
	if err = l.db.QueryRowContext(ctx, lastOf, realm, account).Scan(&login, &failure); err == nil {
		err = l.db.QueryRowContext(ctx, failuresOf, realm, account, since.UnixMilli()<<sequenceBits,
			MostFailures).Scan(&o.Failures, &rows)
	}
	if err != nil {
		return o, fmt.Errorf("audit: outcome: %w", err)
	}
	o.AtLeast = rows == MostFailures
	o.LastLogin, o.LastFailure = database.Time(login), database.Time(failure)
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
	err = database.Each(ctx, l.db, func(each *sql.Rows) error {
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

const successBefore = `SELECT ` + columns + ` FROM audit WHERE part = 3 AND realm = $1 AND account = $2 AND id < $3
	ORDER BY id DESC LIMIT 1`

// SuccessBefore returns an account's last successful login before a time; the zero Row if there was none.
func (l *Log) SuccessBefore(ctx context.Context, realm, account string, before time.Time) (Row, error) {
	rows, err := l.rows(ctx, successBefore, realmOf(realm), events.Escape(account), before.UnixMilli()<<sequenceBits)
	if err != nil || len(rows) == 0 {
		return Row{}, err
	}
	return rows[0], nil
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

// About returns the newest n rows about an account or an IP address. With both, it returns the account's attempts from
// the IP address and the operations on the account, which have no IP address.
func (l *Log) About(ctx context.Context, realm, account string, address netip.Addr, n int) (list []Row, err error) {
	f := Filter{Realm: realmOf(realm), Account: account}
	if account == "" && address.IsValid() {
		f.Network = One(address)
	}
	c := f.conditions()
	if account == "" || !address.IsValid() {
		return l.find(ctx, f, c, n)
	}
	return l.find(ctx, f, c, n, "part = 4", "place = '"+placeOf(One(address))+"'")
}
