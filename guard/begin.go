package guard

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/trusted"
)

// A view is all that is known of one attempt, from its beginning until it is
// settled.
type view struct {
	Charge
	rules     *rules
	rule      *[subjectCount]*rule
	name      string // the account, normalised and canonical
	badName   bool
	directory string
	from      netip.Addr
	door      string
	forwarded bool
	listed    Verdict
	suspect   bool // the address may be a proxy that nobody configured (R9)
	modeOn    bool
	slowing   bool
	claimed   bool // an answer to a challenge came along
	reasons   Reasons

	ended     atomic.Int32 // live, or ended plus the outcome
	travelled bool         // the ticket was text in between
	nonce     [16]byte     // of that text
}

const (
	live  int32 = 0
	ended int32 = 1
)

// The Places of a Charge.
const (
	atDevice = iota
	atAddress
)

// Begin decides an attempt. Only if the decision is Proceed may the password
// be looked at, and Settle must then be told how that ended. An error means
// that the counters failed; the decision then refuses.
//
// An attempt that finds the room taken only by undecided ones waits for its
// turn, at most twice Policy.PendingFor, unless ctx ends before (R3).
func (g *Guard) Begin(ctx context.Context, a Attempt) (d Decision, err error) {
	v := g.look(&a)
	if err = g.decide(ctx, &a, v, &d); err != nil {
		v.Usage = [subjectCount]failures.Usage{} // whatever it was before
		d = Decision{}
		d.Reasons.add(Reason{Cause: StoreFailed})
	}
	if d.Action == Proceed && v.badName {
		d, err = g.nameless(ctx, v)
	}
	if !v.badName {
		d.Account = v.name
	}
	if d.Action == Proceed {
		v.reasons = d.Reasons
		d.Ticket = (*Ticket)(v)
		return d, nil
	}
	if d.Action == Challenge {
		d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.Places[atAddress].Key)
	}
	g.tell(v, Event{At: g.config.Now(), Action: d.Action, Reasons: d.Reasons})
	return d, err
}

// look fills in what is known before anything is counted.
func (g *Guard) look(a *Attempt) *view {
	v := &view{
		rules: g.rules.Load(), directory: a.Directory, from: a.Address, door: a.Door, forwarded: a.Forwarded,
		modeOn: g.config.Mode.On(), slowing: g.config.Mode.Slowing(),
		claimed: a.Solve.ID != "" && strings.TrimSpace(a.Solve.Answer) != "",
	}
	v.Now = g.config.Now()
	v.listed = g.config.Lists.Look(a.Address, v.Now)
	address, network := g.digests.ofAddress(a.Address)
	v.suspect = g.proxies.suspect(address)
	v.subjects(address, network)
	v.badName = g.name(v, a.Account) != nil
	if v.badName {
		v.Last = AccountSubject
	} else {
		g.device(v, a.Devices)
	}
	v.KnownOnly = v.modeOn && v.listed != Allowed && !v.claimed
	v.Binds = &v.rules.binds[v.lifts()]
	v.Ends = v.rule[PairSubject].then[Forget] & v.rule[PairSubject].enforce
	return v
}

func (v *view) lifts() (l lift) {
	if v.claimed {
		l |= claimedSolve
	}
	if v.suspect {
		l |= likelyProxy
	}
	if v.listed == Allowed {
		l |= allowedAddress
	}
	return l
}

// name normalises a name, the one time that this is done (R11), and sets the
// account.
func (g *Guard) name(v *view, typed string) error {
	name, err := g.config.Normalise(typed)
	if err != nil {
		v.name = typed
		return err
	}
	v.name = g.config.Canonical(v.directory, name)
	v.setAccount(g.digests.ofAccount(v.directory, v.name))
	return nil
}

// subjects lists what the attempt is charged to.
func (v *view) subjects(address, network digest) {
	v.Last, v.rule = subjectCount, &v.rules.calm
	if v.slowing {
		v.rule = &v.rules.slowed
	}
	for i := range v.Subjects {
		v.Subjects[i].Ladder = v.rule[i].ladder
	}
	v.Places[atAddress].Key = address
	for i, key := range [...]digest{address, network} {
		v.Subjects[i].Shard, v.Subjects[i].Key = failures.Key(network), failures.Key(key)
	}
}

func (v *view) setAccount(account digest) {
	v.Account = account
	v.Places[atAddress].Pair = failures.Key(ofPair(account, v.Places[atAddress].Key))
	for i, key := range [...]failures.Key{failures.Key(account), v.Places[atAddress].Pair} {
		v.Subjects[AccountSubject+i].Shard, v.Subjects[AccountSubject+i].Key = failures.Key(account), key
	}
}

// device looks for the cookie of a device that was issued for this account and
// is not older than a privilege may be. Whether it was reset or spent since is
// for the store to say.
func (g *Guard) device(v *view, cookies []string) {
	if g.config.Cookies == nil || !v.rules.policy.Devices {
		return
	}
	for _, cookie := range cookies[:min(len(cookies), MaxDevices)] {
		account, device, issued, err := g.config.Cookies.Parse(cookie)
		if err == nil && account == v.Account && v.Now.Sub(issued) < v.rules.policy.Places.TTL {
			v.Places[atDevice] = Place{Key: device, Pair: failures.Key(ofPair(account, device)), Issued: issued}
			return
		}
	}
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
	g.config.Mode.Observe(captchamode.Failure, v.Places[atAddress].Key)
	if err := g.config.Store.Settle(afterwards(ctx), &v.Charge, Failed); err != nil {
		return d, fmt.Errorf("guard: settling an attempt without a name: %w", err)
	}
	return d, nil
}

