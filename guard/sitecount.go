package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// The site has a ladder of its own for strangers' failures, off unless the policy has
// one. It is charged after the attempt's own subjects, since only those say whether the
// place is privileged, and by a trip of its own: over nodes it is one key, exact and
// busy (docs/decisions/0027). While it is found full a node asks again once a second.

// siteBelieved is how long a node refuses strangers because the site was found full.
const siteBelieved = time.Second

// A siteRule is the site's ladder made ready; nil: there is none.
type siteRule struct {
	*rule
	ladders Ladders
	binds   [2]Binds // as usual, and while nothing binds
}

func newSiteRule(limits []Limit) *siteRule {
	if len(limits) == 0 {
		return nil
	}
	s := &siteRule{rule: newRule(OnSite, limits, failures.Backoff{})}
	nothing := failures.MustLadder(failures.Backoff{})
	for i := range s.ladders {
		s.ladders[i] = nothing
	}
	s.ladders[AddressSubject] = s.ladder
	for status := range s.binds[0] {
		s.binds[0][status][AddressSubject] = s.enforce &^ failures.BackoffBit
	}
	return s
}

// A siteFull is what was last found out about a site without room.
type siteFull struct {
	rule  *siteRule
	usage failures.Usage
	at    time.Time
}

// siteCharge is what an attempt is charged to the site.
func (g *Guard) siteCharge(r *siteRule, now time.Time, id failures.ChargeID) *Charge {
	key := g.digests.ofQuota("site", digest{})
	return &Charge{Now: now, Address: key, Network: key, Ladders: &r.ladders, Binds: &r.binds[0], Last: AddressSubject + 1, ID: id}
}

// bindsSite reports whether the site's ladder stops the attempt: not one with a
// one-time code (R29), nor one from an allowed address.
func (v *view) bindsSite() bool { return !v.showed && v.listed != Allowed }

// siteOver is what of the site's ladder stops the attempt, failed what would without
// the undecided.
func (v *view) siteOver() (over, failed failures.Mask) {
	if v.rules.site == nil || v.Apart || !v.bindsSite() || v.privileged() {
		return 0, 0
	}
	bind := v.rules.site.binds[0][trusted.Stranger][AddressSubject]
	return v.atSite.Over & bind, v.atSite.Failed & bind
}

// knownSite has an attempt charged to nothing, unless its place is privileged, while the
// site is known to be full.
func (g *Guard) knownSite(v *view) (full bool) {
	r := v.rules.site
	if r == nil || v.Apart || v.badName {
		return false
	}
	v.atSite = failures.Usage{}
	known := g.siteFull.Load()
	if !v.bindsSite() || known == nil || known.rule != r || v.Now.Sub(known.at) >= min(siteBelieved, known.usage.FreeIn) || v.Now.Before(known.at) {
		return false
	}
	v.atSite, v.Usage = known.usage, [subjectCount]failures.Usage{}
	v.atSite.FreeIn -= v.Now.Sub(known.at)
	return true
}

// chargeSite charges the site with a stranger's attempt that its own subjects had
// room for. If the site has none, nothing stays charged.
func (g *Guard) chargeSite(ctx context.Context, v *view) error {
	r := v.rules.site
	if r == nil || v.Apart || v.badName || v.privileged() || !v.ID.Charged() {
		return nil
	}
	c := g.siteCharge(r, v.Now, failures.ChargeID{})
	if !v.bindsSite() {
		c.Binds = &r.binds[1]
	}
	found, err := *c, error(nil)
	if v.Repeat { // the same password counts once (R28), and needs room all the same
		found, _, err = g.config.Store.Read(ctx, *c)
	} else {
		found, err = g.config.Store.Begin(ctx, *c)
	}
	v.atSite = found.Usage[AddressSubject]
	over, failed := v.siteOver()
	if err == nil && over == 0 {
		if found.ID.Charged() {
			v.Site = &found
		}
		return nil
	}
	if failed != 0 {
		g.siteFull.Store(&siteFull{r, v.atSite, v.Now})
	}
	own := v.Charge
	v.ID, v.Repeat = failures.ChargeID{}, false
	if err = errors.Join(err, g.withdraw(ctx, &own)); err != nil {
		return fmt.Errorf("guard: charging the site: %w", err)
	}
	return nil
}

// stopAtSite adds the site's reasons for one action.
func (v *view) stopAtSite(d *Decision, action Action, patient bool) {
	over, failed := v.siteOver()
	if patient {
		over = failed
	}
	if over == 0 {
		return
	}
	for j := range v.rules.site.limits {
		if l := &v.rules.site.limits[j]; over.Has(j) && l.Then == action {
			d.stop(action, Reason{Cause: LimitReached, Subject: OnSite, Limit: l, Wait: v.atSite.FreeIn})
		}
	}
}

// siteLines are the site's ladder as Explain shows it.
func (g *Guard) siteLines(ctx context.Context, v *view) (lines []Line, err error) {
	r := v.rules.site
	if r == nil || v.privileged() {
		return nil, nil
	}
	read, used, err := g.config.Store.Read(ctx, *g.siteCharge(r, v.Now, failures.ChargeID{}))
	if err != nil {
		return nil, fmt.Errorf("guard: reading the site's count: %w", err)
	}
	v.atSite = read.Usage[AddressSubject]
	for j, l := range r.limits {
		lines = append(lines, Line{Subject: OnSite, Limit: l, Used: used[AddressSubject][j].Charges, Full: v.atSite.Over.Has(j), FreeIn: used[AddressSubject][j].FreeIn})
	}
	return lines, nil
}
