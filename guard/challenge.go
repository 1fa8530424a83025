package guard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
)

// ErrChallenges means that too many challenges of an IP address are unsolved.
var ErrChallenges = errors.New("guard: too many challenges of this IP address are unsolved")

// Issue makes the challenge that a decision asked for. It is good for that
// account, at that door and from that address only; solving it takes back the
// pressure that it was counted as. With the zero Decision no account has been
// named yet: the challenge is good for one attempt at any, but not for what an
// account itself asks for, or whoever collects such challenges could spend them
// all on one. Such a challenge is charged here, and the error is ErrChallenges if too many are
// unsolved; a decision's was charged by Begin.
func (g *Guard) Issue(ctx context.Context, a Attempt, d Decision) (challenge.Challenge, error) {
	if g.config.Challenges == nil {
		return challenge.Challenge{}, errors.New("guard: there is no challenge to issue")
	}
	if d.Action == Challenge && !d.counted && d.Account != "" {
		var err error
		if d.level, err = g.levelOf(ctx, &a); err != nil {
			return challenge.Challenge{}, err
		}
	}
	if d.Action != Challenge {
		v := view{rules: g.rules.Load()}
		v.Now = g.config.Now()
		g.digests.ofAddress(a.Address, &v.Address, &v.Network)
		if err := g.open(ctx, &v, &d); err != nil {
			return challenge.Challenge{}, err
		} else if d.Action == Delay {
			return challenge.Challenge{}, ErrChallenges
		}
	}
	bond := g.bond(&a, g.digests.addressKey(a.Address), d.Account, d.level)
	bond.Charge = d.open
	return g.config.Challenges.Issue(ctx, bond, d.Counted)
}

// levelOf reads what is counted against an account that CAPTCHA mode has stopped
// before that was looked at.
func (g *Guard) levelOf(ctx context.Context, a *Attempt) (uint8, error) {
	v := new(view)
	g.look(a, v)
	v.only(v.name, netip.Addr{})
	v.KnownOnly = false
	var err error
	if v.Charge, _, err = g.config.Store.Read(ctx, v.Charge); err != nil {
		return 0, fmt.Errorf("guard: reading an account's count: %w", err)
	}
	return v.level(), nil
}

// bond is what a challenge for an account is good for; for a door, if the account
// is empty.
func (g *Guard) bond(a *Attempt, address digest, account string, level uint8) challenge.Bond {
	return challenge.Bond{Address: address, Purpose: g.digests.ofPurpose(a.Integration, account), Level: level}
}

// NeedsChallenge reports whether the site asks everybody at this address for a
// challenge before an account is even named: CAPTCHA mode is on and the
// address is not allowed, or a named list asks for one. An attempt from a privileged
// place needs none after all.
func (g *Guard) NeedsChallenge(address netip.Addr) bool {
	v := view{modeOn: g.config.Mode.On()}
	v.listed, v.on = g.listed(g.rules.Load(), address, g.config.Now())
	return v.asks()
}

// level is how much work a challenge for the account has to ask for, by what is
// counted against it now: challenges that were issued while that was less cannot
// be collected and spent later.
func (v *view) level() uint8 {
	if v.asksSprayed() {
		return hardest
	}
	if of := v.rule[AccountSubject]; of.enforce&of.then[Challenge] == 0 {
		return 0
	}
	return WorkLevel(v.accountFailures())
}

// checkSolve uses up the challenge's answer if the attempt needs one at all.
// It is the last thing before proceeding: nobody burns a solved challenge only
// to be told to wait.
func (g *Guard) checkSolve(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var why Decision
	needed, ofAccount := v.needsSolve(&why)
	if !needed {
		return nil
	}
	bonds := []challenge.Bond{g.bond(a, v.Address, v.name, v.level())}
	if !ofAccount {
		bonds = append(bonds, g.bond(a, v.Address, "", 0))
	}
	stopped, err := g.answered(ctx, a, v, d, bonds)
	switch {
	case err != nil:
		return errors.Join(err, g.withdraw(ctx, v.charged()))
	case d.Solve.Solved:
		d.Reasons.add(Reason{Cause: ChallengeSolved})
		if err := g.admitSprayed(ctx, v); err != nil {
			return errors.Join(err, g.withdraw(ctx, v.charged()))
		}
		return nil
	case stopped.Wait > 0:
		why.Action, why.Reasons = Proceed, nil
		why.stop(Delay, stopped)
	case stopped.Cause != NoCause:
		why.Action = Challenge
		why.Reasons.add(stopped)
	default:
		why.Action = Challenge
		why.Reasons.add(Reason{Cause: ChallengeFailed})
	}
	why.Solve, why.Privileged = d.Solve, d.Privileged
	*d = why
	return g.withdraw(ctx, v.charged())
}

