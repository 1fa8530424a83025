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
	// Stranger: nobody has logged in to the account from there, or it was too
	// long ago.
	Stranger Status = iota
	// Privileged: somebody has.
	Privileged
	// Spent: it was privileged and used up its budget of wrong passwords. It
	// is treated like a stranger, except that its address's limits never
	// refuse it: a neighbour behind the same router must not lock the owner
	// out.
	Spent
)

// Defaults of a store's Limits.
const (
	DefaultPlaces = 10
	DefaultTTL    = 90 * 24 * time.Hour
)

// Limits bound what is remembered of one account.
type Limits struct {
	Places int           // default DefaultPlaces
	TTL    time.Duration // since the last login from there; default DefaultTTL
	// Sharers is how many accounts an address may be a place of; default
	// DefaultSharers. See Crowds.
	Sharers int
}

// A Store remembers places. All methods are safe for concurrent use. An error
// means that the store failed; the caller then treats the place as a stranger.
//
// The place of a device is its own digest. A store learns of a device only
// when it is spent, and of an account's Reset, which ends every device cookie
// issued before.
type Store interface {
	// Status tells what a place is to an account at a time.
	Status(ctx context.Context, account, place Key, now time.Time) (Status, error)
	// Remember makes a place privileged, or notes that it was used again. A login
	// before the account's last reset changes nothing. ErrFull says that there is no
	// room: see [Record.Remember]. The zero account or place is ErrNoKey, here and in
	// Spend.
	Remember(ctx context.Context, account, place Key, now time.Time) error
	// Spend ends a place's privilege because its budget is used up. Remember
	// gives it back.
	Spend(ctx context.Context, account, place Key, now time.Time) error
	// Forget ends one place's privilege without a trace; with the zero place,
	// that of all the account's places and devices: a reset. A device that is
	// not to vouch any more needs a reset: forgotten alone, its cookie is good
	// again.
	Forget(ctx context.Context, account, place Key, now time.Time) error
	// ResetAt is when the account's places were last forgotten as a whole, or
	// a little later where a bound was reached; zero if never. Device cookies
	// issued at or before it are void.
	ResetAt(ctx context.Context, account Key) (time.Time, error)
}
