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

// Begin decides an attempt. Only if the decision is Proceed may the password
// be checked, and Settle must then be told how that ended. An error means
// that the counters failed; the decision then refuses.
//
// An attempt that finds the room taken only by undecided ones waits for its
// turn, at most twice Policy.CheckTimeout, unless ctx ends before (R3).
func (g *Guard) Begin(ctx context.Context, a Attempt) (d Decision, err error) {
	var v view
	g.look(&a, &v)
	if g.config.Timed != nil {
		defer g.timed(ctx, &v, v.Now)
	}
	if err = g.decide(ctx, &a, &v, &d); err != nil {
		v.forgetUsage() // whatever it was before
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Checks() && v.badName {
		d, err = g.nameless(ctx, &v)
	}
	if !v.badName {
		d.Account = v.name
	}
	if d.Passed = v.code == codeValid; v.code == codeInvalid {
		d.Reasons.first(Reason{Cause: PassFailed})
	}
	if d.Action == Proceed && v.fake != nil {
		d.Action, d.Reasons = FakeFailure, v.fake
	}
	g.tallyList(&v, &d)
	if d.Checks() {
		d.Insufficient = v.insufficient()
		d.Ticket = v.ticket(&a, &d)
		if d.Action == Proceed {
			return d, nil
		}
	}
	err = g.stopped(ctx, &v, &d, err)
	g.tell(Event{
		At: v.Now, Door: a.Integration, Account: v.name, Address: a.Address, Action: d.Action, Reasons: d.Reasons,
		Privileged: d.Privileged, AtDevice: v.AtDevice && d.Privileged, Repeat: v.Repeat, Sprayed: v.Sprayed, Guess: v.Spray,
		AccountFailures: v.ownFailures(), Identity: a.Fingerprint,
	})
	return d, err
}

func (g *Guard) timed(ctx context.Context, v *view, began time.Time) {
	g.config.Timed(ctx, g.config.Now().Sub(began), v.waited)
}

// stopped counts an attempt that may not proceed in the failure rate, and charges the challenge
// that it needs.
func (g *Guard) stopped(ctx context.Context, v *view, d *Decision, err error) error {
	if d.Action == Challenge {
		d.level, d.counted = v.level(), !v.challengesAll() || v.Known() || v.asksSprayed()
	}
	switch {
	case v.gone || err != nil && ctx.Err() != nil:
		g.HangUp()
		g.config.Mode.Observe(captchamode.Shed, v.from.address)
	case d.Action == Challenge && !v.Repeat && !d.Reasons.Has(SprayedAsks):
		d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.from.address)
	}
	if d.Action == Challenge && err == nil && !v.gone {
		return g.open(ctx, v, d)
	}
	return err
}

// nameless refuses an attempt without a usable name. It has been charged to
// its address and stays so.
func (g *Guard) nameless(ctx context.Context, v *view) (d Decision, err error) {
	d.refuse(Reason{Cause: BadAccountName}, 0)
	g.config.Mode.Observe(captchamode.Failure, v.from.address)
	if err := g.config.Store.Settle(afterwards(ctx), v.Charge, Failed); err != nil {
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
			patient = waiting.wait(ctx, v.fullKey(), 2*v.rules.policy.CheckTimeout)
			v.gone = !patient && ctx.Err() != nil
			g.again(v, since)
			continue
		}
		switch {
		case d.Action == FakeFailure && !v.badName:
			g.answerAsFailure(a, v, d)
			continue
		case d.Action == Proceed && v.in&withCode != 0 && !d.Privileged:
			if err := g.checkPass(ctx, a, v); err != nil {
				return err
			}
			if v.code != codeValid {
				continue
			}
			d.Reasons.add(Reason{Cause: PassShown})
		case d.Action == Proceed && v.in&withSolution != 0:
			return g.checkSolution(ctx, a, v, d)
		case d.Action == Proceed && v.asksSprayed():
			*d = Decision{Action: Challenge, Reasons: Reasons{{Cause: SprayedAsks}}}
			return g.withdraw(ctx, v.charged())
		case d.Action == Forget: // undecided attempts alone fill the limit
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
	if v.listed.verdict == Blocked {
		return nil
	}
	v.ID = failures.ChargeID{}
	v.forgetUsage()
	if v.fake != nil {
		return g.chargePair(ctx, v)
	}
	var err error
	if v.Charge, err = g.config.Store.Begin(ctx, v.Charge); err != nil {
		return fmt.Errorf("guard: charging an attempt: %w", err)
	}
	if v.ClientErr != nil {
		if ctx.Err() == nil { // a client that hangs up is no failure of the store
			g.config.Failed(fmt.Errorf("guard: looking up the known client: %w", v.ClientErr))
		}
		v.ClientErr = nil
	}
	return nil
}

func (v *view) forgetUsage() {
	for i := range v.Subjects() {
		v.Subjects()[i].Usage = failures.Usage{}
	}
}

// fullKey is the key of the first subject without room.
func (v *view) fullKey() (key failures.Key) {
	if full, _ := v.full(); full != nil {
		key = full.Key
	}
	return key
}

// only leaves one kind of subject in the charge. What was counted of the others stays known.
func (v *view) only(kind SubjectKind) {
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; s.Kind != kind {
			s.For = 0
		}
	}
}

