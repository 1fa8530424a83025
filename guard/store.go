package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// A Store is all that a Guard counts in and remembers places in. [Local] keeps
// it in this process; the nodes of a site share one in Redis. All methods are
// safe for concurrent use. An error means that the store failed: what was asked
// for may or may not have happened.
//
// A Charge is passed and returned by value, so that an attempt in memory
// allocates next to nothing.
type Store interface {
	// Begin finds out what the attempt's place is to its account and charges the
	// attempt as if it had failed (R1): every subject that counts for such a
	// place, or none if a rung that binds has no room. Check and change are one
	// step. A place that has used up its budget is spent on the way, and the
	// attempt charged as a stranger's (R14). It returns the charge with ID,
	// Status, Place and Usage filled in; the usage is that before the charge.
	Begin(ctx context.Context, c Charge) (Charge, error)
	// Settle says how an attempt ended that Begin has charged. Failed leaves the
	// charges where they are. Succeeded takes the attempt's own charges back and
	// no other (R4), clears the pair and makes the place privileged. Abandoned
	// takes back what account and pair were charged, Withdrawn everything.
	Settle(ctx context.Context, c Charge, o Outcome) error
	// Read fills in Status, Place and Usage as Begin does, with Used, and changes
	// nothing.
	Read(ctx context.Context, c Charge) (Charge, error)
	// Clear forgets every charge of Subjects[First:Last].
	Clear(ctx context.Context, c Charge) error
	// Forget ends the privilege of one place of an account or, with the zero
	// place, of all its places and devices, whose cookies are void from then on.
	Forget(ctx context.Context, account, place trusted.Key, now time.Time) error
}

// The subjects of a Charge.
const (
	AddressSubject uint8 = iota
	NetworkSubject
	AccountSubject
	PairSubject
	subjectCount
)

// A Charge is one attempt as a Store sees it: the account, where the attempt
// comes from, what it is charged to, and what came of it. The zero Charge is
// charged to nothing.
type Charge struct {
	// Now is the guard's clock. Stores go by it for the age of places, and by
	// clocks of their own for windows.
	Now time.Time
	// Account is the account's digest; zero if no name was given.
	Account trusted.Key
	// Places are where the attempt comes from: a device whose cookie is genuine,
	// if one came along, and the address. The first that is privileged counts,
	// else the last. A Place with the zero Key is none.
	Places [2]Place
	// Subjects are the address, the network, the account and the pair; First and
	// Last say which of them count for a stranger. For a privileged place only
	// the pair does.
	Subjects    [subjectCount]failures.Subject
	First, Last uint8
	// Binds are the rungs that stop the attempt. Found puts those into Subjects
	// that go with the place's status.
	Binds *Binds
	// Ends are the pair's rungs beyond which a place is no longer privileged.
	Ends failures.Mask
	// KnownOnly charges nothing unless the place is privileged: everybody else
	// has to solve a challenge first.
	KnownOnly bool

	// ID stands for the charge; zero if nothing was charged.
	ID failures.ChargeID
	// Status is what the place is to the account.
	Status trusted.Status
	// Place is the one of Places that counted.
	Place trusted.Key
	// Usage is the usage of each subject that counted. If one subject refused the
	// charge, that of the others may be zero.
	Usage [subjectCount]failures.Usage
	// PlaceErr is why the places could not be asked for; the attempt is taken
	// for a stranger's then.
	PlaceErr error
}

// Binds are sets of rungs by a place's status and by subject.
type Binds [3][subjectCount]failures.Mask

// A Place is where an attempt comes from: an address or a device.
type Place struct {
	Key trusted.Key
	// Pair is the key of the account at this place.
	Pair failures.Key
	// Issued is when a device's cookie was issued; zero for an address. A device
	// is privileged by its cookie, unless it was spent or the account's places
	// were all forgotten since.
	Issued time.Time
}

// Found notes which of the places counts and what it is to the account, and
// returns the subjects to charge, with the rungs that bind.
func (c *Charge) Found(place int, status trusted.Status) []failures.Subject {
	c.Status, c.Place = status, c.Places[place].Key
	c.Subjects[PairSubject].Key = c.Places[place].Pair
	for i := range c.Subjects {
		c.Subjects[i].Bind = c.Binds[status][i]
	}
	first, last := c.Counted()
	return c.Subjects[first:last]
}