// decide charges the attempt and, if there is no room, waits for its turn as
// long as that is of use.
func (g *Guard) decide(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var waiting *waiter
	defer func() { waiting.leave() }()
	for patient := true; ; *d = (Decision{}) {
		if err := g.charge(ctx, v); err != nil {
			return err
		}
		if decide(v, patient, d) {
			waiting = g.waiting.waiter(waiting, v)
			patient = waiting.wait(ctx, v.blockedBy(), 2*v.rules.policy.PendingFor)
			v.Now = g.config.Now()
			continue
		}
		switch {
		case d.Action == Proceed && v.claimed:
			return g.checkSolve(ctx, a, v, d)
		case d.Action == Forget: // undecided attempts alone fill the budget
			d.Action, d.RetryAfter = Wait, time.Second
		case d.Action == Wait && d.RetryAfter <= a.Hold:
			waiting = g.waiting.waiter(waiting, v)
			if waiting.hold(ctx, d.RetryAfter) {
				v.Now = g.config.Now()
				continue
			}
		}
		return nil
	}
}

// charge charges the attempt as if it had failed (R1), unless it is blocked.
func (g *Guard) charge(ctx context.Context, v *view) error {
	if v.listed == Blocked {
		return nil
	}
	v.Charge.ID = failures.ChargeID{}
	if err := g.config.Store.Begin(ctx, &v.Charge); err != nil {
		return fmt.Errorf("guard: charging an attempt: %w", err)
	}
	if v.PlaceErr != nil {
		g.config.Failed(fmt.Errorf("guard: asking for a privileged place: %w", v.PlaceErr))
		v.PlaceErr = nil
	}
	return nil
}

// blockedBy is the key of the first subject without room.
func (v *view) blockedBy() failures.Key {
	first, last := v.Counted()
	for i := first; i < last; i++ {
		if v.Usage[i].Over&v.Subjects[i].Bind != 0 {
			return v.Subjects[i].Key
		}
	}
	return failures.Key{}
}

// checkSolve uses up the challenge's answer if the attempt needs one at all.
// It is the last thing before proceeding: nobody burns a solved challenge only
// to be told to wait.
func (g *Guard) checkSolve(ctx context.Context, a *Attempt, v *view, d *Decision) error {
	var why Decision
	if !v.needsSolve(&why) {
		return nil
	}
	var err error
	if g.config.Challenges != nil {
		d.Solve, err = g.config.Challenges.Check(ctx, v.Places[atAddress].Key, a.Solve)
	}
	if d.Solve.Solved && d.Solve.Counted {
		g.config.Mode.TakeBack(captchamode.Unsolved)
	}
	if d.Solve.Solved && err == nil {
		d.Reasons.add(Reason{Cause: ChallengeSolved})
		return nil
	}
	why.Action, why.Solve, why.Privileged = Challenge, d.Solve, d.Privileged
	why.Reasons.add(Reason{Cause: ChallengeFailed})
	*d = why
	return g.withdraw(ctx, v)
}

// withdraw takes back every charge of an attempt whose password was not looked
// at.
func (g *Guard) withdraw(ctx context.Context, v *view) error {
	defer g.wake(v)
	if err := g.config.Store.Settle(afterwards(ctx), &v.Charge, Withdrawn); err != nil {
		return fmt.Errorf("guard: taking back a charge: %w", err)
	}
	return nil
}

// Recheck looks again at a decision to proceed whose password had to wait for
// its check: CAPTCHA mode may have gone on meanwhile. If an attempt like it
// would be challenged now, nothing of it stays charged, d becomes that
// challenge and its ticket is nil: the password must not be looked at. The
// error means that a charge could not be taken back.
func (g *Guard) Recheck(ctx context.Context, d *Decision) error {
	if d.Action != Proceed || d.Privileged || d.Solve.Solved || !g.config.Mode.On() {
		return nil
	}
	v := (*view)(d.Ticket)
	if v == nil || g.config.Lists.Look(v.from, g.config.Now()) == Allowed || !v.ended.CompareAndSwap(live, ended+int32(Withdrawn)) {
		return nil
	}
	*d = Decision{Action: Challenge, Account: d.Account}
	d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.Places[atAddress].Key)
	d.Reasons.add(Reason{Cause: ModeOn})
	err := g.withdraw(ctx, v)
	g.tell(v, Event{At: g.config.Now(), Action: d.Action, Reasons: d.Reasons})
	return err
}

// afterwards is a context for what must be written although the client may
// have hung up: whoever hangs up has still guessed. How long a store may take
// is the store's business.
func afterwards(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// wake lets those look again who wait for the attempt's subjects.
func (g *Guard) wake(v *view) {
	first, last := v.Counted()
	g.waiting.wake(v.Subjects[first:last])
}

// tell tells the observer, if there is one, what has become of the attempt.
func (g *Guard) tell(v *view, e Event) {
	if g.config.Observer == nil {
		return
	}
	e.Door, e.Account, e.Address = v.door, v.name, v.from
	e.Privileged, e.AccountFailures = v.privileged(), v.accountFailures()
	g.config.Observer.Observe(e)
}

// accountFailures is how many failures of strangers the account had; 0 if its
// place was privileged.
func (v *view) accountFailures() int {
	if first, last := v.Counted(); first <= AccountSubject && AccountSubject < last {
		return v.Usage[AccountSubject].Count
	}
	return 0
}