// answered looks at a challenge's answer, or says what stops it: it is a picture where work is
// needed. The challenge was charged as unsolved when it was issued (R1).
func (g *Guard) answered(ctx context.Context, a *Attempt, v *view, d *Decision, bonds []challenge.Bond) (stopped Reason, err error) {
	if g.config.Challenges == nil {
		return stopped, nil
	}
	if g.config.Challenges.PictureAlone(a.Solution) {
		if bonds[0].Level > 0 {
			return Reason{Cause: WorkNeeded, Subject: OnAccount}, nil
		}
		if _, wait, err := g.take(ctx, v, &v.rules.pictures); err != nil || wait > 0 {
			return Reason{Cause: TooManyPictures, Subject: OnAddress, Wait: wait}, err
		}
	}
	d.Solve, err = g.config.Challenges.Check(ctx, a.Solution, bonds...)
	if err != nil {
		d.Solve.Solved = false
		g.config.Failed(fmt.Errorf("guard: checking a challenge's answer: %w", err))
	}
	if d.Solve.Solved && d.Solve.Counted {
		g.config.Mode.TakeBack(captchamode.Unsolved)
	}
	if d.Solve.Reason == challenge.Right || err != nil { // any other is no better than an unsolved one
		if err := g.solved(ctx, v, d.Solve.Charge); err != nil {
			return stopped, err
		}
	}
	return stopped, nil
}

// A quota bounds what an address, and the site, may do besides guessing. It is
// charged like an attempt and in the same store: first, exactly, and over all
// nodes.
type quota struct {
	name     string
	last     uint8 // AddressSubject, or NetworkSubject, which stands for the site
	ladders  Ladders
	binds    Binds
	attacked Binds // while the site is
}

func newQuota(name string, address, site []failures.Rung) (q quota) {
	q.name = name
	of := [subjectCount][]failures.Rung{AddressSubject: address, NetworkSubject: site}
	if len(site) > 0 {
		q.last = NetworkSubject
	}
	for i, rungs := range of {
		q.ladders[i] = failures.MustLadder(failures.Backoff{}, rungs...)
		for status := range q.binds {
			q.attacked[status][i] = failures.Every
		}
	}
	for status := range q.binds {
		q.binds[status][AddressSubject] = failures.Every
	}
	return q
}

// unsolvedChallenges is how many challenges may be unsolved: abandoned, answered wrongly, or
// not answered yet. A reader of images that answers only those it is sure of pays for the
// others as for wrong answers. One account from one IP address has ten, enough for two tabs, some
// reloads and mistakes, and then one after 5 s up to 15 s. An IP address has 1,000, and then one
// after 1 s up to 12 s: an office or a carrier's NAT solves most of its challenges, and a solved
// one counts no more. An account has no limit of its own, or an attacker could use up its owner's
// challenges. The waits are short since a neighbor's challenges delay the owner, too.
func unsolvedChallenges() quota {
	q := newQuota("unsolved challenges", nil, nil)
	q.ladders[NetworkSubject] = failures.MustLadder(failures.Backoff{
		After: UnsolvedPerAddress, First: time.Second, Max: 12 * time.Second, Window: time.Hour,
	})
	q.ladders[AddressSubject] = failures.MustLadder(failures.Backoff{
		After: UnsolvedPerPair, First: 5 * time.Second, Max: 15 * time.Second, Window: time.Hour,
	})
	return q
}

// UnsolvedPerAddress and UnsolvedPerPair are how many challenges an IP address, and an account
// from one, may leave unsolved within an hour before each next one has to wait.
const (
	UnsolvedPerAddress = 1000
	UnsolvedPerPair    = 10
)

// unsolved is what the attempt's challenge is charged to: the IP address, in the network's
// place, and in its own the account from there, if one is named. So both are in one shard.
func (g *Guard) unsolved(v *view) Charge {
	q := &v.rules.unsolved
	c := Charge{Now: v.Now, Ladders: &q.ladders, Binds: &q.attacked, First: NetworkSubject, Last: NetworkSubject + 1}
	if c.Network = g.digests.ofQuota(q.name, v.Address); v.name != "" {
		c.Address, c.First = g.digests.ofQuota(q.name, ofPair(v.Account, v.Address)), AddressSubject
	}
	return c
}

