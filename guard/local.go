package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// Local is a Store in this process: counters in memory, and known clients in memory or in SQL.
// It is safe for concurrent use.
type Local struct {
	// Sprays recognize password spraying; to be replaced, if at all, before the first attempt.
	Sprays   *failures.Sprays
	counters *failures.Memory
	clients  trusted.Store
}

var _ Store = (*Local)(nil)

// NewLocal returns a store of counters and known clients, which remain the caller's to run. The
// counters must retain charges for Policy.Retain and call them undecided for Policy.CheckTimeout.
func NewLocal(counters *failures.Memory, clients trusted.Store) *Local {
	return &Local{Sprays: failures.NewSprays(nil), counters: counters, clients: clients}
}

// counted are the subjects of a charge that count for its client, as package failures wants
// them.
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

// fill writes the usages into the charge.
func (l *counted) fill(c *Charge) {
	for i := range l.n {
		c.list[l.at[i]].Usage = l.usages[i]
	}
}

// Begin implements Store.
func (l *Local) Begin(ctx context.Context, c Charge) (Charge, error) {
	l.find(ctx, &c)
	err := l.charge(ctx, &c)
	if err != nil || !c.Exceeded() {
		return c, err
	}
	if err = l.clients.Spend(ctx, c.Account, c.Place(), c.Now); err != nil {
		c.ClientErr = fmt.Errorf("removing a known client over its limit: %w", err)
		c.AtDevice, c.Status = false, trusted.Spent
	} else {
		l.find(ctx, &c)
	}
	return c, l.charge(ctx, &c)
}

func (l *Local) charge(ctx context.Context, c *Charge) (err error) {
	var all counted
	if all.of(c); all.n > 0 {
		c.ID, err = l.counters.Charge(ctx, all.list(), all.usages[:all.n])
		all.fill(c)
	}
	if c.Repeat = false; c.Tag != 0 && err == nil {
		c.Repeat = l.counters.Note(c.tag(), c.ID)
	}
	return err
}

// tag is what the counters in memory know a password by.
func (c *Charge) tag() failures.Tag {
	client := c.Place()
	return failures.Tag{Account: failures.Key(c.Account), Value: c.TagAt(client, c.Status), Place: TagPlace(client)}
}

// find looks the client up.
func (l *Local) find(ctx context.Context, c *Charge) {
	c.AtDevice, c.Status, c.ClientErr = false, trusted.Stranger, nil
	if c.Account != (digest{}) {
		var record trusted.Record
		if record, c.ClientErr = l.clients.Record(ctx, c.Account, c.Now); c.ClientErr == nil {
			c.Find(&record)
		}
	}
	c.Sprayed = c.Spray != 0 && !c.Known() && l.Sprays.Has(c.Miss(c.Spray), c.Now)
}

// Settle implements Store.
func (l *Local) Settle(ctx context.Context, c Charge, o Outcome) error {
	if !c.ID.Charged() {
		return nil
	}
	var all counted
	all.of(&c)
	if !l.takesBack(&c, o) {
		l.spray(&c, Failed)
		return l.counters.Failed(ctx, c.ID, all.list())
	}
	if o != Succeeded {
		return l.counters.TakeBack(ctx, c.ID, all.list())
	}
	l.spray(&c, o)
	remembered := l.Remember(ctx, &c)
	if err := errors.Join(l.counters.TakeBack(ctx, c.ID, all.list()), l.resetDelay(ctx, &c)); err != nil {
		return err
	}
	return remembered
}

// takesBack reports whether an attempt that ended so takes its charge back, and notes what became
// of the password.
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

// resetDelay lets the pair's delay begin anew.
func (l *Local) resetDelay(ctx context.Context, c *Charge) error {
	pair := c.Subject(OnPair)
	if pair == nil {
		return nil
	}
	one := [...]failures.Subject{pair.Subject}
	return l.counters.Clear(ctx, one[:], failures.BackoffBit)
}

// Remember makes the client of an attempt that succeeded a known client. The error is
// ErrPlace, with trusted.ErrFull if there is no room for it.
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
		return fmt.Errorf("%w: %w", ErrPlace, err)
	}
	return nil
}

// typoWithin is how long before a login a wrong password of its pair was a typo and is no part of
// password spraying.
const typoWithin = 15 * time.Minute

// spray counts an unknown client's wrong password, or takes back the same person's typos before
// a login.
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
func (l *Local) Read(ctx context.Context, c Charge) (Charge, Used, error) {
	var used Used
	l.find(ctx, &c)
	var all counted
	var counts Used
	all.of(&c)
	err := l.counters.Read(ctx, all.list(), all.usages[:all.n], counts[:all.n])
	all.fill(&c)
	for i := range all.n {
		used[all.at[i]] = counts[i]
	}
	return c, used, err
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
