package guard

import (
	"context"
	"encoding/binary"
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
	// step. The password's tag is noted with the charge. A place that has used up its budget is spent on the way, and the
	// attempt charged as a stranger's (R14). It returns the charge with ID, Repeat,
	// Status, AtDevice and Usage filled in; the usage is that before the charge.
	Begin(ctx context.Context, c Charge) (Charge, error)
	// Settle says how an attempt ended that Begin has charged. Failed leaves the
	// charges where they are, unless the password was noted before, by an attempt
	// whose charge stands: then the attempt's own are taken back (R28). Succeeded takes the attempt's own charges back and
	// no other (R4), lets the pair's delay begin anew (R30) and makes the address
	// privileged, or is ErrPlace if that alone is impossible, with trusted.ErrFull if
	// there is no room. A Device that is not the attempt's place gets its cookie now, and
	// is spent no more. Abandoned and Withdrawn take all charges back, unless another
	// attempt failed with the same password meanwhile and relies on them.
	Settle(ctx context.Context, c Charge, o Outcome) error
	// Read fills in Status, AtDevice and Usage as Begin does, tells how much is
	// used, and changes nothing.
	Read(ctx context.Context, c Charge) (Charge, Used, error)
	// Clear forgets every charge of Subjects()[First:Last].
	Clear(ctx context.Context, c Charge) error
	// Forget ends the privilege of one place of an account or, with the zero
	// place, of all its places and devices, whose cookies are void from then on.
	Forget(ctx context.Context, account, place trusted.Key, now time.Time) error
}

// ErrPlace says that a login was counted as one, but its place could not be
// remembered.
var ErrPlace = errors.New("guard: the known client could not be saved")

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
	// Account, Address and Network are digests; zero if there is none.
	Account, Address, Network trusted.Key
	// Device is one whose cookie is genuine, if one came along, and Issued when
	// that was issued. A device is privileged by its cookie, unless it was spent
	// or the account's places were all forgotten since. If it is not, the address
	// counts as the attempt's place.
	Device trusted.Key
	Issued time.Time
	// Ladders are those of the subjects. Binds are the rungs that stop the
	// attempt.
	Ladders *Ladders
	Binds   *Binds
	// First and Last say which subjects count for a stranger: Subjects()[First:Last].
	// For a privileged place only the pair does.
	First, Last uint8
	// Ends are the pair's rungs beyond which a place is no longer privileged.
	Ends failures.Mask
	// Nobodys says that the address is nobody's own: it is no place, whatever is
	// known of it, and a success makes it none. A device may be one there.
	Nobodys bool
	// Apart is the guard's: the charge is one of those that are pretended to, which
	// have keys of their own. Stores need not know.
	Apart bool
	// Asides are the guard's, too: what is charged for the attempt to the client's
	// identity and to the site, each in a trip of its own; nil: nothing.
	Asides [asideCount]*Charge
	// KnownOnly charges nothing unless the place is privileged: everybody else
	// has to solve a challenge first.
	KnownOnly bool
	// Tag stands for the password among the account's last ones (R28): keyed and
	// truncated. Zero: it is unknown.
	Tag uint32
	// Spray stands for the password at every account alike. Where strangers fail
	// with it at SprayAccounts of them within a day, it is sprayed.
	Spray         uint32
	SprayAccounts int

	// AtDevice says that the device counted as the attempt's place, not the
	// address, and Status what the place is to the account.
	AtDevice bool
	Status   trusted.Status
	// Repeat says that the password was noted before: it is one of the account's
	// last wrong ones, or is being checked for another attempt.
	Repeat bool
	// Sprayed says that strangers try the password on many accounts, and that this
	// place is a stranger's.
	Sprayed bool
	// ID stands for the charge; zero if nothing was charged.
	ID failures.ChargeID
	// Usage is the usage of each subject that counted. If one subject refused the
	// charge, that of the others may be zero.
	Usage [subjectCount]failures.Usage
	// PlaceErr is why the places could not be asked for; the attempt is taken
	// for a stranger's then.
	PlaceErr error
}

// Ladders are ladders by subject.
type Ladders [subjectCount]*failures.Ladder

// Binds are sets of rungs by a place's status and by subject.
type Binds [3][subjectCount]failures.Mask

// Used is how much of each rung is used, by subject.
type Used [subjectCount]failures.Used

// Place is the place that counted: the device or the address.
func (c *Charge) Place() trusted.Key {
	if c.AtDevice {
		return c.Device
	}
	return c.Address
}

// Pair is the key of the account at a place.
func (c *Charge) Pair(place trusted.Key) failures.Key { return failures.Key(ofPair(c.Account, place)) }

