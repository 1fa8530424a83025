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
)

// An Outcome is what became of an account's passwords.
type Outcome struct {
	LastLogin   time.Time `json:"last_login,omitzero"`
	LastFailure time.Time `json:"last_failure,omitzero"`
	Failures    int64     `json:"failures"` // since the time that was asked for
}

// Each of these reads one of the indexes audit_succeeded and audit_failed, whose
// conditions they repeat word for word: SQLite takes such an index for nothing else.
const (
	succeededOf = `SELECT ` + columns + ` FROM audit WHERE decision = 'succeeded' AND realm = $1 AND account = $2 ORDER BY at DESC LIMIT $3`
	lastOf      = `COALESCE((SELECT CASE WHEN last_at > at THEN last_at ELSE at END FROM audit
		WHERE decision = '%s' AND realm = $1 AND account = $2 ORDER BY at DESC LIMIT 1), 0)`
	failuresOf = `COALESCE((SELECT SUM(count) FROM audit WHERE decision = 'failed' AND realm = $1 AND account = $2 AND at >= $3), 0)`
	nextOf     = `(SELECT account FROM audit WHERE decision = '%s' AND realm = $1 AND account %s $2 ORDER BY account LIMIT 1)`
)

func outcomeQuery() string {
	return `SELECT ` + fmt.Sprintf(lastOf, "succeeded") + `, ` + fmt.Sprintf(lastOf, "failed") + `, ` + failuresOf
}

// Outcome tells when an account was last logged in to and last failed, and how many
// failures there were since a time.
func (l *Log) Outcome(ctx context.Context, realm, account string, since time.Time) (o Outcome, err error) {
	var login, failure int64
	err = l.db.QueryRowContext(ctx, outcomeQuery(), realmOf(realm), events.Escape(account), since.UnixMilli()).Scan(&login, &failure, &o.Failures)
	if err != nil {
		return o, fmt.Errorf("audit: outcome: %w", err)
	}
	if login > 0 {
		o.LastLogin = time.UnixMilli(login)
	}
	if failure > 0 {
		o.LastFailure = time.UnixMilli(failure)
	}
	return o, nil
}

// MostSuccesses is how many successes of an account Successes reads.
const MostSuccesses = 1000

// Successes are an account's newest successes, newest first.
func (l *Log) Successes(ctx context.Context, realm, account string) ([]Row, error) {
	return l.rows(ctx, succeededOf, realmOf(realm), events.Escape(account), MostSuccesses)
}

// AtDevice reports whether a device cookie vouched for the attempts of a row.
func (r Row) AtDevice() bool { return strings.HasSuffix(r.Detail, knownDevice) }

// Sprayed reports whether the attempts of a row had a password that strangers try on many
// accounts.
func (r Row) Sprayed() bool { return strings.HasSuffix(r.Detail, sprayedPassword) }

// About are the newest rows about an account or an address, newest first: n at most. With
// both it looks for what they have in common among the newest thousand of either, so that
// an attack on the one does not make it read everything.
func (l *Log) About(ctx context.Context, realm, account string, address netip.Addr, n int) (list []Row, err error) {
	realm, account = realmOf(realm), events.Escape(account)
	if account != "" && address.IsValid() {
		return l.both(ctx, realm, account, address, n)
	}
	if account != "" {
		return l.rows(ctx, aboutAccount, account, realm, n)
	}
	list, err = l.rows(ctx, aboutAddress, events.AddressText(address), realm, n)
	if err == nil {
		var sums []Row
		sums, err = l.rows(ctx, aboutAddress, networkText(networkOf(address)), realm, n)
		list = newest(append(list, sums...), n)
	}
	return list, err
}

const (
	aboutAccount = `SELECT ` + columns + ` FROM audit WHERE account = $1 AND realm = $2 ORDER BY at DESC LIMIT $3`
	aboutAddress = `SELECT ` + columns + ` FROM audit WHERE address = $1 AND realm = $2 ORDER BY at DESC LIMIT $3`
	lookedAt     = 1000
)

func (l *Log) both(ctx context.Context, realm, account string, address netip.Addr, n int) ([]Row, error) {
	at := events.AddressText(address)
	list, err := l.rows(ctx, aboutAccount, account, realm, lookedAt)
	if err != nil {
		return nil, err
	}
	more, err := l.rows(ctx, aboutAddress, at, realm, lookedAt)
	// What an administrator did for the account was done at no address.
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
