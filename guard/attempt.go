package guard

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
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
	guess      uint32 // stands for the password; see Charge
	// Of an attempt that is pretended to: what was counted before, and why it is.
	before    [subjectCount]failures.Usage
	atSite    failures.Usage // before the charge
	pretended Reasons
	waited    time.Duration
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
		d.Action, d.RetryAfter, d.Reasons = Pretend, 0, v.pretended
		g.config.Mode.Failed(ofPair(v.Account, v.Address), v.Address, v.Now)
		d.Ticket.fill(&a, &v, &d)
	} else if d.Action == Proceed {
		d.Insufficient = v.insufficient()
		d.Ticket.fill(&a, &v, &d)
		return d, nil
	}
	if d.Action == Challenge {
		d.level, d.counted = v.level(), !v.KnownOnly || v.privileged()
	}
	switch {
	case v.gone || err != nil && ctx.Err() != nil:
		g.HangUp()
		g.config.Mode.Observe(captchamode.Shed, v.Address)
	case d.Action == Challenge && !v.Repeat:
		d.Counted = g.config.Mode.Observe(captchamode.Unsolved, v.Address)
	}
	g.tell(Event{
		At: v.Now, Door: a.Door, Account: v.name, Address: a.Address, Action: d.Action, Reasons: d.Reasons,
		Privileged: d.Privileged, AtDevice: v.AtDevice && d.Privileged, Repeat: v.Repeat, Sprayed: v.Sprayed, Guess: v.Spray, AccountFailures: v.accountFailures(),
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
	v.claimed = a.Solve.Claimed()
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
		if a.Fingerprint != 0 {
			v.guess, v.Spray = g.digests.ofGuess(a.Fingerprint, &v.Account)
			v.SprayAccounts = v.rules.policy.Spray.Accounts
		}
	}
	v.showed = a.Pass != "" && g.config.Passes != nil && !v.badName
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
	if v.Guess = v.guess; v.showed {
		v.Guess = 0 // each guess of a one-time code counts
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
	if v.crawling {
		l |= watchedSlowing
	}
	return l
}

// insufficient reports whether even the right password is not enough: strangers
// try it on many accounts, and this is a stranger's place without a one-time code.
func (v *view) insufficient() bool {
	return v.Sprayed && !v.privileged() && !v.passed && !v.rules.policy.Spray.Monitor
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
			patient = waiting.wait(ctx, v.blockedBy(&g.digests), 2*v.rules.policy.PendingFor)
			v.gone = !patient && ctx.Err() != nil
			g.again(v, since)
			continue
		}
		switch {
		case d.Action == Pretend:
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
		case d.Action == Forget: // undecided attempts alone fill the budget
			d.Action, d.RetryAfter = Wait, time.Second
		case d.Action == Wait && d.RetryAfter <= a.Hold:
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
	v.ID, v.Site = failures.ChargeID{}, nil
	usual, full := v.KnownOnly, g.knownSite(v)
	v.KnownOnly = usual || full
	v.Charge, err = g.begin(ctx, v.Charge)
	if v.KnownOnly = usual; err != nil {
		return fmt.Errorf("guard: charging an attempt: %w", err)
	}
	if v.Apart {
		v.alsoBefore()
	}
	if v.PlaceErr != nil {
		if ctx.Err() == nil { // a client that hangs up is no failure of the store
			g.config.Failed(fmt.Errorf("guard: asking for a privileged place: %w", v.PlaceErr))
		}
		v.PlaceErr = nil
	}
	if full {
		return nil
	}
	return g.chargeSite(ctx, v)
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
	if over, _ := v.siteOver(); over != 0 {
		return failures.Key(digests.ofQuota("site", digest{}))
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
		if c.Site != nil {
			own := c.Site.Subjects()
			g.waiting.wake(own[AddressSubject : AddressSubject+1])
		}
	}
}

// tell tells the observer, if there is one.
func (g *Guard) tell(e Event) {
	if g.config.Observer != nil {
		g.config.Observer.Observe(e)
	}
}

// accountFailures is how many failures of strangers the account had; 0 if its
// place was privileged.
func (v *view) accountFailures() int {
	if first, last := v.Counted(); first <= AccountSubject && AccountSubject < last {
		return int(v.Usage[AccountSubject].Count)
	}
	return 0
}

// A Ticket stands for one attempt that may proceed, until it is settled. Its
// copies stand for the same attempt: only one of them can be settled. The zero
// Ticket stands for none. A Ticket is safe for concurrent use, but for Seal.
type Ticket struct {
	ended   *atomic.Int32 // 0, or 1 plus the outcome; shared by all copies
	rules   *rules
	id      failures.ChargeID
	guess   uint32
	spray   uint32
	repeat  bool
	sprayed bool // strangers try the password on many accounts
	lacking bool // and so it does not suffice
	account digest
	address digest
	network digest
	place   digest // the address, or the device that vouches for it
	status  trusted.Status
	began   time.Time // zero once it has travelled

	// For the event.
	passed    bool // a one-time code was good
	pretended bool // nobody looks at the password
	site      *Charge
	name      string
	directory string
	door      string
	from      netip.Addr
	reasons   Reasons
	failures  int32
	forwarded bool

	// Note is told with the event of how the attempt ended: at most MaxNote bytes, cut
	// there. It is of the copy that is settled, and does not travel.
	Note string

	nonce [16]byte // of the text that it was turned into
}

// fill makes the zero Ticket that of an attempt.
func (t *Ticket) fill(a *Attempt, v *view, d *Decision) {
	t.ended, t.rules, t.id, t.began = new(atomic.Int32), v.rules, v.ID, v.Now
	t.account, t.address, t.network, t.place, t.status = v.Account, v.Address, v.Network, v.Place(), v.Status
	t.guess, t.spray, t.repeat, t.sprayed, t.lacking = v.guess, v.Spray, v.Repeat, v.Sprayed, d.Insufficient
	t.name, t.directory, t.door, t.from, t.forwarded = v.name, a.Directory, a.Door, a.Address, a.Forwarded
	t.reasons, t.failures, t.passed, t.pretended, t.site = d.Reasons, int32(v.accountFailures()), v.passed, v.Apart, v.Site
}

// charge is what the attempt was charged.
func (t *Ticket) charge() (c Charge) {
	c.ID, c.Guess, c.Repeat, c.Status, c.Last = t.id, t.guess, t.repeat, t.status, subjectCount
	c.Spray, c.SprayAccounts = t.spray, t.rules.policy.Spray.Accounts
	c.Ladders, c.Binds, c.Apart, c.Site = &t.rules.calm.ladders, &t.rules.binds[0], t.pretended, t.site
	c.Account, c.Address, c.Network = t.account, t.address, t.network
	if t.place != t.address {
		c.Device, c.AtDevice = t.place, true
	}
	return c
}

// Asker tells who asks, for whoever has to share out what there is little of
// (R26): the account at its place, and the address, as keyed digests that nobody
// can aim at; and where the attempt came from.
func (t *Ticket) Asker() (pair, address [16]byte, from netip.Addr) {
	return ofPair(t.account, t.place), t.address, t.from
}

// end settles the ticket, once.
func (t *Ticket) end(o Outcome) error {
	switch {
	case t.ended == nil:
		return ErrTicket
	case !t.ended.CompareAndSwap(0, 1+int32(o)):
		return ErrSettled
	}
	return nil
}

func (t *Ticket) succeeded() bool { return t.ended != nil && t.ended.Load() == 1+int32(Succeeded) }

func (t *Ticket) event(now time.Time, o Outcome) Event {
	privileged, reasons := t.status == trusted.Privileged, t.reasons
	if o == Succeeded && t.sprayed && !privileged && !t.passed && t.rules.policy.Spray.Monitor {
		reasons = append(slices.Clip(reasons), Reason{Cause: PasswordSprayed, Monitored: true})
	}
	return Event{
		At: now, Door: t.door, Account: t.name, Address: t.from, Action: Proceed, Settled: true, Outcome: o,
		Reasons: reasons, Privileged: privileged, AtDevice: privileged && t.place != t.address, NewPlace: o == Succeeded && !privileged,
		Repeat: t.repeat, Sprayed: t.sprayed, Guess: t.spray, AccountFailures: int(t.failures), Note: strings.ToValidUTF8(t.Note[:min(len(t.Note), MaxNote)], ""),
	}
}

// MaxNote is how long a note may be, in bytes.
const MaxNote = 200

// OutcomeOf is Succeeded for true and Failed for false.
func OutcomeOf(ok bool) Outcome {
	if ok {
		return Succeeded
	}
	return Failed
}

// ErrInsufficient means that the password was right and is not enough, since
// strangers try it on many accounts (R28). The attempt was settled as one with a
// wrong password, and is to be answered like one.
var ErrInsufficient = errors.New("guard: the password is right, and is not enough: it is being tried on many accounts")

// Settle says how an attempt ended. If that is ErrInsufficient, nobody may be let
// in: see Decision.Insufficient. It does its work although ctx may be
// cancelled. A ticket is settled once, whatever copies there are of it; the
// second time is ErrSettled and changes nothing. A place that cannot be remembered
// is told to Config.Failed and is no error: a back end would pass it on, and only a
// right password has a place to remember (R27). Another error means that the
// store failed: the attempt then counts as failed.
func (g *Guard) Settle(ctx context.Context, t Ticket, o Outcome) error {
	insufficient := o == Succeeded && t.lacking
	if insufficient {
		o = Insufficient
	}
	if t.pretended && o == Succeeded { // whatever its door says
		insufficient, o = true, Insufficient
	}
	if err := t.end(o); err != nil {
		return err
	}
	if t.pretended {
		return g.endPretended(ctx, &t, o)
	}
	c := t.charge()
	c.Now = g.settledAt(&t, o)
	switch o {
	case Succeeded:
		g.config.Mode.LoggedIn(t.account, t.pair(), t.status != trusted.Privileged, c.Now)
		g.arrived(&t, c.Now)
		c.Nobodys = g.nobodys(t.from, t.address, t.directory, c.Now)
	case Abandoned:
		g.press(&t, captchamode.Shed, c.Now)
	case Withdrawn:
	default:
		g.press(&t, captchamode.Failure, c.Now)
	}
	g.settlePass(ctx, &t, o)
	stored := o
	if insufficient {
		stored = Failed
	}
	err := g.settle(afterwards(ctx), c, stored)
	if errors.Is(err, ErrPlace) {
		g.config.Failed(err)
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("guard: settling as %v: %w", o, err)
	}
	g.wake(&c)
	g.tell(t.event(c.Now, o))
	if insufficient && err == nil {
		return ErrInsufficient
	}
	return err
}

// settledAt is when an attempt ends. A failure of which nobody is told, and whose
// password is not remembered, goes by when it began: reading the clock once more is
// a tenth of such an attempt.
func (g *Guard) settledAt(t *Ticket, o Outcome) time.Time {
	if o == Failed && g.config.Observer == nil && t.spray == 0 && !t.began.IsZero() {
		return t.began
	}
	return g.config.Now()
}

// Unsettled is what the door that sealed a ticket does, at most once, if nobody has
// settled it for Policy.PendingFor; nil for nothing. It counts as failed from then on,
// and so it is pressure (R20). If it is settled as failed later, that is no further
// pressure. It holds on to the ticket's address alone: a busy door keeps 100,000.
func (g *Guard) Unsettled(t *Ticket) func() {
	if t.repeat || t.status == trusted.Privileged {
		return nil
	}
	address := t.address
	return func() { g.config.Mode.Observe(captchamode.Failure, address) }
}

// pair is the account from this address, for the pressure.
func (t *Ticket) pair() digest { return ofPair(t.account, t.address) }

// press is pressure on the site, unless Unsettled was called for the ticket. A
// failure is taken back if its pair logs in soon; one from a known place is no
// pressure, since the place has a budget of its own (R25). A password that was
// wrong before is none either, but it is work all the same.
func (g *Guard) press(t *Ticket, sign captchamode.Sign, now time.Time) {
	if t.repeat && sign == captchamode.Failure {
		return
	}
	at := t.began
	if at.IsZero() {
		if at = now; at.Sub(t.id.Time()) > t.rules.policy.PendingFor {
			return
		}
	}
	switch {
	case sign != captchamode.Failure:
		g.config.Mode.ObserveAt(sign, t.address, at)
	case t.status != trusted.Privileged:
		g.config.Mode.Failed(t.pair(), t.address, at)
	}
}

// Recheck looks again at a decision to proceed whose password had to wait for
// its check: CAPTCHA mode may have gone on meanwhile. If an attempt like it
// would be challenged now, nothing of it stays charged and d becomes that
// challenge: the password must not be looked at. The error means that a charge
// could not be taken back.
func (g *Guard) Recheck(ctx context.Context, d *Decision) error {
	if d.Action != Proceed && d.Action != Pretend || d.Privileged || d.Solve.Solved || d.Passed {
		return nil
	}
	t, now := d.Ticket, g.config.Now()
	v := view{rules: g.rules.Load().in(t.directory)}
	if g.ofMode(&v); !v.modeOn {
		return nil
	}
	if listed, _ := g.listed(v.rules, t.from, now); listed == Allowed {
		return nil
	}
	if err := t.end(Withdrawn); err != nil {
		return err
	}
	*d = Decision{Action: Challenge, Account: d.Account}
	d.Counted = !t.repeat && g.config.Mode.Observe(captchamode.Unsolved, t.address)
	d.Reasons.add(Reason{Cause: ModeOn})
	c := t.charge()
	err := g.withdraw(ctx, &c)
	e := t.event(now, Withdrawn)
	e.Action, e.Settled, e.Reasons = Challenge, false, d.Reasons
	g.tell(e)
	return err
}

// Device issues a device cookie for the account of a ticket that was settled
// as succeeded; empty if devices are not remembered. The tag tells the cookies
// of accounts apart in one browser: 8 characters, the same for all names of an
// account. The cookie is good for ttl.
func (g *Guard) Device(t Ticket) (cookie, tag string, ttl time.Duration) {
	if g.config.Cookies == nil || !t.succeeded() || !t.rules.policy.Devices {
		return "", "", 0
	}
	cookie, _ = g.config.Cookies.Issue(t.account, g.config.Now())
	return cookie, hex.EncodeToString(t.account[12:]), t.rules.policy.Places.TTL
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
	if err == nil && d.Action == Pretend {
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
