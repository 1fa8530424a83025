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
	"authguard/trusted"
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
		g.digests.ofAddress(a.Address, &v.from.address, &v.from.network)
		if err := g.open(ctx, &v, &d); err != nil {
			return challenge.Challenge{}, err
		} else if d.Action == Delay {
			return challenge.Challenge{}, ErrChallenges
		}
	}
	bond := g.binding(&a, g.digests.addressKey(a.Address), d.Account, d.level)
	bond.Charge = d.open
	return g.config.Challenges.Issue(ctx, bond, d.Counted)
}

// levelOf reads what is counted against an account that CAPTCHA mode has stopped
// before that was looked at.
func (g *Guard) levelOf(ctx context.Context, a *Attempt) (uint8, error) {
	v := new(view)
	g.look(&Attempt{Account: a.Account}, v)
	v.mode = modeState{} // what is counted, whatever the mode asks for
	g.subjects(0, v)
	v.only(OnAccount)
	var err error
	if v.Charge, _, err = g.config.Store.Read(ctx, v.Charge); err != nil {
		return 0, fmt.Errorf("guard: reading an account's count: %w", err)
	}
	return v.level(), nil
}

// binding is what a challenge for an account is good for; for a door, if the account
// is empty.
func (g *Guard) binding(a *Attempt, address digest, account string, level uint8) challenge.Binding {
	return challenge.Binding{Address: address, Purpose: g.digests.ofPurpose(a.Integration, account), Level: level}
}

// NeedsChallenge reports whether the site asks everybody at this address for a
// challenge before an account is even named: CAPTCHA mode is on and the
// address is not allowed, or a named list asks for one. An attempt from a privileged
// place needs none after all.
func (g *Guard) NeedsChallenge(address netip.Addr) bool {
	v := view{mode: g.modeState(), listed: g.listed(g.rules.Load(), address, g.config.Now())}
	return v.asks()
}

// level is how much work a challenge for the account has to ask for, by what is
// counted against it now: challenges that were issued while that was less cannot
// be collected and spent later.
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

// checkSolution uses up the challenge's answer if the attempt needs one at all.
// It is the last thing before proceeding: nobody burns a solved challenge only
// to be told to wait.
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
	why.Verdict, why.Known = d.Verdict, d.Known
	*d = why
	return g.withdraw(ctx, v.charged())
}

// answered looks at a challenge's answer, or says what stops it: it is a picture where work is
// needed. The challenge was charged as unsolved when it was issued (R1).
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
	if d.Verdict.Reason == challenge.Right || err != nil { // any other is no better than an unsolved one
		if err := g.solved(ctx, v, d.Verdict.Charge); err != nil {
			return stopped, err
		}
	}
	return stopped, nil
}

// take charges subjects that are no login's. Without room nothing is charged, and wait is how long
// until there is.
func (g *Guard) take(ctx context.Context, c *Charge) (wait time.Duration, err error) {
	charged, err := g.config.Store.Begin(ctx, *c)
	if err != nil {
		return 0, err
	}
	if *c = charged; c.ID.Charged() {
		return 0, nil
	}
	wait = time.Second
	for i := range c.Subjects() {
		wait = max(wait, c.Subjects()[i].Usage.FreeIn)
	}
	return wait, nil
}

// unsolved is what the attempt's challenge is charged to: the IP address and, if one is named, the
// account from there.
func (g *Guard) unsolved(v *view, pair bool) (c Charge) {
	c.Now = v.Now
	address := g.digests.ofQuota("unsolved challenges", v.from.address)
	c.Add(v.rules.unsolvedAddress.subject(OnAddress, address, address, EveryClient, 0))
	if pair {
		key := g.digests.ofQuota("unsolved challenges", ofPair(v.Account, v.from.address))
		c.Add(v.rules.unsolvedPair.subject(OnPair, key, address, EveryClient, 0))
	}
	return c
}

// open charges the challenge that a decision asks for. Without room the decision is to wait.
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

