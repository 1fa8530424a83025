package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/trusted"
)

// A view is all that is known of one attempt until it is decided.
type view struct {
	Charge
	rules      *rules
	rule       *[subjectCount]*rule
	name       string // the account, normalised and canonical
	badName    bool
	listed     Verdict
	on         *listRule // the named list that the address is on; nil: none
	blockedFor time.Duration
	suspect    bool // the address may be a proxy that nobody configured (R9)
	modeOn     bool
	slowing    bool
	watched    bool   // CAPTCHA mode would be on, and only watches
	crawling   bool   // strangers would be slowed, and are not
	claimed    bool   // an answer to a challenge came along
	gone       bool   // the client has hung up while it waited
	showed     bool   // a one-time code came along
	passed     bool   // and it is good: known once the attempt is charged
	badPass    bool   // or it was not, and counts no more
	tag        uint32 // stands for the password; see Charge
	// Of an attempt that is pretended to: what was counted before, and why it is.
	before    [subjectCount]failures.Usage
	atAside   [asideCount]failures.Usage // before the charge
	identity  uint32                     // of the client; 0: unknown
	unread    bool                       // the account's failures were not looked at, since an aside is known to be full
	pretended Reasons
	waited    time.Duration
	hardest   bool // no verification code can be sent, and there are challenges
}

// Begin decides an attempt. Only if the decision is Proceed may the password
// be looked at, and Settle must then be told how that ended. An error means
// that the counters failed; the decision then refuses.
//
// An attempt that finds the room taken only by undecided ones waits for its
// turn, at most twice Policy.PendingFor, unless ctx ends before (R3).
func (g *Guard) Begin(ctx context.Context, a Attempt) (d Decision, err error) {
	var v view
	g.look(&a, &v)
	if g.config.Timed != nil {
		defer g.timed(ctx, &v, v.Now)
	}
	if err = g.decide(ctx, &a, &v, &d); err != nil {
		v.Usage = [subjectCount]failures.Usage{} // whatever it was before
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Action == Proceed && v.badName {
		d, err = g.nameless(ctx, &v)
	}
	if !v.badName {
		d.Account = v.name
	}
	if d.Passed = v.passed; v.badPass {
		d.Reasons.first(Reason{Cause: PassFailed})
	}
	g.tallyList(&v, &d)
	if d.Action == Proceed && v.Apart {
		d.Action, d.RetryAfter, d.Reasons = FakeFailure, 0, v.pretended
		g.config.Mode.Failed(ofPair(v.Account, v.Address), v.Address, v.Now)
		d.Ticket.fill(&a, &v, &d)
	} else if d.Action == Proceed {
		d.Insufficient = v.insufficient()
		d.Ticket.fill(&a, &v, &d)
		return d, nil
	}
	if d.Action == Challenge {
		d.level, d.counted = v.level(), !v.KnownOnly && !v.unread || v.privileged() || v.asksSprayed()
	}
	switch {
	case v.gone || err != nil && ctx.Err() != nil:
		g.HangUp()
		g.config.Mode.Observe(captchamode.Shed, v.Address)
	case d.Action == Challenge && !v.Repeat && !d.Reasons.Has(SprayedAsks):
		d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.Address)
	}
	if d.Action == Challenge && err == nil && !v.gone {
		err = g.open(ctx, &v, &d)
	}
	g.tell(Event{
		At: v.Now, Door: a.Integration, Account: v.name, Address: a.Address, Action: d.Action, Reasons: d.Reasons,
		Privileged: d.Privileged, AtDevice: v.AtDevice && d.Privileged, Repeat: v.Repeat, Sprayed: v.Sprayed, Guess: v.Spray, AccountFailures: v.ownFailures(),
		Identity: v.identity,
	})
	return d, err
}

func (g *Guard) timed(ctx context.Context, v *view, began time.Time) {
	g.config.Timed(ctx, g.config.Now().Sub(began), v.waited)
}

// look fills in what is known before anything is counted.
func (g *Guard) look(a *Attempt, v *view) {
	v.rules, v.Now = g.rules.Load().in(a.Directory), g.config.Now()
	g.ofMode(v)
	v.claimed = a.Solution.Claimed()
	v.hardest = !a.SendsCode && g.config.Challenges != nil
	g.digests.ofAddress(a.Address, &v.Address, &v.Network)
	v.listed, v.on = g.listed(v.rules, a.Address, v.Now)
	v.blockedFor = g.blocked(v.listed, v.on, a.Address, v.Now)
	v.suspect = g.peers.softened(v.Address)
	of := &v.of().calm
	if v.slowing || v.crawling {
		of = &v.of().slowed
	}
	v.rule, v.Ladders, v.Last = &of.rules, &of.ladders, subjectCount
	v.Nobodys = g.nobodys(a.Address, v.Address, a.Directory, v.Now)
	v.badName = g.name(v, a) != nil
	if v.badName {
		v.Last = AccountSubject
	} else {
		g.device(v, a.Devices)
		if a.PasswordTag != 0 {
			v.tag, v.Spray = g.digests.ofTag(a.PasswordTag, &v.Account)
			v.SprayAccounts = v.rules.policy.Spray.Accounts
		}
	}
	v.identity = a.Fingerprint
	v.showed = a.VerificationCode != "" && g.config.Codes != nil && !v.badName
	v.bindAll()
	v.Ends = v.rule[PairSubject].then[Forget] & v.rule[PairSubject].enforce
}