// TagAt stands for the password among those that were wrong at a privileged
// place or, with any other status, at places of strangers. What the owner
// mistypes at home is known there alone: a stranger who was charged nothing for
// it would learn that it is close.
func (c *Charge) TagAt(place trusted.Key, status trusted.Status) uint32 {
	if c.Tag == 0 || status != trusted.Privileged {
		return c.Tag
	}
	return c.Tag ^ binary.LittleEndian.Uint32(place[:])&tagMask | failures.TagScope
}

// Sprayable reports whether a wrong password counts towards spraying. At a
// privileged place somebody mistypes.
func (c *Charge) Sprayable() bool {
	return c.Spray != 0 && c.SprayAccounts > 0 && c.Status != trusted.Privileged
}

// Miss is the attempt's wrong password, or another one by what stands for it.
func (c *Charge) Miss(spray uint32) failures.Miss {
	return failures.Miss{
		Value: spray, Account: binary.LittleEndian.Uint32(c.Account[:]), Network: binary.LittleEndian.Uint16(c.Network[:]),
	}
}

// SprayOf turns what stands for a password at this account into what stands for
// it at every account alike.
func (c *Charge) SprayOf(tag uint32) uint32 { return tag ^ c.Tag ^ c.Spray }

// tag is what the counters in memory know a password by.
func (c *Charge) tag() failures.Tag {
	place := c.Place()
	return failures.Tag{Account: failures.Key(c.Account), Value: c.TagAt(place, c.Status), Place: TagPlace(place)}
}

// TagPlace is the piece of a place's digest that is noted with a tag.
func TagPlace(place trusted.Key) uint16 { return binary.LittleEndian.Uint16(place[4:]) }

// Bind are the rungs of a subject that stop the attempt.
func (c *Charge) Bind(subject uint8) failures.Mask { return c.Binds[c.Status][subject] }

// Subjects are what the attempt is charged to if all of it counts; see Counted.
func (c *Charge) Subjects() (all [subjectCount]failures.Subject) {
	c.subjects(&all)
	return all
}

// subjects writes them where they are wanted.
func (c *Charge) subjects(all *[subjectCount]failures.Subject) {
	pair, network, account := c.Pair(c.Place()), failures.Key(c.Network), failures.Key(c.Account)
	all[AddressSubject].Shard, all[AddressSubject].Key = network, failures.Key(c.Address)
	all[NetworkSubject].Shard, all[NetworkSubject].Key = network, network
	all[AccountSubject].Shard, all[AccountSubject].Key = account, account
	all[PairSubject].Shard, all[PairSubject].Key = account, pair
	for i := range all {
		all[i].Ladder, all[i].Bind = c.Ladders[i], c.Binds[c.Status][i]
	}
}

// Counted says which subjects the attempt is charged to: Subjects()[first:last].
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

// BudgetSpent reports whether an attempt was stopped because its privileged place
// has used up its budget: the store is to spend the place and charge again.
func (c *Charge) BudgetSpent() bool {
	return c.Status == trusted.Privileged && !c.ID.Charged() && c.Usage[PairSubject].Failed&c.Ends != 0
}

// Local is a Store in this process: counters in memory, and places in memory or
// in SQL. It is safe for concurrent use.
type Local struct {
	// Sprays find out what is sprayed; to be replaced, if at all, before the first
	// attempt.
	Sprays   *failures.Sprays
	counters *failures.Memory
	places   trusted.Store
}

var _ Store = (*Local)(nil)

// NewLocal returns a store of counters and places, which remain the caller's to
// run. The counters must retain charges for Policy.Retain and call
// them undecided for Policy.PendingFor.
func NewLocal(counters *failures.Memory, places trusted.Store) *Local {
	return &Local{Sprays: failures.NewSprays(nil), counters: counters, places: places}
}

// Begin implements Store.
func (l *Local) Begin(ctx context.Context, c Charge) (Charge, error) {
	l.find(ctx, &c)
	err := l.charge(ctx, &c)
	if err != nil || !c.BudgetSpent() {
		return c, err
	}
	if err = l.places.Spend(ctx, c.Account, c.Place(), c.Now); err != nil {
		c.PlaceErr = fmt.Errorf("removing a known client over its limit: %w", err)
		c.AtDevice, c.Status = false, trusted.Spent
	} else {
		l.find(ctx, &c)
	}
	return c, l.charge(ctx, &c)
}

func (l *Local) charge(ctx context.Context, c *Charge) (err error) {
	var all [subjectCount]failures.Subject
	c.subjects(&all)
	first, last := c.Counted()
	if first < last {
		c.ID, err = l.counters.Charge(ctx, all[first:last], c.Usage[first:last])
	}
	if c.Repeat = false; c.Tag != 0 && err == nil {
		c.Repeat = l.counters.Note(c.tag(), c.ID)
	}
	return err
}

