package guard

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"sync"
	"time"

	"authguard/trusted"
)

// An attempt that is pretended to meets what one with a wrong password would: the
// same delays, challenges and refusals before it, and then 401 after as long a check.
// So it has to be counted; and it must not be counted where the others are, or
// whoever knocks would hold the limit full (R5) and close accounts by passwords that
// nobody looks at. It is counted in a world of its own, by the same ladders: of other
// keys of the same store, which nobody but those who are pretended to is stopped by.

// Decoy is a text that cannot be the password, to be checked in the password's place
// where the decision is Pretend: it takes as long as the password would, whatever
// the hash, and tells nobody anything about it. It is as long as the password, or
// 26 characters.
func Decoy(password string) string {
	text := rand.Text()
	for len(text) < len(password) {
		text += rand.Text()
	}
	return text[:max(26, min(len(text), len(password)))]
}

// pretend moves an attempt to where those are counted that are pretended to.
func (v *view) pretend(d *Decision) {
	v.Apart, v.before, v.pretended = true, v.Usage, d.Reasons
	v.Device, v.Spray = trusted.Key{}, 0 // a password that nobody looks at is not known to be wrong
	v.bindAll()
}

// alsoBefore adds what was counted against the attempt where others are counted: a
// challenge that is asked for there is asked for here.
func (v *view) alsoBefore() {
	for i := range v.Usage {
		v.Usage[i].Over |= v.before[i].Over &^ v.rule[i].then[FakeFailure]
		v.Usage[i].Count += v.before[i].Count
	}
}

// apart are the keys that a charge really has in the store.
func (d *digester) apart(c Charge) Charge {
	if c.Apart {
		c.Account, c.Address, c.Network = d.ofQuota("apart", c.Account), d.ofQuota("apart", c.Address), d.ofQuota("apart", c.Network)
	}
	return c
}

// begin is the store's Begin, and settle its Settle, for a charge that may be apart.
func (g *Guard) begin(ctx context.Context, c Charge) (Charge, error) {
	if !c.Apart {
		return g.config.Store.Begin(ctx, c)
	}
	account, address, network := c.Account, c.Address, c.Network
	c, err := g.config.Store.Begin(ctx, g.digests.apart(c))
	c.Account, c.Address, c.Network = account, address, network
	return c, err
}

func (g *Guard) settle(ctx context.Context, c Charge, o Outcome) error {
	var aside error
	for i, one := range c.Asides {
		if one == nil {
			continue
		}
		end := o
		switch {
		case i == sprayAside && o == Succeeded:
			end = Failed // what it counts is logins
		case i == sprayAside:
			end = Withdrawn
		case o == Succeeded:
			end = Withdrawn // it has no place to remember
		}
		aside = errors.Join(aside, g.config.Store.Settle(ctx, *one, end))
	}
	return errors.Join(g.config.Store.Settle(ctx, g.digests.apart(c), o), aside)
}

// endPretended settles an attempt that was pretended to: it has failed, whatever its
// door says, unless nothing was done for it.
func (g *Guard) endPretended(ctx context.Context, t *Ticket, o Outcome) error {
	c := t.charge()
	c.Now = g.config.Now()
	stored := o
	if o != Abandoned && o != Withdrawn {
		stored = Failed
	}
	err := g.settle(afterwards(ctx), c, stored)
	g.wake(&c)
	if err == nil && o == Insufficient {
		err = ErrInsufficient
	}
	return err
}

// A pace is how long the newest wrong passwords took to be found so: who is pretended
// to waits as long, on a timer, and takes nobody's turn. Safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	took [32]time.Duration
	n    int
}

func (p *pace) note(took time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took[p.n%len(p.took)] = took
	p.n++
}

// keep waits as long as one of them took.
func (p *pace) keep(ctx context.Context) {
	p.mu.Lock()
	n := min(p.n, len(p.took))
	var one time.Duration
	if n > 0 {
		i, _ := rand.Int(rand.Reader, big.NewInt(int64(n)))
		one = p.took[i.Int64()]
	}
	p.mu.Unlock()
	timer := time.NewTimer(one)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