// ofMode asks CAPTCHA mode. For a directory that has a policy of its own it does what it
// would do elsewhere.
func (g *Guard) ofMode(v *view) {
	v.modeOn, v.slowing = g.config.Mode.On(), g.config.Mode.Slowing()
	v.watched, v.crawling = g.config.Mode.Watched()
	if v.rules.stricts {
		v.modeOn, v.slowing = v.modeOn || v.watched, v.slowing || v.crawling
		v.watched, v.crawling = false, false
	}
}

// bindAll says what stops the attempt, by what came along with it.
func (v *view) bindAll() {
	v.KnownOnly = v.asks() && !v.claimed && !v.showed
	if v.Tag = v.tag; v.showed {
		v.Tag = 0 // each guess of a verification code counts
	}
	v.Binds = &v.of().binds[v.lifts()]
}

// of are the rules for the attempt's address.
func (v *view) of() *subjectRules {
	if v.on != nil {
		return v.on.rules
	}
	return v.rules.subjectRules
}

func (v *view) lifts() (l lift) {
	if v.claimed {
		l |= claimedSolve
	}
	if v.showed {
		l |= shownPass
	}
	if v.suspect {
		l |= likelyProxy
	}
	if v.listed == Allowed {
		l |= allowedAddress
	}
	if v.Apart {
		l |= pretending
	}
	if v.crawling && !v.slowing {
		l |= watchedSlowing
	}
	return l
}

// insufficient reports whether even the right password is not enough: attackers
// try it on many accounts, and this is an unknown client without a verification code
// that was not admitted without one either.
func (v *view) insufficient() bool {
	return v.Sprayed && !v.privileged() && !v.passed && !v.rules.policy.Spray.Monitor && v.Asides[sprayAside] == nil
}

// asksSprayed reports whether an attempt with a sprayed password solves the most
// expensive challenge, right or wrong: its owner can get no verification code.
func (v *view) asksSprayed() bool {
	return v.hardest && v.Sprayed && !v.privileged() && !v.showed && !v.rules.policy.Spray.Monitor
}

func (v *view) privileged() bool { return v.Status == trusted.Privileged }

// modeAsks reports whether CAPTCHA mode asks for a challenge.
func (v *view) modeAsks() bool {
	return v.modeOn && !v.privileged() && v.listed != Allowed
}

// nameless refuses an attempt without a usable name. It has been charged to
// its address and stays so.
func (g *Guard) nameless(ctx context.Context, v *view) (d Decision, err error) {
	d.refuse(Reason{Cause: BadAccountName}, 0)
	g.config.Mode.Observe(captchamode.Failure, v.Address)
	if err := g.settle(afterwards(ctx), v.Charge, Failed); err != nil {
		return d, fmt.Errorf("guard: settling an attempt without a name: %w", err)
	}
	return d, nil
}

// decide charges the attempt and, if there is no room, waits for its turn as
// long as that is of use.
func (g *Guard) decide(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var waiting *waiter
	var since time.Time
	defer func() {
		if waiting != nil {
			waiting.leave()
		}
	}()
	for patient := true; ; *d = (Decision{}) {
		if err := g.charge(ctx, v); err != nil {
			return err
		}
		if decide(v, patient, d) {
			waiting, since = g.waiting.waiter(waiting, v), g.config.Now()
			patient = waiting.wait(ctx, v.blockedBy(&g.digests), 2*v.rules.policy.CheckTimeout)
			v.gone = !patient && ctx.Err() != nil
			g.again(v, since)
			continue
		}
		switch {
		case d.Action == FakeFailure:
			v.pretend(d)
			continue
		case d.Action == Proceed && v.showed && !d.Privileged:
			if err := g.checkPass(ctx, a, v); err != nil {
				return err
			}
			if !v.passed {
				continue
			}
			d.Reasons.add(Reason{Cause: PassShown})
		case d.Action == Proceed && v.claimed:
			return g.checkSolve(ctx, a, v, d)
		case d.Action == Proceed && v.asksSprayed():
			*d = Decision{Action: Challenge, Reasons: Reasons{{Cause: SprayedAsks}}}
			return g.withdraw(ctx, &v.Charge)
		case d.Action == Forget: // undecided attempts alone fill the budget
			d.Action, d.RetryAfter = Delay, time.Second
		case d.Action == Delay && d.RetryAfter <= a.Hold:
			waiting, since = g.waiting.waiter(waiting, v), g.config.Now()
			if waiting.hold(ctx, d.RetryAfter) {
				g.again(v, since)
				continue
			}
			v.gone = v.gone || ctx.Err() != nil
		}
		return nil
	}
}