// Note notes the password of an attempt that was charged elsewhere.
func (l *Local) Note(c Charge) { l.counters.Note(c.tag(), c.ID) }

// find asks for the places, the device before the address: others behind the
// address can use up its budget, but not the device's.
func (l *Local) find(ctx context.Context, c *Charge) {
	c.AtDevice, c.Status = false, trusted.Stranger
	defer func() {
		c.Sprayed = c.Spray != 0 && c.Status != trusted.Privileged && l.Sprays.Has(c.Miss(c.Spray), c.Now)
	}()
	if c.Account == (trusted.Key{}) {
		return
	}
	if c.Device != (trusted.Key{}) {
		var err error
		if c.Status, err = l.device(ctx, c); c.Status == trusted.Privileged {
			c.AtDevice = true
			return
		} else if err != nil {
			c.PlaceErr = err
		}
	}
	if c.Address != (trusted.Key{}) && !c.Nobodys {
		var err error
		if c.Status, err = l.places.Status(ctx, c.Account, c.Address, c.Now); err != nil {
			c.Status, c.PlaceErr = trusted.Stranger, err
		}
	}
}

func (l *Local) device(ctx context.Context, c *Charge) (trusted.Status, error) {
	status, err := l.places.Status(ctx, c.Account, c.Device, c.Now)
	if err != nil {
		return trusted.Stranger, err
	}
	if status == trusted.Spent {
		return status, nil
	}
	reset, err := l.places.ResetAt(ctx, c.Account)
	if err != nil || !c.Issued.After(reset) {
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
	var all [subjectCount]failures.Subject
	c.subjects(&all)
	subjects := all[first:last]
	if !l.takesBack(&c, o) {
		l.spray(&c, Failed)
		return l.counters.Failed(ctx, c.ID, subjects)
	}
	if o != Succeeded {
		return l.counters.TakeBack(ctx, c.ID, subjects)
	}
	l.spray(&c, o)
	remembered := l.remember(ctx, &c)
	if err := errors.Join(
		l.counters.TakeBack(ctx, c.ID, subjects),
		l.counters.Clear(ctx, all[PairSubject:], failures.BackoffBit),
	); err != nil {
		return err
	}
	return remembered
}

// takesBack reports whether an attempt that ended so takes its charge back, and
// notes what became of the password.
func (l *Local) takesBack(c *Charge, o Outcome) bool {
	switch {
	case c.Tag == 0:
	case o == Succeeded:
		l.counters.Right(c.tag())
	case o == Failed && c.Repeat:
		return l.counters.Repeated(c.tag(), c.ID)
	case o != Failed && !c.Repeat:
		return l.counters.Withdrawn(c.tag(), c.ID)
	}
	return o != Failed
}

func (l *Local) remember(ctx context.Context, c *Charge) (err error) {
	if !c.Nobodys {
		err = l.places.Remember(ctx, c.Account, c.Address, c.Now)
	}
	if err == nil && c.Device != (trusted.Key{}) && !c.AtDevice {
		var status trusted.Status
		if status, err = l.places.Status(ctx, c.Account, c.Device, c.Now); status == trusted.Spent {
			err = l.places.Forget(ctx, c.Account, c.Device, c.Now)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlace, err)
	}
	return nil
}

// madeGoodWithin is how long before a login a wrong password of its pair was
// mistyped, and is no part of a spray.
const madeGoodWithin = 15 * time.Minute

// spray counts a stranger's wrong password, or takes back what the same person
// mistyped before a login.
func (l *Local) spray(c *Charge, o Outcome) {
	switch {
	case !c.Sprayable():
	case o == Failed:
		l.Sprays.Add(c.Miss(c.Spray), c.SprayAccounts, c.Now)
	case o == Succeeded && c.Tag != 0:
		for _, tag := range l.counters.TagsFrom(c.tag(), madeGoodWithin) {
			l.Sprays.TakeBack(c.Miss(c.SprayOf(tag)))
		}
	}
}

// Read implements Store.
func (l *Local) Read(ctx context.Context, c Charge) (Charge, Used, error) {
	var used Used
	l.find(ctx, &c)
	first, last := c.Counted()
	subjects := c.Subjects()
	err := l.counters.Read(ctx, subjects[first:last], c.Usage[first:last], used[first:last])
	return c, used, err
}

// Clear implements Store.
func (l *Local) Clear(ctx context.Context, c Charge) error {
	subjects := c.Subjects()
	return l.counters.Clear(ctx, subjects[c.First:c.Last], failures.Every)
}

// Forget implements Store.
func (l *Local) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return l.places.Forget(ctx, account, place, now)
}
