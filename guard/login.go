package guard

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/trusted"
)

// Login begins an attempt, calls verify if a password may be checked (Decision.Checks), and settles it. verify checks
// d.Offered(password) and reports whether that is the account's password. ok reports whether the client may sign in.
// After a fake failure, and if d.Insufficient is set, a right password is not enough.
//
// verify may settle d.Ticket itself: as Abandoned if the password was not checked, or early if it starts to answer the
// client. Otherwise an error or a panic of verify abandons the attempt; the error is returned, the panic continues. If
// ctx was canceled by then, the attempt has failed: the check may have been made. An error with ok means that the
// attempt could not be settled. A CodeRequired is returned without ok.
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

// Unreadable counts an unreadable request, which names no account, against its IP address (R11). stopped: answer with
// the decision, not with the request's error.
func (g *Guard) Unreadable(ctx context.Context, a Attempt) (d Decision, stopped bool) {
	a.Account = ""
	d, err := g.Begin(ctx, a)
	return d, err == nil && !d.Reasons.Has(BadAccountName)
}

// Begin decides an attempt. If Decision.Checks reports true, check a password and report the outcome with Settle. An
// error means that the counters or the look-up of the canonical name failed; the decision then blocks. Without its
// canonical name, an account would have a counter for each of its names.
//
// An attempt waits if only undecided ones take its room, at most twice Policy.CheckTimeout, until ctx ends (R3).
func (g *Guard) Begin(ctx context.Context, a Attempt) (d Decision, err error) {
	v := new(view)
	g.look(&a, v)
	if g.config.Timed != nil {
		defer g.timed(ctx, v, v.Now)
	}
	if err = g.decide(ctx, &a, v, &d); err != nil {
		v.Reset()
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Checks() && v.badName {
		d, err = g.withoutName(ctx, v)
	}
	if !v.badName {
		d.Account = v.name
	}
	if d.CodeValid = v.code == codeValid; v.code == codeInvalid {
		d.Reasons.first(Reason{Cause: CodeFailed})
	}
	if d.Action == Proceed && v.fake != nil {
		d.Action, d.Reasons = FakeFailure, v.fake
	}
	g.tallyList(v, &d)
	d.PasswordLeaked, d.MayNeedCode = v.leaked, v.mayNeedCode()
	if d.Checks() {
		if d.Insufficient = v.insufficient(); d.Insufficient && v.mode.step == stepUpByCode && v.fake == nil {
			d.Reasons.add(Reason{Cause: StepUpNeeded})
		}
		d.Ticket = v.ticket(&a, &d)
		if v.unresolved != nil && !v.Known() {
			err = errors.Join(v.unresolved, g.Settle(ctx, d.Ticket, Abandoned))
			d = Decision{Reasons: Reasons{{Cause: StoreFailed}}}
			return d, err
		}
		if d.Action == Proceed {
			return d, nil
		}
	}
	err = g.stopped(ctx, v, &d, err)
	g.observe(Event{
		At: v.Now, Integration: a.Integration, Account: v.name, Address: a.Address, Action: d.Action, Reasons: d.Reasons,
		ClientEvent: ClientEvent{
			Known:    d.Known,
			AtDevice: v.AtDevice && d.Known,
			Identity: a.Fingerprint,
		}, PasswordEvent: PasswordEvent{Repeat: v.Repeat, Sprayed: v.Sprayed, Guess: v.Spray},
		AccountFailures: v.ownFailures(),
	})
	return d, err
}

func (g *Guard) timed(ctx context.Context, v *view, began time.Time) {
	g.config.Timed(ctx, g.config.Now().Sub(began), v.waited)
}

// stopped counts an attempt that may not proceed toward the failure rate, and charges the challenge that it needs.
func (g *Guard) stopped(ctx context.Context, v *view, d *Decision, err error) error {
	if d.Action == Challenge {
		d.level, d.counted = v.level(), !v.challengesAll() || v.Known() || v.asksSprayed()
	}
	switch {
	case v.gone || err != nil && ctx.Err() != nil:
		g.HangUp()
		g.config.Mode.Observe(captchamode.Overload, v.from.address)
	case d.Action == Challenge && !v.Repeat && !d.Reasons.Has(SprayedAsks):
		d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.from.address)
	}
	if d.Action == Challenge && err == nil && !v.gone {
		return g.open(ctx, v, d)
	}
	return err
}