// again is for an attempt that has waited since then.
func (g *Guard) again(v *view, since time.Time) {
	v.Now = g.config.Now()
	v.waited += v.Now.Sub(since)
}

// charge charges the attempt as if it had failed (R1), unless it is blocked.
func (g *Guard) charge(ctx context.Context, v *view) error {
	if v.listed == Blocked {
		return nil
	}
	var err error
	v.ID, v.Asides = failures.ChargeID{}, [asideCount]*Charge{}
	usual := v.KnownOnly
	v.unread = g.knownFull(v)
	v.KnownOnly = usual || v.unread
	v.Charge, err = g.begin(ctx, v.Charge)
	if v.KnownOnly = usual; err != nil {
		return fmt.Errorf("guard: charging an attempt: %w", err)
	}
	if v.Apart {
		v.alsoBefore()
	}
	if v.PlaceErr != nil {
		if ctx.Err() == nil { // a client that hangs up is no failure of the store
			g.config.Failed(fmt.Errorf("guard: looking up the known client: %w", v.PlaceErr))
		}
		v.PlaceErr = nil
	}
	if v.unread {
		return nil
	}
	return g.chargeAsides(ctx, v)
}

// blockedBy is the key of the first subject without room.
func (v *view) blockedBy(digests *digester) failures.Key {
	first, last := v.Counted()
	really := digests.apart(v.Charge)
	for i := first; i < last; i++ {
		if v.Usage[i].Over&v.Bind(i) != 0 {
			return really.Subjects()[i].Key
		}
	}
	for i := range v.atAside {
		if over, _ := v.asideOver(i); over != 0 {
			return failures.Key(digests.asideKey(i, v.identity))
		}
	}
	return failures.Key{}
}

// withdraw takes back every charge of an attempt whose password was not looked
// at.
func (g *Guard) withdraw(ctx context.Context, c *Charge) error {
	err := g.settle(afterwards(ctx), *c, Withdrawn)
	g.wake(c)
	if err != nil {
		return fmt.Errorf("guard: taking back a charge: %w", err)
	}
	return nil
}

// afterwards is a context for what must be written although the client may have
// hung up: a client that hangs up has still guessed. How long that may take is
// the store's business.
func afterwards(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// wake lets attempts that wait for the same subjects look again.
func (g *Guard) wake(c *Charge) {
	if g.waiting.waiting.Load() > 0 {
		first, last := c.Counted()
		really := g.digests.apart(*c)
		subjects := really.Subjects()
		g.waiting.wake(subjects[first:last])
		for _, aside := range c.Asides {
			if aside != nil {
				own := aside.Subjects()
				g.waiting.wake(own[AddressSubject : AddressSubject+1])
			}
		}
	}
}

// tell tells the observer, if there is one.
func (g *Guard) tell(e Event) {
	if g.config.Observer != nil {
		g.config.Observer.Observe(e)
	}
}

// ownFailures is accountFailures, and 0 where these may be other accounts' (R6).
func (v *view) ownFailures() int {
	if v.Usage[AccountSubject].Shared {
		return 0
	}
	return v.accountFailures()
}

// accountFailures is how many failures of strangers the account had; 0 if its
// place was privileged.
func (v *view) accountFailures() int {
	if first, last := v.Counted(); first <= AccountSubject && AccountSubject < last {
		return int(v.Usage[AccountSubject].Count)
	}
	return 0
}

// Login takes one attempt from beginning to end: it begins it, calls verify if
// and only if the password may be checked, and settles. An error or a panic of
// verify abandons the attempt; the error is returned, the panic goes on. If ctx was
// cancelled by then, the attempt has failed: nobody can say how far the check had
// come, and whoever hangs up has still guessed. A deadline abandons it.
//
// Where the decision is Pretend, verify is not called, and Login takes as long as the
// newest wrong passwords did.
//
// The attempt succeeded if and only if ok is true.
func (g *Guard) Login(ctx context.Context, a Attempt, verify func(context.Context) (bool, error)) (d Decision, ok bool, err error) {
	d, err = g.Begin(ctx, a)
	if err == nil && d.Action == FakeFailure {
		g.pace.keep(ctx)
		return d, false, g.Settle(ctx, d.Ticket, Failed)
	}
	if err != nil || d.Action != Proceed {
		return d, false, err
	}
	outcome, began := Abandoned, time.Now()
	defer func() {
		if outcome == Abandoned && errors.Is(ctx.Err(), context.Canceled) {
			outcome = Failed
		}
		settled := g.Settle(ctx, d.Ticket, outcome)
		if errors.Is(settled, ErrInsufficient) {
			ok, settled = false, nil
		}
		if settled != nil && err == nil {
			err = settled
			ok = ok && outcome == Succeeded
		}
	}()
	ok, err = verify(ctx)
	if err != nil {
		return d, false, fmt.Errorf("guard: checking the password: %w", err)
	}
	if outcome = OutcomeOf(ok); !ok {
		g.pace.note(time.Since(began))
	}
	return d, ok, nil
}
