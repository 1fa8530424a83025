package trusted

import (
	"context"
	"time"
)

// A Key is the keyed digest of an account, an IP address or a device.
type Key [16]byte

// A Status is a client's status for an account. The zero Status is Unknown.
type Status uint8

const (
	// Unknown: the account has no login from this client, or it has expired.
	Unknown Status = iota
	// Known: the account has signed in from this client.
	Known
	// Spent: the client was known and used up its budget of wrong passwords. It is treated as unknown, except that its
	// IP address's limits challenge it instead of blocking. Otherwise an attacker behind the same router could lock the
	// user out.
	Spent
)

// Defaults of a store's Limits.
const (
	DefaultLimits = 10
	DefaultTTL    = 90 * 24 * time.Hour
)

// Limits bound the stored clients of one account.
type Limits struct {
	MaxClients int           // default DefaultLimits
	TTL        time.Duration // since the last login; default DefaultTTL
	// Sharers is how many accounts an IP address may be a known client of; default
	// DefaultSharers. See SharedAddresses.
	Sharers int
}

// A Store stores the known clients of accounts. All methods are safe for concurrent use. After an error, the caller
// treats the client as unknown.
//
// A client is the digest of an IP address or device. For devices, a Store contains only those with a spent budget,
// and the account's reset, which invalidates all earlier device cookies.
type Store interface {
	// Record returns an account's record without expired clients. It must not be changed. For an account without a
	// record, such as an invented name, it costs no query.
	Record(ctx context.Context, account Key, now time.Time) (Record, error)
	// Remember makes a client known, or updates its last use. A login before the account's last reset changes nothing.
	// ErrFull means that there is no room: see [Record.Remember]. For the zero account or client, Remember and Spend
	// return ErrNoKey.
	Remember(ctx context.Context, account, client Key, now time.Time) error
	// Spend marks a client as Spent. Remember makes it known again.
	Spend(ctx context.Context, account, client Key, now time.Time) error
	// Forget removes a client. With the zero client, it removes all clients and devices of the account: a reset.
	// Removing a spent device makes its cookie valid again; to invalidate the cookie, reset the account.
	Forget(ctx context.Context, account, client Key, now time.Time) error
}