// withoutName blocks an attempt with an invalid name. It stays charged to its IP address.
func (g *Guard) withoutName(ctx context.Context, v *view) (d Decision, err error) {
	d.refuse(Reason{Cause: BadAccountName}, 0)
	g.config.Mode.Observe(captchamode.Failure, v.from.address)
	if err := g.config.Store.Settle(afterwards(ctx), &v.Charge, Failed); err != nil {
		return d, fmt.Errorf("guard: settling an attempt without a name: %w", err)
	}
	return d, nil
}

// decide charges the attempt and, without room, waits as long as that is useful.
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
			waiting, since = g.waiting.waiter(waiting, v.from.address, v.Known()), g.config.Now()
			patient = waiting.wait(ctx, v.fullKey(), 2*v.rules.policy.CheckTimeout)
			v.gone = !patient && ctx.Err() != nil
			g.again(v, since)
			continue
		}
		switch {
		case d.Action == FakeFailure && !v.badName:
			g.answerAsFailure(a, v, d)
			continue
		case d.Action == Proceed && v.in&withCode != 0 && !d.Known:
			if err := g.checkCode(ctx, a, v); err != nil {
				return err
			}
			if v.code != codeValid {
				continue
			}
			d.Reasons.add(Reason{Cause: CodeAccepted})
		case d.Action == Proceed && v.in&withSolution != 0:
			return g.checkSolution(ctx, a, v, d)
		case d.Action == Proceed && v.asksSprayed():
			*d = Decision{Action: Challenge, Reasons: Reasons{{Cause: SprayedAsks}}}
			return g.withdraw(ctx, v.charged())
		case d.Action == Forget: // undecided attempts alone fill the limit
			d.Action, d.RetryAfter = Delay, time.Second
		case d.Action == Delay && d.RetryAfter <= a.Hold:
			waiting, since = g.waiting.waiter(waiting, v.from.address, v.Known()), g.config.Now()
			if waiting.hold(ctx, d.RetryAfter) {
				g.again(v, since)
				continue
			}
			v.gone = v.gone || ctx.Err() != nil
		}
		return nil
	}
}

func (g *Guard) again(v *view, since time.Time) {
	v.Now = g.config.Now()
	v.waited += v.Now.Sub(since)
}

