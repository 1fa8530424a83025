package guard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/failures"
)

// ErrChallenges means that too many challenges of an IP address are unsolved.
var ErrChallenges = errors.New("guard: too many challenges of this IP address are unsolved")

// Issue returns the challenge that a decision asks for. It is valid for this account, integration and IP address only;
// its solution takes it back from the failure rate.
//
// With the zero Decision there was no attempt yet. The challenge is then one that a.Account asks for now (SolveAhead).
// Without an account, it is valid for one attempt at any account, unless the account itself asks for one. Otherwise an
// attacker could collect such challenges and spend them all on one account. Issue charges it, and returns ErrChallenges
// if too many are unsolved, or ErrAccountName. Begin has charged a decision's.
func (g *Guard) Issue(ctx context.Context, a Attempt, d Decision) (challenge.Challenge, error) {
	if g.config.Challenges == nil {
		return challenge.Challenge{}, errors.New("guard: there is no challenge to issue")
	}
	if d.Action != Challenge {
		v := view{rules: g.rules.Load()}
		v.Now = g.config.Now()
		g.digests.ofAddress(a.Address, &v.from.address, &v.from.network)
		if a.Account != "" {
			if err := g.name(&v, &a); err != nil {
				return challenge.Challenge{}, err
			}
			d.Account = v.name
		}
		if err := g.open(ctx, &v, &d); err != nil {
			return challenge.Challenge{}, err
		} else if d.Action == Delay {
			return challenge.Challenge{}, ErrChallenges
		}
	}
	bond, err := g.bond(ctx, &a, &d)
	if err != nil {
		return challenge.Challenge{}, err
	}
	return g.config.Challenges.Issue(ctx, bond, d.Counted)
}

// bond is the binding of a decision's challenge.
func (g *Guard) bond(ctx context.Context, a *Attempt, d *Decision) (bond challenge.Binding, err error) {
	if !d.counted && d.Account != "" {
		if d.level, err = g.levelOf(ctx, d.Account); err != nil {
			return bond, err
		}
	}
	bond = g.binding(a, g.digests.addressKey(a.Address), d.Account, d.level)
	bond.Charge, bond.ImageSolved = d.open, d.imageSolved
	return bond, nil
}

// Rebind turns a.Solution of a challenge that was issued before the account was named into one of the challenge that d
// asks for. A second image would cost the owner more, but a guess no more. Begin the attempt again with the solution.
// It is zero if the account asks for more work: the challenge that Issue then returns for d has only that.
func (g *Guard) Rebind(ctx context.Context, a Attempt, d *Decision) (s challenge.Solution, err error) {
	if d.Verdict.Reason != challenge.Elsewhere || d.Action != Challenge && !d.Reasons.Has(TooManyUnsolved) {
		return s, nil
	}
	bond, err := g.bond(ctx, &a, d)
	if err != nil {
		return s, err
	}
	v, solved := new(view), Decision{}
	g.look(&a, v)
	stopped, err := g.answered(ctx, &a, v, &solved, []challenge.Binding{g.binding(&a, v.from.address, "", 0)})
	d.Verdict = solved.Verdict
	switch {
	case err != nil || d.Verdict.Reason == challenge.Elsewhere:
		return s, err
	case stopped.Cause != NoCause:
		d.unsolved(stopped)
		return s, nil
	case !d.Verdict.Solved:
		return s, nil
	case bond.Level == 0 || d.Verdict.Work == 0:
		return g.config.Challenges.Solved(bond, d.Counted), nil
	}
	d.imageSolved = true
	d.Reasons = slices.DeleteFunc(d.Reasons, func(why Reason) bool { return why.Cause == ChallengeFailed })
	return s, nil
}

// SolveAhead checks a.Solution of a challenge that Issue returned for the zero Decision. If the result is Proceed, one
// attempt of this account, IP address and integration may use it within challenge.TTL (SolvedAhead). It is for apps
// that cannot show a challenge.
func (g *Guard) SolveAhead(ctx context.Context, a Attempt) (d Decision, err error) {
	v := new(view)
	if g.look(&a, v); v.badName || g.config.Challenges == nil {
		d.refuse(Reason{Cause: BadAccountName}, 0)
		return d, nil
	}
	level, err := g.levelOf(ctx, v.name)
	if err != nil {
		return d, err
	}
	bond := g.binding(&a, v.from.address, v.name, level)
	stopped, err := g.answered(ctx, &a, v, &d, []challenge.Binding{bond})
	if err != nil || !d.Verdict.Solved {
		d.unsolved(stopped)
		return d, err
	}
	d.Action = Proceed
	return d, g.config.Challenges.Admit(ctx, bond)
}