// open charges the challenge that a decision asks for. Without room the decision is to wait.
func (g *Guard) open(ctx context.Context, v *view, d *Decision) error {
	if g.config.Challenges == nil {
		return nil
	}
	c, err := g.config.Store.Begin(ctx, g.unsolved(v))
	if err != nil {
		*d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
		return fmt.Errorf("guard: charging a challenge: %w", err)
	}
	if !c.ID.Charged() {
		d.Action, d.RetryAfter = Delay, max(c.Usage[AddressSubject].FreeIn, c.Usage[NetworkSubject].FreeIn, time.Second)
		d.Reasons.first(Reason{Cause: TooManyUnsolved, Subject: OnAddress, Wait: d.RetryAfter})
		return nil
	}
	var sealed challenge.Charge // not d's own: a decision stays off the heap
	_, err = binary.Encode(sealed[:], binary.LittleEndian, openCharge{c.ID, c.First})
	d.open = sealed
	return err
}

// openCharge is a challenge's charge as it is sealed.
type openCharge struct {
	ID    failures.ChargeID
	First uint8
}

// solved takes back what a challenge was charged.
func (g *Guard) solved(ctx context.Context, v *view, sealed challenge.Charge) error {
	var of openCharge
	if _, err := binary.Decode(sealed[:], binary.LittleEndian, &of); err != nil || !of.ID.Charged() {
		return err
	}
	c := g.unsolved(v)
	c.ID, c.First = of.ID, of.First
	if err := g.config.Store.Settle(afterwards(ctx), c, Withdrawn); err != nil {
		return fmt.Errorf("guard: taking back a solved challenge: %w", err)
	}
	return nil
}

// PicturesPerHour is how many pictures may be answered from one address without
// the work that was asked for as well, and PicturesPerMinute from everywhere
// while the site is attacked: enough for people whose browser runs no JavaScript,
// and little to a program that reads pictures.
const (
	PicturesPerHour   = 10
	PicturesPerMinute = 30
)

func picturesAlone() quota {
	return newQuota("image CAPTCHAs", []failures.Rung{{Failures: PicturesPerHour, Window: time.Hour}}, []failures.Rung{{Failures: PicturesPerMinute, Window: time.Minute}})
}

// sprayedLogins is how many logins of unknown clients a sprayed password admits
// without a verification code.
func sprayedLogins() quota {
	return newQuota("sprayed logins", []failures.Rung{{Failures: SprayedPerHour, Window: time.Hour}, {Failures: SprayedPerDay, Window: 24 * time.Hour}}, nil)
}

// sprayedCharge is what a login with a sprayed password is charged to.
func (g *Guard) sprayedCharge(q *quota, spray uint32, now time.Time, id failures.ChargeID) Charge {
	key := g.digests.ofQuota(q.name, g.digests.ofIdentity(spray))
	return Charge{Now: now, Address: key, Network: key, Ladders: &q.ladders, Binds: &q.binds, Last: AddressSubject + 1, ID: id}
}

// admitSprayed charges the login that a sprayed password may become, as if it had
// succeeded (R1). Without room the right password is not enough.
func (g *Guard) admitSprayed(ctx context.Context, v *view) error {
	if !v.asksSprayed() {
		return nil
	}
	taken, err := g.config.Store.Begin(ctx, g.sprayedCharge(&v.rules.sprayed, v.Spray, v.Now, failures.ChargeID{}))
	if err != nil {
		return fmt.Errorf("guard: charging a login with a sprayed password: %w", err)
	}
	if taken.ID.Charged() {
		v.Asides[sprayAside] = &taken
	}
	return nil
}

// take charges the attempt's address, and the site, one more. If there is no
// room, nothing is charged, and wait is how long until there is.
func (g *Guard) take(ctx context.Context, v *view, q *quota) (taken Charge, wait time.Duration, err error) {
	taken = Charge{Now: v.Now, Network: v.Network, Ladders: &q.ladders, Binds: &q.binds, Last: q.last + 1}
	taken.Address = g.digests.ofQuota(q.name, v.Address)
	if q.last == NetworkSubject {
		taken.Network = g.digests.ofQuota(q.name, digest{})
	}
	if v.modeOn || v.slowing {
		taken.Binds = &q.attacked
	}
	if taken, err = g.config.Store.Begin(ctx, taken); err != nil {
		return taken, 0, fmt.Errorf("guard: charging %s: %w", q.name, err)
	}
	if !taken.ID.Charged() {
		wait = max(taken.Usage[AddressSubject].FreeIn, taken.Usage[NetworkSubject].FreeIn, time.Second)
	}
	return taken, wait, nil
}
