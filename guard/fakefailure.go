package guard

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"authguard/trusted"
)

// Decoy is a text that cannot be the password, to be checked in the password's place
// where the decision is FakeFailure: the check takes as long, whatever the hash, and says
// nothing about the password. It is as long as the password, at least 26 characters.
func Decoy(password string) string {
	text := rand.Text()
	for len(text) < len(password) {
		text += rand.Text()
	}
	return text[:max(26, min(len(text), len(password)))]
}

// fakeFailure has the attempt answered with a fake failure, unless its pair's delay or a
// challenge comes first. Its password is not known to be wrong, so it is neither a
// repeated nor a sprayed one. A verification code does not bypass the limit and is not
// used up.
func (v *view) fakeFailure(d *Decision) {
	if v.showed {
		v.showed, v.badPass = false, true
	} else {
		v.faked, v.Spray, v.Repeat, v.Sprayed = d.Reasons, 0, false, false
	}
	v.bindAll()
}

// chargePair charges a fake failure to its pair alone: the delay grows as after a wrong
// password, and the full limit has room again when it would without the attempt (R5).
func (g *Guard) chargePair(ctx context.Context, v *view) error {
	pair, err := g.config.Store.Begin(ctx, v.pairAlone())
	if err != nil {
		return fmt.Errorf("guard: charging a fake failure: %w", err)
	}
	v.ID, v.Usage[PairSubject] = pair.ID, pair.Usage[AddressSubject]
	return g.chargeAsides(ctx, v)
}

// pairAlone is the charge of the pair and no other subject. The pair is in its account's
// shard and takes the address's place, so that no known client is looked up.
func (c *Charge) pairAlone() Charge {
	ladder := c.Ladders[PairSubject]
	return Charge{
		Now: c.Now, ID: c.ID, Address: trusted.Key(c.Pair(c.Place())), Network: c.Account, Last: AddressSubject + 1,
		Ladders: &Ladders{ladder, ladder, ladder, ladder}, Binds: &Binds{{c.Bind(PairSubject)}},
	}
}

// charged is what the attempt is charged.
func (v *view) charged() Charge {
	if v.faked != nil {
		return v.pairAlone()
	}
	return v.Charge
}

// waitLikeWrong waits as long as the newest wrong password took to check.
func (g *Guard) waitLikeWrong(ctx context.Context) {
	timer := time.NewTimer(time.Duration(g.wrongTook.Load()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
