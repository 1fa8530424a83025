package guard

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// A view is everything that is known of one attempt from its beginning until it
// is settled. Of what it is charged to only the first n are anything.
type view struct {
	known
	use      atomic.Uint64 // how many tickets for it have ended
	subjects [4]failures.Subject
	rule     [4]*rule
	usage    [4]failures.Usage
}

// known is all of a view but its lists.
type known struct {
	now     time.Time // zero if the ticket has travelled
	rules   *rules
	name    string // the account, normalised and canonical
	badName bool
	account digest
	address digest
	network digest
	place   digest // the address, or the device that vouches for it
	pair    digest

	listed  Verdict
	status  trusted.Status
	suspect bool // the address may be a proxy that nobody configured (R9)
	modeOn  bool
	slowing bool
	claimed bool // an answer to a challenge came along
	unasked bool // what the place is will be said with the charge
	charged failures.ChargeID
	n       int

	// Of one that may proceed, for the event, and to make its ticket travel.
	directory string
	from      netip.Addr
	door      string
	reasons   Reasons
	forwarded bool
}

// views are used again: what is handed to a store through an interface cannot
// live on the stack. In one that is not in use nothing is known.
var views = sync.Pool{New: func() any { return new(view) }}

func newView() *view { return views.Get().(*view) }

func (v *view) free() {
	v.known = known{}
	views.Put(v)
}

// look fills in what is known before anything is counted.
func (g *Guard) look(ctx context.Context, a *Attempt, v *view) {
	v.now = g.config.Now()
	v.rules = g.rules.Load()
	g.digests.ofAddress(&v.address, &v.network, a.Address)
	v.listed = g.config.Lists.Look(a.Address, v.now)
	v.suspect = g.proxies.suspect(v.address)
	v.modeOn, v.slowing = g.config.Mode.On(), g.config.Mode.Slowing()
	v.claimed = a.Solve.ID != "" && strings.TrimSpace(a.Solve.Answer) != ""
	g.name(a, v)
	if !v.badName && v.listed != Blocked {
		g.recognise(ctx, a, v, g.together != nil)
	}
	ofPair(&v.pair, &v.account, &v.place)
}

func (g *Guard) name(a *Attempt, v *view) {
	name, err := g.config.Normalise(a.Account)
	if err != nil {
		v.name, v.badName = a.Account, true
		return
	}
	v.name = g.config.Canonical(name)
	g.digests.ofAccount(&v.account, a.Directory, v.name)
}

// recognise finds out whether the place is privileged. A device that vouches
// goes before the address: whoever shares the address can use up the address's
// budget, but not the device's. A store that fails makes a stranger. withCharge
// leaves the question about the address to chargeAs.
func (g *Guard) recognise(ctx context.Context, a *Attempt, v *view, withCharge bool) {
	v.place = v.address
	if a.Device != "" && g.config.Cookies != nil && v.rules.policy.Devices {
		if device, ok := g.vouched(ctx, a, v, v.now); ok {
			v.place, v.status = device, trusted.Privileged
			return
		}
	}
	if withCharge {
		v.unasked = true
		return
	}
	status, err := g.config.Places.Status(ctx, trusted.Key(v.account), trusted.Key(v.address), v.now)
	if err != nil {
		g.config.Failed(fmt.Errorf("guard: asking for a privileged place: %w", err))
		return
	}
	v.status = status
}

// vouched reports the device of a cookie that was issued for this account, is
// not older than a privilege may be, and was neither reset nor spent.
func (g *Guard) vouched(ctx context.Context, a *Attempt, v *view, now time.Time) (device digest, ok bool) {
	account, key, issued, err := g.config.Cookies.Parse(a.Device)
	if err != nil || digest(account) != v.account || now.Sub(issued) >= v.rules.policy.Places.TTL {
		return digest{}, false
	}
	reset, err := g.config.Places.ResetAt(ctx, account)
	if err != nil || !issued.After(reset) {
		return digest{}, false
	}
	status, err := g.config.Places.Status(ctx, account, key, now)
	return digest(key), err == nil && status != trusted.Spent
}

func (v *view) privileged() bool { return v.status == trusted.Privileged }

// count lists what the attempt is charged to, and which rungs bind it.
func (v *view) count() {
	v.n = 0
	r := v.rules
	switch {
	case v.badName:
		v.add(v.ofAddress(), v.network, v.address, v.binds(&r.address))
		v.add(&r.network, v.network, v.network, v.binds(&r.network))
	case v.privileged():
		v.add(&r.pair, v.account, v.pair, v.binds(&r.pair))
	default:
		v.add(v.ofAddress(), v.network, v.address, v.binds(&r.address))
		v.add(&r.network, v.network, v.network, v.binds(&r.network))
		v.add(&r.account, v.account, v.account, v.binds(&r.account))
		v.add(&r.pair, v.account, v.pair, r.pair.enforce&failures.BackoffBit)
	}
}

func (v *view) add(r *rule, place, key digest, bind failures.Mask) {
	if v.listed == Allowed && (r.kind == OnAddress || r.kind == OnNetwork) {
		bind = 0
	}
	v.rule[v.n] = r
	s := &v.subjects[v.n]
	s.Shard, s.Key, s.Ladder, s.Bind = failures.Key(place), failures.Key(key), r.ladder, bind
	v.n++
}

// ofAddress is the rule of addresses: with a backoff while strangers are slowed.
func (v *view) ofAddress() *rule {
	if v.slowing {
		return &v.rules.slowed
	}
	return &v.rules.address
}

// binds is every rung that is enforced, less those that a solved challenge
// lifts if one is claimed.
func (v *view) binds(r *rule) failures.Mask {
	bind := r.enforce
	if v.claimed {
		bind &^= v.challenged(r)
	}
	return bind
}

// challenged is the set of the rule's rungs that ask for a challenge. An
// address that used to be privileged, or may be a forgotten proxy, is
// challenged where others are refused (R9, R14).
func (v *view) challenged(r *rule) failures.Mask {
	m := r.then[Challenge]
	if r.kind == OnAddress || r.kind == OnNetwork {
		if v.status == trusted.Spent || v.suspect {
			m |= r.then[Refuse]
		}
	}
	return m
}

// modeAsks reports whether CAPTCHA mode asks for a challenge.
func (v *view) modeAsks() bool {
	return v.modeOn && !v.privileged() && v.listed != Allowed
}
