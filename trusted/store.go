package trusted

import (
	"context"
	"time"
)

// A Key is the keyed digest of an account, an address or a device.
type Key [16]byte

// A Status says what a place is to an account. The zero Status is Stranger.
type Status uint8

const (
	// Unknown: nobody has logged in to the account from there, or it was too
	// long ago.
	Unknown Status = iota
	// Known: somebody has.
	Known
	// Spent: it was privileged and used up its budget of wrong passwords. It
	// is treated like a stranger, except that its address's limits never
	// refuse it: a neighbour behind the same router must not lock the owner
	// out.
	Spent
)

// Defaults of a store's Limits.
const (
	DefaultLimits = 10
	DefaultTTL    = 90 * 24 * time.Hour
)

// Limits bound what is remembered of one account.
type Limits struct {
	MaxClients int           // default DefaultLimits
	TTL        time.Duration // since the last login from there; default DefaultTTL
	// Sharers is how many accounts an IP address may be a known client of; default
	// DefaultSharers. See SharedAddresses.
	Sharers int
}

// A Store remembers the known clients of accounts. All methods are safe for concurrent use. An
// error means that the store failed; the caller then treats the client as unknown.
//
// A client is the digest of its IP address or device. A store learns of a device only when its
// budget is used up, and of an account's reset, which ends every device cookie issued before.
type Store interface {
	// Record returns what is remembered of an account, without what has expired. It must not be
	// changed. For an account of which nothing is remembered, such as one with an invented name,
	// it costs no query.
	Record(ctx context.Context, account Key, now time.Time) (Record, error)
	// Remember makes a client known, or notes that it was used again. A login before the
	// account's last reset changes nothing. ErrFull means that there is no room: see
	// [Record.Remember]. The zero account or client is ErrNoKey, here and in Spend.
	Remember(ctx context.Context, account, client Key, now time.Time) error
	// Spend makes a known client unknown because its budget is used up. Remember makes it known
	// again.
	Spend(ctx context.Context, account, client Key, now time.Time) error
	// Forget removes a client or, with the zero client, all clients and devices of the account: a
	// reset. A device that must not be known any more needs a reset: if only the device is
	// removed, its cookie is valid again.
	Forget(ctx context.Context, account, client Key, now time.Time) error
}
