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

// A Store counts attempts and remembers known clients: [Local] in this process, for several nodes one in Redis. All
// methods are safe for concurrent use, but not with one Charge. After an error the operation may or may not have
// happened. No store keeps a Charge.
type Store interface {
	// Begin finds out whether the client is known, and charges the attempt as if it had failed (R1), in one step. It
	// charges every subject that counts for such a client, or none if an enforced limit has no room. A known client beyond
	// Subject.Ends becomes unknown, and the attempt is charged as an unknown client's (R14). The password's tag is noted
	// with the charge. Begin sets the charge's ID, its Client's and Password's
	// findings and, from before the charge, each Subject.Usage.
	Begin(ctx context.Context, c *Charge) error
	// Settle records how a charged attempt ended:
	//
	//   - Failed keeps the charges. A repeated password whose first charge stands takes the attempt's own back (R28).
	//   - Succeeded takes back its own charges only (R4), resets the pair's delay (R30) and makes the client known.
	//   - Abandoned and Withdrawn take back all charges, unless another attempt failed with this password and relies on
	//     them.
	//
	// The error is ErrKnownClient if only saving the client failed, with trusted.ErrFull if there is no room for it.
	Settle(ctx context.Context, c *Charge, o Outcome) error
	// Read sets what Begin would, but no ID, and returns the use of each limit. It charges nothing.
	Read(ctx context.Context, c *Charge) (Used, error)
	// Clear removes every charge of the subjects.
	Clear(ctx context.Context, subjects []Subject) error
	// Forget removes a known client of the account and its device cookie or, with the zero client, all of them.
	Forget(ctx context.Context, account, client trusted.Key, now time.Time) error
}

// ErrKnownClient means that the login was counted, but its client could not be saved as known.
var ErrKnownClient = errors.New("guard: the known client could not be saved")

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

// A Subject is what an attempt is charged to: an IP address, a network, an account, a pair. The store sets Bind.
type Subject struct {
	failures.Subject
	Kind SubjectKind
	// For are the clients for which the subject counts.
	For Clients
	// Binds are the limits that stop the attempt, by the client's trusted.Status.
	Binds [3]failures.Mask
	// Ends are the limits beyond which a known client becomes unknown.
	Ends failures.Mask
	// Usage is from before the charge. It is zero if the subject does not count, and may be if another one had no room.
	Usage failures.Usage
	rule  *rule
}

// A Client identifies the client of an attempt to a Store.
type Client struct {
	// Account is the account's digest; zero: no client is known.
	Account digest
	// Device is the device of a genuine cookie of this account, issued at Issued; zero: none. It is known unless it, or
	// every known client, was removed since then.
	Device digest
	Issued time.Time
	// Address is the digest of the IP address; zero if that is shared or an unconfigured proxy and so never known.
	Address digest

	// Status is set by Begin. AtDevice: the device has it, not the IP address.
	Status   trusted.Status
	AtDevice bool
	// ClientErr is why known clients could not be read; the client then counts as unknown.
	ClientErr error
}

// Find sets Status and AtDevice from the account's record. The device comes before the IP address: others behind the
// address can use up its budget, but not the device's.
func (c *Client) Find(record *trusted.Record) {
	c.AtDevice, c.Status = false, trusted.Unknown
	if c.Device != (digest{}) {
		c.Status = record.Status(c.Device)
		if c.Status == trusted.Unknown && c.Issued.UnixMilli() > record.Reset {
			c.Status = trusted.Known
		}
		c.AtDevice = c.Status == trusted.Known
	}
	if !c.AtDevice && c.Address != (digest{}) {
		c.Status = record.Status(c.Address)
	}
}

// A Password identifies the password of an attempt (R28). All of it is keyed and truncated.
type Password struct {
	// Tag identifies the password among the account's last ones. Zero: unknown.
	Tag uint32
	// Spray identifies the password for all accounts; 0: unknown. If unknown clients fail with it at SprayAccounts
	// accounts within a day, it is used for password spraying.
	Spray         uint32
	SprayAccounts int
	// From is the digest of the IP address, and Network a part of its network's.
	From    digest
	Network uint16

	// Repeat is set by Begin for a repeated password: one of the account's last wrong ones, or one that is being checked.
	Repeat bool
	// Sprayed is set by Begin if the password is used for password spraying and the client is unknown.
	Sprayed bool
}

// A Charge is one attempt for a Store: its client, password and subjects. The zero Charge is charged to nothing.
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

// Reset removes what Begin has set, but the client.
func (c *Charge) Reset() {
	c.ID, c.Repeat = failures.ChargeID{}, false
	for i := range c.Subjects() {
		c.list[i].Usage = failures.Usage{}
	}
}

// Subjects returns all subjects of the charge, counted or not. They may be changed.
func (c *Charge) Subjects() []Subject { return c.list[:c.n] }

// Known reports whether the client is a known client.
func (c *Charge) Known() bool { return c.Status == trusted.Known }

// Kind returns the kind of the client that Begin found.
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

