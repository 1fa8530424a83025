package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// Two ladders are off unless the policy has them: one on the client's identity, one on the
// whole site. Both count strangers' failures alone, so they are charged after the attempt's
// own subjects, which say whether the place is privileged, and each by a trip of its own:
// over nodes each is one key, exact and busy (docs/decisions/0027, 0045). While one is
// found full a node asks again once a second.

// The asides of an attempt, in the order in which they are charged.
const (
	identityAside = iota
	siteAside
	sprayAside // a login that a sprayed password admits
	asideCount
)

// asideBelieved is how long a node goes by what it found full.
const asideBelieved = time.Second

// asidesKnown is for how many asides a node remembers that they are full: the site, and
// identities by their remainder. One that another has pushed out is asked for again.
const asidesKnown = 64

// An asideRule is such a ladder made ready; nil: there is none.
type asideRule struct {
	*rule
	ladders Ladders
	binds   [2]Binds // as usual, and while nothing binds
}

func newAsideRule(kind SubjectKind, limits []Limit) *asideRule {
	if len(limits) == 0 {
		return nil
	}
	s := &asideRule{rule: newRule(kind, limits, failures.Backoff{})}
	nothing := failures.MustLadder(failures.Backoff{})
	for i := range s.ladders {
		s.ladders[i] = nothing
	}
	s.ladders[AddressSubject] = s.ladder
	for status := range s.binds[0] {
		s.binds[0][status][AddressSubject] = s.enforce &^ failures.BackoffBit &^ s.then[Alert]
	}
	return s
}

// An asideFull is what was last found out about an aside without room.
type asideFull struct {
	rule     *asideRule
	identity uint32
	usage    failures.Usage
	at       time.Time
}

// aside is the rule of one of the attempt's asides; nil if it has none. A fake failure is
// not charged to the site.
func (v *view) aside(i int) *asideRule {
	if v.badName || i == siteAside && v.faked != nil || i == identityAside && v.identity == 0 {
		return nil
	}
	return v.rules.asides[i]
}

// asideKey is what an aside is counted under.
func (d *digester) asideKey(i int, identity uint32) digest {
	if i == identityAside {
		return d.ofIdentity(identity)
	}
	return d.ofQuota("site", digest{})
}

// asideCharge is what an attempt is charged aside.
func (g *Guard) asideCharge(i int, r *asideRule, identity uint32, now time.Time, id failures.ChargeID) *Charge {
	key := g.digests.asideKey(i, identity)
	return &Charge{Now: now, Address: key, Network: key, Ladders: &r.ladders, Binds: &r.binds[0], Last: AddressSubject + 1, ID: id}
}

// bindsAside reports whether the ladder stops the attempt: not one with a one-time code
// (R29), nor one from an allowed address. An identity's asks for no more than a challenge,
// which may have come along.
func (v *view) bindsAside(i int) bool {
	return !v.showed && v.listed != Allowed && (i != identityAside || !v.claimed)
}

// asideOver is what of the ladder stops the attempt, failed what would without the
// undecided.
func (v *view) asideOver(i int) (over, failed failures.Mask) {
	r := v.aside(i)
	if r == nil || !v.bindsAside(i) || v.privileged() {
		return 0, 0
	}
	bind := r.binds[0][trusted.Stranger][AddressSubject]
	return v.atAside[i].Over & bind, v.atAside[i].Failed & bind
}

func (g *Guard) knownAside(i int, identity uint32) int {
	if i == siteAside {
		return 0
	}
	return 1 + int(identity%(asidesKnown-1))
}

// knownFull has an attempt charged to nothing, unless its place is privileged, while one
// of its asides is known to be full.
func (g *Guard) knownFull(v *view) (full bool) {
	v.atAside = [asideCount]failures.Usage{}
	for i := range v.atAside {
		r := v.aside(i)
		if r == nil || !v.bindsAside(i) {
			continue
		}
		known := g.asideFull[g.knownAside(i, v.identity)].Load()
		if known == nil || known.rule != r || i == identityAside && known.identity != v.identity ||
			v.Now.Sub(known.at) >= min(asideBelieved, known.usage.FreeIn) || v.Now.Before(known.at) {
			continue
		}
		v.atAside[i], v.Usage, full = known.usage, [subjectCount]failures.Usage{}, true
		v.atAside[i].FreeIn -= v.Now.Sub(known.at)
	}
	return full
}