// charge charges the attempt as if it had failed (R1), unless it is blocked.
func (g *Guard) charge(ctx context.Context, v *view) error {
	if v.listed.verdict == Blocked {
		return nil
	}
	if v.fake != nil {
		return g.chargePair(ctx, v)
	}
	if err := g.config.Store.Begin(ctx, &v.Charge); err != nil {
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

// answerAsFailure has the attempt answered with a fake failure, unless its pair's delay or a challenge comes first.
// Only the pair is charged: its delay grows as after a wrong password, but the full limit lasts no longer (R5). The
// password may be right, so it is neither repeated nor sprayed. A verification code does not exempt, and is not used
// up.
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
	if _, err = g.config.Store.Read(ctx, &v.Charge); err != nil {
		return fmt.Errorf("guard: reading the counters: %w", err)
	}
	if full, _ := v.full(); full != nil || v.challengesAll() {
		return nil
	}
	pair := v.pairAlone()
	if err := g.config.Store.Begin(ctx, &pair); err != nil {
		return fmt.Errorf("guard: charging a fake failure: %w", err)
	}
	v.ID, v.Subject(OnPair).Usage = pair.ID, pair.list[0].Usage
	return nil
}

// Settle records how an attempt ended, even if ctx is canceled. After ErrInsufficient the client must not be let in:
// see Decision.Insufficient. The copies of a ticket are settled once; then the error is ErrSettled and nothing changes.
//
// A client that cannot be saved as known is no error, but goes to Config.Failed. A back end would pass the error on,
// and it would reveal the right password (R27). Another error means that the store failed: the attempt then counts as
// failed.
func (g *Guard) Settle(ctx context.Context, t Ticket, o Outcome) error {
	v := t.of
	insufficient := o == Succeeded && v != nil && v.insufficient()
	if insufficient {
		o = Insufficient
	}
	if err := t.end(o); err != nil {
		return err
	}
	c := v.charged()
	c.Now, c.Tag = g.settledAt(v, o), v.tag
	stored := o
	switch {
	case o == Succeeded && v.respelled:
		stored = Withdrawn
	case o == Succeeded:
		g.config.Mode.LoggedIn(v.Account, v.pair(), !v.Known(), c.Now)
		g.arrived(ctx, v, c.Now)
		if c.Address = v.from.address; g.shared(v.address, v.from.address, c.Now) {
			c.Address = digest{}
		}
		if g.config.Cookies != nil && !v.AtDevice {
			c.Device = g.deviceOf(v)
		}
	case o == Abandoned:
		g.press(v, captchamode.Overload, false, c.Now)
	case o == Withdrawn:
	default:
		g.press(v, captchamode.Failure, insufficient, c.Now)
		g.missed(v, c.Now)
	}
	g.settleCode(ctx, v, o)
	if insufficient {
		stored = Failed
	}
	err := errors.Join(g.config.Store.Settle(afterwards(ctx), c, stored), g.settleAdmitted(ctx, v.admitted, o))
	switch {
	case errors.Is(err, trusted.ErrFull):
		v.ended.Store(settledFull)
		err = nil
	case errors.Is(err, ErrKnownClient):
		g.config.Failed(err)
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("guard: settling as %v: %w", o, err)
	}
	g.wake(c)
	if g.config.Observer != nil && v.fake == nil { // Begin reported a fake failure
		g.config.Observer.Observe(v.event(c.Now, o, t.Note))
	}
	needs := insufficient || o == Failed && (v.insufficient() || v.mayNeedCode())
	if v.wants && err == nil && v.fake == nil && needs {
		return g.sendCode(ctx, v, insufficient)
	}
	if insufficient && err == nil {
		return ErrInsufficient
	}
	return err
}

// settleAdmitted keeps the charge of a login with a sprayed password only if the login succeeded.
func (g *Guard) settleAdmitted(ctx context.Context, admitted *Charge, o Outcome) error {
	if admitted == nil {
		return nil
	}
	end := Withdrawn
	if o == Succeeded {
		end = Failed
	}
	return g.config.Store.Settle(afterwards(ctx), admitted, end)
}

// Unsettled returns what an integration with a sealed ticket calls, at most once, if the ticket is not settled within
// Policy.CheckTimeout; nil: nothing. The attempt then counts toward the failure rate (R20), and a later failure does
// not count again. The function keeps the address only: a busy integration has 100,000 tickets.
func (g *Guard) Unsettled(t *Ticket) func() {
	if t.of.Repeat || t.of.Known() {
		return nil
	}
	address := t.of.from.address
	return func() { g.config.Mode.Observe(captchamode.Failure, address) }
}

// press counts the outcome toward the failure rate, unless Unsettled did. A failure is taken back if its pair logs in
// soon. A known client has limits of its own and does not count (R25). A right password that is insufficient does not
// count for the day. A repeated password counts only as overload.
func (g *Guard) press(v *view, sign captchamode.Sign, insufficient bool, now time.Time) {
	if v.Repeat && sign == captchamode.Failure {
		return
	}
	at := v.began
	if at.IsZero() {
		if at = now; at.Sub(v.issued) > v.rules.policy.CheckTimeout {
			return
		}
	}
	switch {
	case sign != captchamode.Failure:
		g.config.Mode.ObserveAt(sign, v.from.address, at)
	case !v.Known():
		network := v.from.network
		if insufficient { // an owner without the code is no sign of a slow attack
			network = digest{}
		}
		g.config.Mode.Failed(v.pair(), v.from.address, network, at)
	}
}

// ErrStopped means that Recheck stopped an attempt: it has to solve a challenge first.
var ErrStopped = errors.New("guard: the attempt has to solve a challenge first")

// Recheck decides again for a password that had to wait for its check, since CAPTCHA mode may be on now. If the attempt
// is challenged now, its charge is taken back, d becomes that challenge, and the error is ErrStopped. The password must
// not be checked then, nor after any other error, such as a charge that could not be taken back.
func (g *Guard) Recheck(ctx context.Context, d *Decision) error {
	if d.Action != Proceed && d.Action != FakeFailure || d.Known || d.Verdict.Solved || d.CodeValid {
		return nil
	}
	t, v, mode, now := d.Ticket, d.Ticket.of, g.modeState(), g.config.Now()
	if !mode.on {
		return nil
	}
	if g.listed(g.rules.Load(), v.address, now).verdict == Allowed {
		return nil
	}
	if err := t.end(Withdrawn); err != nil {
		return err
	}
	v.Now, v.mode = now, mode
	*d = Decision{Action: Challenge, Account: d.Account}
	d.Counted = !v.Repeat && g.config.Mode.Observe(captchamode.Unsolved, v.from.address)
	d.Reasons.add(Reason{Cause: ModeOn})
	err := errors.Join(g.withdraw(ctx, v.charged()), g.open(ctx, v, d))
	e := v.event(now, Withdrawn, t.Note)
	e.Action, e.Settled, e.Reasons = d.Action, false, d.Reasons
	g.observe(e)
	return cmp.Or(err, ErrStopped)
}

// Device issues a device cookie for a ticket that was settled as succeeded. It is empty if devices are off or the
// account has no room for another known client. The tag tells accounts' cookies apart in one browser: 8 characters, the
// same for all names of an account. The cookie is valid for ttl.
func (g *Guard) Device(t Ticket) (cookie, tag string, ttl time.Duration) {
	if g.config.Cookies == nil || !t.succeeded() || t.of.respelled || !t.of.rules.policy.Devices {
		return "", "", 0
	}
	cookie = g.config.Cookies.Issue(t.of.Account, g.deviceOf(t.of), g.config.Now())
	return cookie, hex.EncodeToString(t.of.Account[12:]), t.of.rules.policy.KnownClients.TTL
}

// settleCode settles a valid code. An error is only reported: the code is bound to this client, now known, and expires
// soon.
func (g *Guard) settleCode(ctx context.Context, v *view, o Outcome) {
	if v.code != codeValid || g.config.Codes == nil || o == Failed {
		return
	}
	p := Code{Account: v.name, Address: v.from.address, Now: g.config.Now()}
	if err := g.config.Codes.Settle(afterwards(ctx), p, o); err != nil {
		g.config.Failed(fmt.Errorf("guard: settling a verification code: %w", err))
	}
}

// deviceOf is the device of the device cookie, else one for all that sign in to the account from this IP address. An
// attacker who mints cookies, at an app that answers wrong passwords like right ones, gets one budget for all.
func (g *Guard) deviceOf(v *view) digest {
	if v.AtDevice {
		return v.Device
	}
	return g.digests.ofQuota("device", v.pair())
}

// settledAt is when an attempt ends. Without observer and tag a failure uses its start: a second clock reading costs a
// tenth.
func (g *Guard) settledAt(v *view, o Outcome) time.Time {
	if o == Failed && g.config.Observer == nil && v.Spray == 0 && !v.began.IsZero() {
		return v.began
	}
	return g.config.Now()
}

// arrived counts a success toward shared addresses and unconfigured proxies.
func (g *Guard) arrived(ctx context.Context, v *view, now time.Time) {
	accounts, err := g.config.SharedAddresses.Add(afterwards(ctx), v.Account, v.from.address, now)
	if err != nil {
		g.config.Failed(fmt.Errorf("guard: counting the accounts of an IP address: %w", err))
	}
	if accounts > 0 && g.config.OnShared != nil {
		g.config.OnShared(v.address, accounts)
	}
	g.peers.note(&g.peers.successes, settled{v.Account, v.from.address, now})
	if g.peers.mayBeProxy(v.address) && g.config.SharedAddresses.Several(v.from.address, now) {
		through, around := g.peers.count(&g.peers.successes, v.from.address, now)
		g.notice(v, through >= proxyAccounts && through > 4*around, now)
	}
}

// missed counts a failure at a configured proxy's own address.
func (g *Guard) missed(v *view, now time.Time) {
	if !g.peers.configured(v.address) || !g.peers.mayBeProxy(v.address) {
		return
	}
	g.peers.note(&g.peers.failures, settled{v.Account, v.from.address, now})
	if through, _ := g.peers.count(&g.peers.failures, v.from.address, now); through >= proxyAccounts {
		g.notice(v, false, now)
	}
}

func (g *Guard) notice(v *view, mostLogins bool, now time.Time) {
	is, first := g.peers.notice(UnconfiguredProxy{
		Address: v.address, Since: now, Forwarded: v.forwarded, MostLogins: mostLogins,
		Configured: g.peers.configured(v.address), Integration: v.integration,
	}, v.from.address)
	if first && g.config.OnUnconfiguredProxy != nil {
		g.config.OnUnconfiguredProxy(is)
	}
}
