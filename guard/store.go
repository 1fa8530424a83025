package guard

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// A Store counts attempts and remembers known clients. [Local] keeps both in this process; the
// nodes of a site share one in Redis. All methods are safe for concurrent use. An error means
// that the store failed: the operation may or may not have happened.
//
// A Charge is passed and returned by value, so that an attempt in memory allocates nothing here.
type Store interface {
	// Begin finds out whether the client is known and charges the attempt as if it had failed
	// (R1): every subject that counts for such a client, or none if an enforced limit of one has
	// no room. Check and charge are one step. A known client beyond Subject.Ends becomes unknown
	// on the way, and the attempt is charged as an unknown client's (R14). It returns the charge
	// with ID and the results in Client, Password and each Subject.Usage, which is that before
	// the charge. The password's tag is noted with the charge.
	Begin(ctx context.Context, c Charge) (Charge, error)
	// Settle records how a charged attempt ended. Failed leaves the charges, unless the password
	// was noted before by an attempt whose charge stands: then the attempt's own are taken back
	// (R28). Succeeded takes back the attempt's own charges and no other (R4), resets the pair's
	// delay (R30) and makes the client known, or returns ErrPlace if only that is impossible, with
	// trusted.ErrFull if there is no room for it. Abandoned and Withdrawn take back all charges,
	// unless another attempt failed with the same password meanwhile and relies on them.
	Settle(ctx context.Context, c Charge, o Outcome) error
	// Read returns what Begin would, and the use of each limit, and changes nothing.
	Read(ctx context.Context, c Charge) (Charge, Used, error)
	// Clear removes every charge of the subjects.
	Clear(ctx context.Context, subjects []Subject) error
	// Forget removes a known client of the account or, with the zero client, all of them; their
	// device cookies are then invalid.
	Forget(ctx context.Context, account, client trusted.Key, now time.Time) error
}

// ErrPlace means that the login was counted, but its client could not be saved as known.
var ErrPlace = errors.New("guard: the known client could not be saved")

// MaxSubjects is the largest number of subjects of one charge.
const MaxSubjects = failures.MaxSubjects

// A Clients is a set of kinds of clients.
type Clients uint8

// The kinds of clients. A client that is no longer known is unknown.
const (
	UnknownClient Clients = 1 << iota
	KnownAddress          // known by its IP address
	KnownDevice           // known by its device cookie
	EveryClient   = UnknownClient | KnownAddress | KnownDevice
)

// A Subject is what an attempt is charged to: an IP address, a network, an account, a pair.
// Shard, Key and Ladder are those of package failures; the store sets Bind.
type Subject struct {
	failures.Subject
	Kind SubjectKind
	// For are the clients for which the subject counts.
	For Clients
	// Binds are the limits that stop the attempt, by the client's trusted.Status.
	Binds [3]failures.Mask
	// Ends are the limits beyond which a known client becomes unknown.
	Ends failures.Mask
	// Usage is the subject's usage before the charge. Zero if the subject does not count; if
	// another subject refused the charge, it may be zero, too.
	Usage failures.Usage
	rule  *rule
}

// A Client identifies the client of an attempt to a Store.
type Client struct {
	// Account is the account's digest; zero: no client is known.
	Account digest
	// Device is the device of a genuine cookie of this account, issued at Issued; zero: there is
	// none. It is known unless it was removed, or all known clients were, since then.
	Device digest
	Issued time.Time
	// Address is the digest of the IP address if that may be a known client; zero for a shared
	// address and an unconfigured proxy.
	Address digest

	// Status is set by Begin, and AtDevice if the device has it and not the IP address.
	Status   trusted.Status
	AtDevice bool
	// ClientErr is why known clients could not be read; the client then counts as unknown.
	ClientErr error
}

// Find sets what the client is by what is remembered of its account: the device before the IP
// address, because others behind the address can use up its budget, but not the device's.
func (c *Client) Find(record *trusted.Record) {
	c.AtDevice, c.Status = false, trusted.Stranger
	if c.Device != (digest{}) {
		c.Status = record.Status(c.Device)
		if c.Status == trusted.Stranger && c.Issued.UnixMilli() > record.Reset {
			c.Status = trusted.Privileged
		}
		c.AtDevice = c.Status == trusted.Privileged
	}
	if !c.AtDevice && c.Address != (digest{}) {
		c.Status = record.Status(c.Address)
	}
}