// chargeAsides charges a stranger's attempt that its own subjects had room for to its
// asides. If one has none, nothing stays charged.
func (g *Guard) chargeAsides(ctx context.Context, v *view) error {
	for i := range v.atAside {
		r := v.aside(i)
		if r == nil || v.privileged() || !v.ID.Charged() {
			continue
		}
		full, err := g.chargeAside(ctx, v, i, r)
		if err == nil && !full {
			continue
		}
		own := v.charged()
		v.ID, v.Repeat, v.Asides = failures.ChargeID{}, false, [asideCount]*Charge{}
		if err = errors.Join(err, g.withdraw(ctx, own)); err != nil {
			return fmt.Errorf("guard: charging the %s: %w", r.kind, err)
		}
		return nil
	}
	return nil
}

func (g *Guard) chargeAside(ctx context.Context, v *view, i int, r *asideRule) (full bool, err error) {
	c := g.asideCharge(i, r, v.identity, v.Now, failures.ChargeID{})
	if !v.bindsAside(i) {
		c.Binds = &r.binds[1]
	}
	found := *c
	if v.Repeat || v.faked != nil { // the same password counts once (R28), and a fake failure not at all; both need room
		found, _, err = g.config.Store.Read(ctx, *c)
	} else {
		found, err = g.config.Store.Begin(ctx, *c)
	}
	v.atAside[i] = found.Usage[AddressSubject]
	over, failed := v.asideOver(i)
	if err == nil && over == 0 {
		if found.ID.Charged() {
			v.Asides[i] = &found
		}
		return false, nil
	}
	if failed != 0 {
		g.asideFull[g.knownAside(i, v.identity)].Store(&asideFull{r, v.identity, v.atAside[i], v.Now})
	}
	return true, err
}

// stopAside adds the reasons of the asides for one action.
func (v *view) stopAside(d *Decision, action Action, patient bool) {
	for i := range v.atAside {
		over, failed := v.asideOver(i)
		if patient {
			over = failed
		}
		if over == 0 {
			continue
		}
		r := v.aside(i)
		for j := range r.limits {
			if over.Has(j) && r.limits[j].Action == action {
				why := r.reason(j)
				why.Wait = v.atAside[i].FreeIn
				d.stop(action, why)
			}
		}
	}
}

// watchAsides adds what of the asides would have stopped the attempt, were it enforced,
// and what somebody is to be told of.
func (v *view) watchAsides(d *Decision) {
	for i := range v.atAside {
		r := v.aside(i)
		if r == nil || v.privileged() || !v.bindsAside(i) {
			continue
		}
		for j := range r.limits {
			if l := &r.limits[j]; v.atAside[i].Over.Has(j) && (l.Monitor || l.Action == Alert) {
				why := r.reason(j)
				why.Monitored = true
				d.Reasons.add(why)
			}
		}
	}
}

// asideLines are the ladders as Explain shows them.
func (g *Guard) asideLines(ctx context.Context, v *view) (lines []Line, err error) {
	for i := range v.atAside {
		r := v.aside(i)
		if r == nil || v.privileged() {
			continue
		}
		read, used, err := g.config.Store.Read(ctx, *g.asideCharge(i, r, v.identity, v.Now, failures.ChargeID{}))
		if err != nil {
			return nil, fmt.Errorf("guard: reading the %s's count: %w", r.kind, err)
		}
		v.atAside[i] = read.Usage[AddressSubject]
		for j, l := range r.limits {
			lines = append(lines, Line{Subject: r.kind, Limit: l, Used: used[AddressSubject][j].Charges, Full: v.atAside[i].Over.Has(j), FreeIn: used[AddressSubject][j].FreeIn})
		}
	}
	return lines, nil
}