// SolvedAhead returns the solution for an attempt that d stopped, if its challenge was solved ahead (SolveAhead); else
// the zero Solution. Begin the attempt again with it.
func (g *Guard) SolvedAhead(ctx context.Context, a Attempt, d Decision) (challenge.Solution, error) {
	if d.Action != Challenge && !d.Reasons.Has(TooManyUnsolved) || g.config.Challenges == nil || a.Solution.Claimed() {
		return challenge.Solution{}, nil
	}
	bond, err := g.bond(ctx, &a, &d)
	if err != nil {
		return challenge.Solution{}, err
	}
	return g.config.Challenges.Carry(ctx, bond, d.Counted)
}

// SolvesNext makes the solution of an attempt count for one more attempt of this account, IP address and integration,
// the second factor of the same login (SolvedAhead).
func (g *Guard) SolvesNext(ctx context.Context, d Decision) error {
	v := d.Ticket.of
	if !d.Verdict.Solved || v == nil {
		return nil
	}
	a := Attempt{Integration: v.integration}
	return g.config.Challenges.Admit(ctx, g.binding(&a, v.from.address, v.name, v.level()))
}

// levelOf reads the level of an account, by its canonical name, that CAPTCHA mode stopped before its failures were
// read.
func (g *Guard) levelOf(ctx context.Context, account string) (uint8, error) {
	v := new(view) // what is counted, whatever the mode asks for
	v.rules, v.Now = g.rules.Load(), g.config.Now()
	g.digests.ofAccount(account, &v.Account)
	g.subjects(0, v)
	v.only(OnAccount)
	var err error
	if _, err = g.config.Store.Read(ctx, &v.Charge); err != nil {
		return 0, fmt.Errorf("guard: reading an account's count: %w", err)
	}
	return v.level(), nil
}

// binding binds a challenge to an account or, if that is empty, to the integration.
func (g *Guard) binding(a *Attempt, address digest, account string, level uint8) challenge.Binding {
	return challenge.Binding{Address: address, Purpose: g.digests.ofPurpose(a.Integration, account), Level: level}
}

// NeedsChallenge reports whether unknown clients at this address need a challenge before an account is named. CAPTCHA
// mode (unless the address is allowed) or an IP list asks for it. A known client needs none.
func (g *Guard) NeedsChallenge(address netip.Addr) bool {
	v := view{mode: g.modeState(), listed: g.listed(g.rules.Load(), address, g.config.Now())}
	return v.asks()
}

// level is the WorkLevel of a challenge for the account now: cheap challenges cannot be collected and spent later.
func (v *view) level() uint8 { return v.levelAt(v.accountFailures()) }

func (v *view) levelAt(failures int) uint8 {
	if v.asksSprayed() {
		return hardest
	}
	if of := v.rules.account; of.enforce&of.then[Challenge] == 0 {
		return 0
	}
	return WorkLevel(failures)
}

// checkSolution uses up a solution that is needed. It comes last, so that a delay does not cost the user a solution.
func (g *Guard) checkSolution(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var why Decision
	needed, ofAccount := v.needsSolution(&why)
	if !needed {
		return nil
	}
	bonds := []challenge.Binding{g.binding(a, v.from.address, v.name, v.level())}
	if !ofAccount {
		bonds = append(bonds, g.binding(a, v.from.address, "", 0))
	}
	stopped, err := g.answered(ctx, a, v, d, bonds)
	switch {
	case err != nil:
		return errors.Join(err, g.withdraw(ctx, v.charged()))
	case d.Verdict.Solved:
		d.Reasons.add(Reason{Cause: ChallengeSolved})
		if err := g.admitSprayed(ctx, v); err != nil {
			return errors.Join(err, g.withdraw(ctx, v.charged()))
		}
		return nil
	}
	why.unsolved(stopped)
	why.Verdict, why.Known = d.Verdict, d.Known
	*d = why
	return g.withdraw(ctx, v.charged())
}

// unsolved turns d into the decision about a solution that was not accepted.
func (d *Decision) unsolved(stopped Reason) {
	switch {
	case stopped.Wait > 0:
		d.Action, d.Reasons = Proceed, nil
		d.stop(Delay, stopped)
	case stopped.Cause != NoCause:
		d.Action = Challenge
		d.Reasons.add(stopped)
	default:
		d.Action = Challenge
		d.Reasons.add(Reason{Cause: ChallengeFailed})
	}
}