// Counted says which subjects the attempt is charged to: Subjects[first:last].
// None are if only known places may go on.
func (c *Charge) Counted() (first, last uint8) {
	switch {
	case c.Status == trusted.Privileged:
		return PairSubject, subjectCount
	case c.KnownOnly:
		return 0, 0
	}
	return c.First, c.Last
}

// BudgetSpent reports whether an attempt was stopped since its privileged place
// has used up its budget: the store is to spend the place and charge again.
func (c *Charge) BudgetSpent() bool {
	return c.Status == trusted.Privileged && !c.ID.Charged() && c.Usage[PairSubject].Failed&c.Ends != 0
}

// Local is a Store in this process: counters in memory, and places in memory or
// in SQL. It is safe for concurrent use.
type Local struct {
	counters *failures.Memory
	places   trusted.Store
}

var _ Store = (*Local)(nil)

// NewLocal returns a store of counters and places, which remain the caller's to
// run. The counters must retain charges for Policy.Retain and call
// them undecided for Policy.PendingFor.
func NewLocal(counters *failures.Memory, places trusted.Store) *Local {
	return &Local{counters: counters, places: places}
}

// Begin implements Store.
func (l *Local) Begin(ctx context.Context, c Charge) (Charge, error) {
	err := l.charge(ctx, &c, l.find(ctx, &c))
	if err != nil || !c.BudgetSpent() {
		return c, err
	}
	if err = l.places.Spend(ctx, c.Account, c.Place, c.Now); err != nil {
		c.PlaceErr = fmt.Errorf("ending a spent privilege: %w", err)
		return c, l.charge(ctx, &c, c.Found(atAddress, trusted.Spent))
	}
	return c, l.charge(ctx, &c, l.find(ctx, &c))
}

func (l *Local) charge(ctx context.Context, c *Charge, subjects []failures.Subject) (err error) {
	if len(subjects) > 0 {
		first, last := c.Counted()
		c.ID, err = l.counters.Charge(ctx, subjects, c.Usage[first:last])
	}
	return err
}

// find asks for the places, the device before the address: others behind the
// address can use up its budget, but not the device's.
func (l *Local) find(ctx context.Context, c *Charge) []failures.Subject {
	counts, found := 0, trusted.Stranger
	for i := range c.Places {
		p := &c.Places[i]
		if p.Key == (trusted.Key{}) || c.Account == (trusted.Key{}) {
			continue
		}
		status, err := l.status(ctx, c, p)
		if err != nil {
			c.PlaceErr = err
		}
		if counts, found = i, status; status == trusted.Privileged {
			break
		}
	}
	return c.Found(counts, found)
}

func (l *Local) status(ctx context.Context, c *Charge, p *Place) (trusted.Status, error) {
	status, err := l.places.Status(ctx, c.Account, p.Key, c.Now)
	if p.Issued.IsZero() || status == trusted.Spent || err != nil {
		return status, err
	}
	reset, err := l.places.ResetAt(ctx, c.Account)
	if err != nil || !p.Issued.After(reset) {
		return trusted.Stranger, err
	}
	return trusted.Privileged, nil
}

// Settle implements Store.
func (l *Local) Settle(ctx context.Context, c Charge, o Outcome) error {
	if !c.ID.Charged() {
		return nil
	}
	first, last := c.Counted()
	subjects := c.Subjects[first:last]
	switch o {
	case Succeeded:
		return errors.Join(
			l.counters.TakeBack(ctx, c.ID, subjects),
			l.counters.Clear(ctx, c.Subjects[PairSubject:]),
			l.places.Remember(ctx, c.Account, c.Places[atAddress].Key, c.Now),
		)
	case Abandoned:
		ofAccount := max(first, min(last, AccountSubject))
		return errors.Join(
			l.counters.TakeBack(ctx, c.ID, c.Subjects[ofAccount:last]),
			l.counters.Failed(ctx, c.ID, c.Subjects[first:ofAccount]),
		)
	case Withdrawn:
		return l.counters.TakeBack(ctx, c.ID, subjects)
	}
	return l.counters.Failed(ctx, c.ID, subjects)
}

// Read implements Store.
func (l *Local) Read(ctx context.Context, c Charge) (Charge, error) {
	subjects := l.find(ctx, &c)
	first, last := c.Counted()
	return c, l.counters.Read(ctx, subjects, c.Usage[first:last])
}

// Clear implements Store.
func (l *Local) Clear(ctx context.Context, c Charge) error {
	return l.counters.Clear(ctx, c.Subjects[c.First:c.Last])
}

// Forget implements Store.
func (l *Local) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return l.places.Forget(ctx, account, place, now)
}
