package failures

import (
	"context"
	"time"
)

// A Key is a keyed digest: every key has one size whatever was typed, and
// nobody without the secret can aim for a collision or read a name out of a
// dump. All zero means "no key".
type Key [16]byte

// A Subject is one thing that an attempt is charged to.
type Subject struct {
	// Shard says where the key lives. Subjects of one place are kept
	// together: behind one lock here, in one hash slot of a cluster.
	Shard  Key
	Key    Key
	Ladder *Ladder
	// Bind is the set of rungs that must have room for the charge to be made.
	// The others are reported and do not stop it.
	Bind Mask
}

// A Mask is a set of a ladder's rungs, bit i for rung i, and BackoffBit.
type Mask uint16

// BackoffBit stands for the ladder's backoff in a Mask.
const BackoffBit Mask = 1 << 15

// Every is the set of all rungs and the backoff.
const Every Mask = 1<<MaxRungs - 1 | BackoffBit

// Has reports whether rung i is in the set.
func (m Mask) Has(i int) bool { return m&(1<<i) != 0 }

// A Usage is what a store knows of one subject, before the charge that
// asked for it.
type Usage struct {
	// Over is the set of rungs, binding or not, without room for one more
	// charge; BackoffBit means that the next is not due yet.
	Over Mask
	// Failed is what of Over would still be without room if every undecided
	// charge were taken back. Over without Failed is worth waiting for (R3).
	Failed Mask
	// Count is how many charges lie in the ladder's longest window, at most
	// as many as the largest rung asks for.
	Count int32
	// Shared says that the charges may be other keys': at the memory bound new keys have a
	// count in common.
	Shared bool
	// FreeIn is how long until the last of the binding rungs in Over has room
	// again if nothing else happens; if strict ones are among them, the last of
	// those. Zero if none of them is full.
	FreeIn time.Duration
}

// Used is what each rung by itself says, and after them the backoff.
type Used [MaxRungs + 1]RungUse

// A RungUse is how many charges lie in a rung's window, at most as many as the
// largest rung asks for, and how long it stays full; zero if it is not.
type RungUse struct {
	Charges int
	FreeIn  time.Duration
}

// A Store counts charges. All methods are safe for concurrent use. An error
// means that the store could not do its work; what was asked for may or may
// not have happened.
type Store interface {
	// Charge charges every subject, or none if one of them has a binding rung
	// without room; the ID is zero in that case. It fills usages, which
	// must be as long as subjects, with what was true before the charge. Check
	// and change are one step.
	Charge(ctx context.Context, subjects []Subject, usages []Usage) (ChargeID, error)
	// Read fills usages and, unless that is nil, used; both must be as long as
	// subjects. It changes nothing.
	Read(ctx context.Context, subjects []Subject, usages []Usage, used []Used) error
	// TakeBack removes the charge from each subject. It is to be called at most
	// once for a charge and subject; a charge that is gone already (expired,
	// cleared) is no error.
	TakeBack(ctx context.Context, id ChargeID, subjects []Subject) error
	// Failed tells the store that the charge is decided: a failure. A store may
	// make nothing of it, since a charge counts as a failure anyway once it is
	// older than the longest password check; one that does spares the next attempt
	// the wait.
	Failed(ctx context.Context, id ChargeID, subjects []Subject) error
	// Clear forgets every charge of the subjects; or, if what is BackoffBit and
	// not Every, lets their backoff begin anew: the rungs count on, and for the
	// backoff no charge counts that is as old as the newest one, or older.
	Clear(ctx context.Context, subjects []Subject, what Mask) error
}