// Bound returns the limits of the subject that stop the attempt.
func (c *Charge) Bound(s *Subject) failures.Mask { return s.Binds[c.Status] }

// Subject returns the counted subject of a kind, or nil.
func (c *Charge) Subject(kind SubjectKind) *Subject {
	for i := range c.Subjects() {
		if s := &c.list[i]; s.Kind == kind && c.Counts(s) {
			return s
		}
	}
	return nil
}

// ClientKey returns the client's digest: of its device if that is known, else of its IP address.
func (c *Charge) ClientKey() digest {
	if c.AtDevice {
		return c.Device
	}
	return c.From
}

// Exceeded reports whether Subject.Ends stopped a known client. The store then makes it unknown and charges again.
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

// TagAt is the password's tag at a known client or, with any other status, at unknown clients. The two differ: an
// unknown client that is not charged for an owner's typo would learn that the typo is close to the password.
func (p *Password) TagAt(client digest, status trusted.Status) uint32 {
	if p.Tag == 0 || status != trusted.Known {
		return p.Tag
	}
	return p.Tag ^ binary.LittleEndian.Uint32(client[:])&tagMask | failures.TagScope
}

// Sprayable reports whether a wrong password counts toward password spraying. At a known client it is a typo.
func (c *Charge) Sprayable() bool { return c.Spray != 0 && c.SprayAccounts > 0 && !c.Known() }

// Miss returns the record of a wrong password, by its spray tag.
func (c *Charge) Miss(spray uint32) failures.Miss {
	return failures.Miss{Value: spray, Account: binary.LittleEndian.Uint32(c.Account[:]), Network: c.Network}
}

// SprayOf turns another tag of this account into its spray tag.
func (c *Charge) SprayOf(tag uint32) uint32 { return tag ^ c.Tag ^ c.Spray }

// TagClient returns the part of a client's digest that is noted with a tag.
func TagClient(client digest) uint16 { return binary.LittleEndian.Uint16(client[4:]) }

// An Outcome is how an attempt ended. The zero Outcome is Failed.
type Outcome uint8

const (
	// Failed: the password was wrong, or the attempt was not settled.
	Failed Outcome = iota
	// Succeeded: the password was right and the client is let in.
	Succeeded
	// Abandoned: the password was not checked, because the check broke or had no room (R19). It keeps no charge, but
	// counts toward the failure rate (R20). A check that was made has an outcome, even if its client has gone.
	Abandoned
	// Withdrawn: the guard stopped the attempt before its password was checked. Only the guard uses it.
	Withdrawn
	// Insufficient: the right password is not enough (Decision.Insufficient). Only the guard uses it, for Succeeded.
	Insufficient
)

var outcomeNames = [...]string{Failed: "failed", Succeeded: "succeeded", Abandoned: "abandoned", Withdrawn: "withdrawn",
	Insufficient: "insufficient"}

// String returns the outcome's stable name.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return outcomeNames[Failed]
}

// OutcomeOf returns Succeeded for true and Failed for false.
func OutcomeOf(ok bool) Outcome {
	if ok {
		return Succeeded
	}
	return Failed
}

// Local is a Store in this process: counters in memory, known clients in memory or in SQL. Safe for concurrent use.
type Local struct {
	// Sprays detect password spraying. Replace them only before the first attempt.
	Sprays   *failures.Sprays
	counters *failures.Memory
	clients  trusted.Store
}

var _ Store = (*Local)(nil)

// NewLocal returns a store of counters and known clients, which the caller runs. The counters must retain charges for
// Policy.Retain, and keep them undecided for Policy.CheckTimeout.
func NewLocal(counters *failures.Memory, clients trusted.Store) *Local {
	return &Local{Sprays: failures.NewSprays(nil), counters: counters, clients: clients}
}

// counted are the subjects of a charge that count for its client.
type counted struct {
	subjects [MaxSubjects]failures.Subject
	usages   [MaxSubjects]failures.Usage
	at       [MaxSubjects]uint8 // in the charge
	n        int
}

func (l *counted) of(c *Charge) {
	l.n = 0
	for i := range c.Subjects() {
		if s := &c.list[i]; c.Counts(s) {
			l.subjects[l.n], l.at[l.n] = s.Subject, uint8(i)
			l.subjects[l.n].Bind = c.Bound(s)
			l.n++
		}
	}
}

func (l *counted) list() []failures.Subject { return l.subjects[:l.n] }

func (l *counted) fill(c *Charge) {
	for i := range l.n {
		c.list[l.at[i]].Usage = l.usages[i]
	}
}

// Begin implements Store.
func (l *Local) Begin(ctx context.Context, c *Charge) error {
	c.Reset()
	l.find(ctx, c)
	err := l.charge(ctx, c)
	if err != nil || !c.Exceeded() {
		return err
	}
	if err = l.clients.Spend(ctx, c.Account, c.ClientKey(), c.Now); err != nil {
		c.ClientErr = fmt.Errorf("removing a known client over its limit: %w", err)
		c.AtDevice, c.Status = false, trusted.Spent
	} else {
		l.find(ctx, c)
	}
	return l.charge(ctx, c)
}