// answerAsFailure has the attempt answered with a fake failure, unless its pair's delay or a
// challenge comes first. Only its pair is charged: the delay grows as after a wrong password, and
// the full limit has room again when it would without the attempt (R5). Its password is not known
// to be wrong, so it is neither repeated nor sprayed. A verification code does not exempt the
// attempt from the limit and is not used up.
func (g *Guard) answerAsFailure(a *Attempt, v *view, d *Decision) {
	if v.in&withCode != 0 {
		v.code, v.in = codeInvalid, v.in&^withCode
	} else {
		v.fake, v.in = d.Reasons, v.in|fakeFailure
		v.tag, v.Spray, v.Repeat, v.Sprayed = 0, 0, false, false
	}
	g.subjects(a.Fingerprint, v)
}

// chargePair charges a fake failure, unless something else stops it.
func (g *Guard) chargePair(ctx context.Context, v *view) (err error) {
	if v.Charge, _, err = g.config.Store.Read(ctx, v.Charge); err != nil {
		return fmt.Errorf("guard: reading the counters: %w", err)
	}
	if full, _ := v.full(); full != nil || v.challengesAll() {
		return nil
	}
	charged, err := g.config.Store.Begin(ctx, v.pairAlone())
	if err != nil {
		return fmt.Errorf("guard: charging a fake failure: %w", err)
	}
	v.ID, v.Subject(OnPair).Usage = charged.ID, charged.list[0].Usage
	return nil
}

// pairAlone is the charge of the pair and no other subject, for which no client is looked up.
func (c *Charge) pairAlone() Charge {
	alone := Charge{Now: c.Now, ID: c.ID}
	if pair := c.Subject(OnPair); pair != nil {
		one := *pair
		one.Binds[trusted.Stranger], one.For, one.Ends = c.Bound(pair), EveryClient, 0
		alone.Add(one)
	}
	return alone
}

// charged is what the attempt is charged.
func (v *view) charged() *Charge {
	if v.fake != nil {
		alone := v.pairAlone()
		return &alone
	}
	return &v.Charge
}

// withdraw takes back every charge of an attempt whose password was not checked.
func (g *Guard) withdraw(ctx context.Context, c *Charge) error {
	err := g.config.Store.Settle(afterwards(ctx), *c, Withdrawn)
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
	if g.waiting.waiting.Load() == 0 {
		return
	}
	var all counted
	all.of(c)
	g.waiting.wake(all.list())
}

// tell tells the observer, if there is one.
func (g *Guard) tell(e Event) {
	if g.config.Observer != nil {
		g.config.Observer.Observe(e)
	}
}

// Login takes one attempt from beginning to end: it begins it, calls verify if a password
// may be checked (Decision.Checks), and settles it. verify checks d.Offered(password) and
// reports whether that is the account's password. ok reports whether the client may sign in:
// after a fake failure, and if d.Insufficient is set, a right password is not enough.
//
// verify may settle d.Ticket itself, before it returns: as Abandoned if the password was not
// checked after all, or early if its answer to the client begins. Otherwise an error or a
// panic of verify abandons the attempt; the error is returned, the panic goes on. If ctx was
// canceled by then, the attempt has failed: it is unknown how far the check had come. An error
// with ok means that the attempt could not be settled.
func (g *Guard) Login(ctx context.Context, a Attempt,
	verify func(ctx context.Context, d *Decision) (bool, error)) (d Decision, ok bool, err error) {
	if d, err = g.Begin(ctx, a); err != nil || !d.Checks() {
		return d, false, err
	}
	outcome := Abandoned
	defer func() {
		if outcome == Abandoned && errors.Is(ctx.Err(), context.Canceled) {
			outcome = Failed
		}
		if !d.Checks() { // Recheck has withdrawn it
			return
		}
		if settled := g.Settle(ctx, d.Ticket, outcome); err == nil && settled != ErrInsufficient && settled != ErrSettled {
			err = settled
		}
	}()
	right, err := verify(ctx, &d)
	if errors.Is(err, ErrStopped) {
		return d, false, nil
	}
	if err != nil {
		if ctx.Err() != nil {
			g.HangUp()
		}
		return d, false, fmt.Errorf("guard: checking the password: %w", err)
	}
	outcome = OutcomeOf(right)
	return d, right && !d.Insufficient, nil
}

// Unreadable counts a request that names no account, since it cannot be read, against its IP
// address (R11). It reports whether the decision, and not the request, is what to answer with.
func (g *Guard) Unreadable(ctx context.Context, a Attempt) (d Decision, stopped bool) {
	a.Account = ""
	d, err := g.Begin(ctx, a)
	return d, err == nil && !d.Reasons.Has(BadAccountName)
}