// A Password identifies the password of an attempt to a Store (R28). All of it is keyed and
// truncated.
type Password struct {
	// Tag identifies the password among the account's last ones. Zero: unknown.
	Tag uint32
	// Spray identifies the password for all accounts alike. If unknown clients fail with it at
	// SprayAccounts accounts within a day, it is used for password spraying.
	Spray         uint32
	SprayAccounts int
	// From is the IP address of the attempt, and Network a part of its network.
	From    digest
	Network uint16

	// Repeat is set by Begin if the password was noted before: it is one of the account's last
	// wrong ones, or is being checked for another attempt.
	Repeat bool
	// Sprayed is set by Begin if the password is used for password spraying and the client is
	// unknown.
	Sprayed bool
}

// A Charge is one attempt as a Store sees it: its client, its password and the subjects to which
// it is charged. The zero Charge is charged to nothing.
type Charge struct {
	// Now is the guard's clock, for the age of known clients. Windows go by the store's clock.
	Now time.Time
	Client
	Password
	list [MaxSubjects]Subject
	n    uint8
	// ID is set by Begin; zero if nothing was charged.
	ID failures.ChargeID
}

// Add adds a subject to the charge.
func (c *Charge) Add(s Subject) {
	c.list[c.n] = s
	c.n++
}

// Subjects are all subjects of the charge, counted or not. They may be changed.
func (c *Charge) Subjects() []Subject { return c.list[:c.n] }

// Known reports whether the client is a known client.
func (c *Charge) Known() bool { return c.Status == trusted.Privileged }

// Kind is the kind of the client, from what Begin found.
func (c *Charge) Kind() Clients {
	switch {
	case !c.Known():
		return UnknownClient
	case c.AtDevice:
		return KnownDevice
	}
	return KnownAddress
}

// Counts reports whether the subject counts for the client.
func (c *Charge) Counts(s *Subject) bool { return s.For&c.Kind() != 0 }

// Bound are the limits of the subject that stop the attempt.
func (c *Charge) Bound(s *Subject) failures.Mask { return s.Binds[c.Status] }

// Subject is the counted subject of a kind; nil if there is none.
func (c *Charge) Subject(kind SubjectKind) *Subject {
	for i := range c.Subjects() {
		if s := &c.list[i]; s.Kind == kind && c.Counts(s) {
			return s
		}
	}
	return nil
}

// Place is the digest that stands for the client: of its device if that is known, else of its IP
// address.
func (c *Charge) Place() digest {
	if c.AtDevice {
		return c.Device
	}
	return c.From
}

// Exceeded reports whether a known client was stopped beyond Subject.Ends. The store makes it
// unknown and charges again.
func (c *Charge) Exceeded() bool {
	if !c.Known() || c.ID.Charged() {
		return false
	}
	for i := range c.Subjects() {
		if s := &c.list[i]; c.Counts(s) && s.Usage.Failed&s.Ends != 0 {
			return true
		}
	}
	return false
}

// Used is the use of each limit, by subject.
type Used [MaxSubjects]failures.Used

// TagAt identifies the password among those that were wrong at a known client or, with any
// other status, at unknown clients. The two are kept apart: an unknown client that is charged
// nothing for an owner's typo would learn that the typo is close to the password.
func (p *Password) TagAt(client digest, status trusted.Status) uint32 {
	if p.Tag == 0 || status != trusted.Privileged {
		return p.Tag
	}
	return p.Tag ^ binary.LittleEndian.Uint32(client[:])&tagMask | failures.TagScope
}

// Sprayable reports whether a wrong password counts toward password spraying. At a known client
// it is a typo.
func (c *Charge) Sprayable() bool { return c.Spray != 0 && c.SprayAccounts > 0 && !c.Known() }

// Miss is the attempt's wrong password, or another one by what identifies it.
func (c *Charge) Miss(spray uint32) failures.Miss {
	return failures.Miss{Value: spray, Account: binary.LittleEndian.Uint32(c.Account[:]), Network: c.Network}
}

// SprayOf turns what identifies a password at this account into what identifies it at every
// account.
func (c *Charge) SprayOf(tag uint32) uint32 { return tag ^ c.Tag ^ c.Spray }

// TagPlace is the part of a client's digest that is noted with a tag.
func TagPlace(client digest) uint16 { return binary.LittleEndian.Uint16(client[4:]) }