// answered checks a solution, or returns what stops it: an image CAPTCHA where proof of work is needed, or too many of
// them. The challenge was charged as unsolved when it was issued (R1).
func (g *Guard) answered(ctx context.Context, a *Attempt, v *view, d *Decision,
	bonds []challenge.Binding) (stopped Reason, err error) {
	if g.config.Challenges == nil {
		return stopped, nil
	}
	if g.config.Challenges.PictureAlone(a.Solution) {
		if bonds[0].Level > 0 {
			return Reason{Cause: WorkNeeded, Subject: OnAccount}, nil
		}
		if wait, err := g.takeImage(ctx, v); err != nil || wait > 0 {
			return Reason{Cause: TooManyPictures, Subject: OnAddress, Wait: wait}, err
		}
	}
	d.Verdict, err = g.config.Challenges.Check(ctx, a.Solution, bonds...)
	if err != nil {
		d.Verdict.Solved = false
		g.config.Failed(fmt.Errorf("guard: checking a challenge's answer: %w", err))
	}
	if d.Verdict.Solved && d.Verdict.Counted {
		g.config.Mode.TakeBack(captchamode.Unsolved)
	}
	if d.Verdict.Reason == challenge.Right || err != nil { // a wrong solution counts like an unsolved challenge
		if err := g.solved(ctx, v, d.Verdict.Charge); err != nil {
			return stopped, err
		}
	}
	return stopped, nil
}

// take charges subjects that are no login's. Without room it charges nothing, and wait is how long until there is.
func (g *Guard) take(ctx context.Context, c *Charge) (wait time.Duration, err error) {
	if err := g.config.Store.Begin(ctx, c); err != nil || c.ID.Charged() {
		return 0, err
	}
	wait = time.Second
	for i := range c.Subjects() {
		wait = max(wait, c.Subjects()[i].Usage.FreeIn)
	}
	return wait, nil
}

// unsolved is the charge for a challenge: the IP address and, if one is named, the account from there.
func (g *Guard) unsolved(v *view, pair bool) (c Charge) {
	c.Now = v.Now
	address := g.digests.ofQuota("unsolved challenges", v.from.address)
	c.add(v.rules.unsolvedAddress, OnAddress, address, address, EveryClient, 0)
	if pair {
		key := g.digests.ofQuota("unsolved challenges", ofPair(v.Account, v.from.address))
		c.add(v.rules.unsolvedPair, OnPair, key, address, EveryClient, 0)
	}
	return c
}

// open charges a challenge. Without room the decision becomes Delay.
func (g *Guard) open(ctx context.Context, v *view, d *Decision) error {
	if g.config.Challenges == nil {
		return nil
	}
	c := g.unsolved(v, v.name != "")
	wait, err := g.take(ctx, &c)
	if err != nil {
		*d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
		return fmt.Errorf("guard: charging a challenge: %w", err)
	}
	if wait > 0 {
		d.Action, d.RetryAfter = Delay, wait
		d.Reasons.first(Reason{Cause: TooManyUnsolved, Subject: OnAddress, Wait: d.RetryAfter})
		return nil
	}
	var sealed challenge.Charge // not d's own: a decision stays off the heap
	_, err = binary.Encode(sealed[:], binary.LittleEndian, openCharge{c.ID.At, c.ID.Node, v.name != ""})
	d.open = sealed
	return err
}

// openCharge is a challenge's charge as sealed: its ID, whose subjects lie in one shard.
type openCharge struct {
	At   int64
	Node uint64
	Pair bool
}

func (g *Guard) solved(ctx context.Context, v *view, sealed challenge.Charge) error {
	var of openCharge
	if _, err := binary.Decode(sealed[:], binary.LittleEndian, &of); err != nil || of.At == 0 {
		return err
	}
	c := g.unsolved(v, of.Pair)
	c.ID = failures.ChargeID{At: of.At, Node: of.Node}
	if err := g.config.Store.Settle(afterwards(ctx), &c, Withdrawn); err != nil {
		return fmt.Errorf("guard: taking back a solved challenge: %w", err)
	}
	return nil
}

// takeImage charges an image CAPTCHA that is solved without proof of work.
func (g *Guard) takeImage(ctx context.Context, v *view) (wait time.Duration, err error) {
	c := Charge{Now: v.Now}
	address, site := g.digests.ofQuota("image CAPTCHAs", v.from.address), g.digests.ofQuota("image CAPTCHAs", digest{})
	c.add(v.rules.images, OnAddress, address, address, EveryClient, 0)
	ofSite := c.add(v.rules.imagesOfSite, OnSite, site, site, EveryClient, 0)
	if !v.mode.on && !v.mode.throttles {
		ofSite.Binds = [3]failures.Mask{} // counted only
	}
	if wait, err = g.take(ctx, &c); err != nil {
		return 0, fmt.Errorf("guard: charging an image CAPTCHA: %w", err)
	}
	return wait, nil
}

// admitSprayed charges a login with a sprayed password as a success (R1). Without room the right password is not
// enough.
func (g *Guard) admitSprayed(ctx context.Context, v *view) error {
	if !v.asksSprayed() {
		return nil
	}
	c := g.sprayedCharge(v.rules, v.Spray, v.Now)
	wait, err := g.take(ctx, &c)
	if err != nil {
		return fmt.Errorf("guard: charging a login with a sprayed password: %w", err)
	}
	if wait == 0 {
		v.admitted = &c
	}
	return nil
}