func (l *Local) charge(ctx context.Context, c *Charge) (err error) {
	var all counted
	if all.of(c); all.n > 0 {
		c.ID, err = l.counters.Charge(ctx, all.list(), all.usages[:all.n])
		all.fill(c)
	}
	if c.Tag != 0 && err == nil {
		c.Repeat = l.counters.Note(c.tag(), c.ID)
	}
	return err
}

func (c *Charge) tag() failures.Tag {
	client := c.ClientKey()
	return failures.Tag{Account: failures.Key(c.Account), Value: c.TagAt(client, c.Status), Client: TagClient(client)}
}

func (l *Local) find(ctx context.Context, c *Charge) {
	c.AtDevice, c.Status, c.ClientErr = false, trusted.Unknown, nil
	if c.Account != (digest{}) {
		var record trusted.Record
		if record, c.ClientErr = l.clients.Record(ctx, c.Account, c.Now); c.ClientErr == nil {
			c.Find(&record)
		}
	}
	c.Sprayed = c.Spray != 0 && !c.Known() && l.Sprays.Has(c.Miss(c.Spray), c.Now)
}

// Settle implements Store.
func (l *Local) Settle(ctx context.Context, c *Charge, o Outcome) error {
	if !c.ID.Charged() {
		return nil
	}
	var all counted
	all.of(c)
	if !l.takesBack(c, o) {
		l.spray(c, Failed)
		return l.counters.Failed(ctx, c.ID, all.list())
	}
	if o != Succeeded {
		return l.counters.TakeBack(ctx, c.ID, all.list())
	}
	l.spray(c, o)
	remembered := l.Remember(ctx, c)
	if err := errors.Join(l.counters.TakeBack(ctx, c.ID, all.list()), l.resetDelay(ctx, c)); err != nil {
		return err
	}
	return remembered
}

// takesBack reports whether the outcome takes the charge back, and notes the password's outcome.
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

func (l *Local) resetDelay(ctx context.Context, c *Charge) error {
	pair := c.Subject(OnPair)
	if pair == nil {
		return nil
	}
	one := [...]failures.Subject{pair.Subject}
	return l.counters.Clear(ctx, one[:], failures.BackoffBit)
}

// Remember makes the client of a successful attempt known. The error is ErrKnownClient, with trusted.ErrFull if full.
func (l *Local) Remember(ctx context.Context, c *Charge) (err error) {
	if c.Account == (digest{}) {
		return nil
	}
	if c.Address != (digest{}) {
		err = l.clients.Remember(ctx, c.Account, c.Address, c.Now)
	}
	if err == nil && c.Device != (digest{}) && !c.AtDevice {
		var record trusted.Record
		record, err = l.clients.Record(ctx, c.Account, c.Now)
		if err == nil && record.Status(c.Device) == trusted.Spent {
			err = l.clients.Forget(ctx, c.Account, c.Device, c.Now)
		}
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrKnownClient, err)
	}
	return nil
}

// typoWithin is how long before a login a wrong password of its pair counts as a typo, not as password spraying.
const typoWithin = 15 * time.Minute

// spray counts an unknown client's wrong password, or takes back the same person's typos at a login.
func (l *Local) spray(c *Charge, o Outcome) {
	switch {
	case !c.Sprayable():
	case o == Failed:
		l.Sprays.Add(c.Miss(c.Spray), c.SprayAccounts, c.Now)
	case o == Succeeded && c.Tag != 0:
		for _, tag := range l.counters.TagsFrom(c.tag(), typoWithin) {
			l.Sprays.TakeBack(c.Miss(c.SprayOf(tag)))
		}
	}
}

// Read implements Store.
func (l *Local) Read(ctx context.Context, c *Charge) (used Used, err error) {
	c.Reset()
	l.find(ctx, c)
	var all counted
	var counts Used
	all.of(c)
	err = l.counters.Read(ctx, all.list(), all.usages[:all.n], counts[:all.n])
	all.fill(c)
	for i := range all.n {
		used[all.at[i]] = counts[i]
	}
	return used, err
}

// Clear implements Store.
func (l *Local) Clear(ctx context.Context, subjects []Subject) error {
	for i := range subjects {
		one := [...]failures.Subject{subjects[i].Subject}
		if err := l.counters.Clear(ctx, one[:], failures.Every); err != nil {
			return err
		}
	}
	return nil
}

// Forget implements Store.
func (l *Local) Forget(ctx context.Context, account, client trusted.Key, now time.Time) error {
	return l.clients.Forget(ctx, account, client, now)
}

// pairAlone is the charge of the pair alone, without a known client.
func (c *Charge) pairAlone() Charge {
	alone := Charge{Now: c.Now, ID: c.ID}
	if pair := c.Subject(OnPair); pair != nil {
		one := *pair
		one.Binds[trusted.Unknown], one.For, one.Ends = c.Bound(pair), EveryClient, 0
		alone.Add(one)
	}
	return alone
}