// openCharge is a challenge's charge as it is sealed: its ID, whose subjects lie in one shard.
type openCharge struct {
	At   int64
	Node uint64
	Pair bool
}

// solved takes back what a challenge was charged.
func (g *Guard) solved(ctx context.Context, v *view, sealed challenge.Charge) error {
	var of openCharge
	if _, err := binary.Decode(sealed[:], binary.LittleEndian, &of); err != nil || of.At == 0 {
		return err
	}
	c := g.unsolved(v, of.Pair)
	c.ID = failures.ChargeID{At: of.At, Node: of.Node}
	if err := g.config.Store.Settle(afterwards(ctx), c, Withdrawn); err != nil {
		return fmt.Errorf("guard: taking back a solved challenge: %w", err)
	}
	return nil
}

// takeImage charges an image CAPTCHA that is solved without proof of work.
func (g *Guard) takeImage(ctx context.Context, v *view) (wait time.Duration, err error) {
	c := Charge{Now: v.Now}
	address, site := g.digests.ofQuota("image CAPTCHAs", v.from.address), g.digests.ofQuota("image CAPTCHAs", digest{})
	c.Add(v.rules.images.subject(OnAddress, address, address, EveryClient, 0))
	ofSite := v.rules.imagesOfSite.subject(OnSite, site, site, EveryClient, 0)
	if !v.mode.on && !v.mode.throttles {
		ofSite.Binds = [3]failures.Mask{} // counted only
	}
	c.Add(ofSite)
	if wait, err = g.take(ctx, &c); err != nil {
		return 0, fmt.Errorf("guard: charging an image CAPTCHA: %w", err)
	}
	return wait, nil
}

// admitSprayed charges the login that a sprayed password may become, as if it had
// succeeded (R1). Without room the right password is not enough.
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

// TakesCodes reports whether there are any: a page asks for a code only then.
func (g *Guard) TakesCodes() bool { return g.config.Codes != nil }

// CodeFor is a pass without a code, for whoever makes codes: the account that a
// name as it was typed stands for, and the place. The error is ErrAccountName.
func (g *Guard) CodeFor(account string, address netip.Addr) (Code, error) {
	var v view
	if err := g.name(&v, &Attempt{Account: account}); err != nil {
		return Code{}, err
	}
	return Code{Account: v.name, Address: g.digests.addressKey(address), Now: g.config.Now()}, nil
}

func (v *view) verificationCode(a *Attempt) Code {
	return Code{Account: v.name, Address: v.from.address, Text: a.VerificationCode, Now: v.Now}
}

// checkCode finds out whether the verification code is valid; v.code says so. If it is not,
// nothing stays charged to the account, so that made-up codes do not block it; but a guessed code
// is a guess, and the IP address is charged for it. The attempt is then to be decided as if it had
// brought none.
func (g *Guard) checkCode(ctx context.Context, a *Attempt, v *view) error {
	valid, err := g.config.Codes.Show(ctx, v.verificationCode(a))
	if err != nil {
		return errors.Join(fmt.Errorf("guard: checking a verification code: %w", err), g.withdraw(ctx, &v.Charge))
	}
	if valid {
		v.code = codeValid
		return nil
	}
	guessed, withdrawn := v.Charge, v.Charge
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; s.rule.ofAddress() {
			withdrawn.Subjects()[i].For = 0
		} else {
			guessed.Subjects()[i].For = 0
		}
	}
	v.code, v.in = codeInvalid, v.in&^withCode
	v.Status, v.AtDevice = trusted.Unknown, false
	g.subjects(a.Fingerprint, v)
	g.config.Mode.Observe(captchamode.Failure, v.from.address)
	if err := g.config.Store.Settle(afterwards(ctx), guessed, Failed); err != nil {
		return fmt.Errorf("guard: charging a wrong code: %w", err)
	}
	return g.withdraw(ctx, &withdrawn)
}
