package guard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"authguard/failures"
	"authguard/trusted"
)

// Explain reads what stands against an account, an address or the pair. It
// changes nothing. An account name that is none is an error.
func (g *Guard) Explain(ctx context.Context, account string, address netip.Addr) (Explanation, error) {
	worst, err := g.explain(ctx, "", account, address)
	if account == "" {
		return worst, err
	}
	for _, directory := range g.config.Directories {
		if err != nil {
			break
		}
		var one Explanation
		if one, err = g.explain(ctx, directory, account, address); one.worse(&worst) {
			worst = one
		}
	}
	return worst, err
}

// worse reports whether more is known of an account than of another one of its
// name: failures or a place, and of both, whether it stands worse.
func (e *Explanation) worse(than *Explanation) bool {
	mine, other := e.known(), than.known()
	if mine && other {
		return e.Decision.Action < than.Decision.Action // Refuse comes first, Proceed last
	}
	return mine
}

// known reports whether anything is known of the account itself.
func (e *Explanation) known() bool {
	if e.Status != trusted.Stranger {
		return true
	}
	for _, l := range e.Lines {
		if l.Used > 0 && (l.Subject == OnAccount || l.Subject == OnPair) {
			return true
		}
	}
	return false
}

func (g *Guard) explain(ctx context.Context, directory, account string, address netip.Addr) (Explanation, error) {
	var v view
	v.rules = g.rules.Load()
	e := Explanation{Directory: directory, Address: address, Mode: g.config.Mode.On()}
	if account == "" && !address.IsValid() {
		return e, errors.New("guard: explain needs an account, an address or both")
	}
	if account != "" {
		if g.name(&Attempt{Account: account, Directory: directory}, &v); v.badName {
			return e, ErrAccountName
		}
		e.Account = v.name
	}
	g.digests.ofAddress(&v.address, &v.network, address)
	v.now = g.config.Now()
	v.listed = g.config.Lists.Look(address, v.now)
	if e.Account != "" && address.IsValid() {
		g.recognise(ctx, &Attempt{}, &v, false)
	}
	ofPair(&v.pair, &v.account, &v.address)
	v.modeOn, v.slowing = e.Mode, g.config.Mode.Slowing()
	v.suspect = g.proxies.suspect(v.address)
	e.Listed, e.Status = v.listed, v.status
	v.asked(e.Account != "", address.IsValid())
	if err := g.config.Failures.Read(ctx, v.subjects[:v.n], v.usage[:v.n]); err != nil {
		return e, fmt.Errorf("guard: reading the counters: %w", err)
	}
	e.Lines = v.lines()
	e.Decision = v.foretell()
	return e, nil
}

// asked lists only what was asked about.
func (v *view) asked(account, address bool) {
	if account && address {
		v.count()
		return
	}
	r := v.rules
	if address {
		v.add(v.ofAddress(), v.network, v.address, v.binds(&r.address))
		v.add(&r.network, v.network, v.network, v.binds(&r.network))
		return
	}
	v.add(&r.account, v.account, v.account, v.binds(&r.account))
}

func (v *view) lines() (lines []Line) {
	for i := range v.n {
		r, st := v.rule[i], v.usage[i]
		if r == &v.rules.pair {
			if r.ladder.Backoff().First > 0 {
				lines = append(lines, Line{Subject: OnPair, Delay: true, Used: st.Count, Full: st.Over&failures.BackoffBit != 0, FreeIn: st.FreeIn})
			}
			if !v.privileged() {
				continue
			}
		}
		for j, l := range r.limits {
			lines = append(lines, Line{Subject: r.kind, Limit: l, Used: int(st.Used[j]), Full: st.Over.Has(j), FreeIn: st.FreeIn})
		}
	}
	return lines
}

// foretell is what would be decided if there is no room, and Proceed
// otherwise.
func (v *view) foretell() (d Decision) {
	room := !v.modeAsks() && v.listed != Blocked
	for i := range v.n {
		room = room && v.usage[i].Over&v.subjects[i].Bind == 0
	}
	if room {
		v.charged = 1
	}
	decide(v, false, &d)
	return d
}

// Unlock forgets the failures of an account, an address or, with both, also of
// the pair. The network's count stays: it is not one person's.
func (g *Guard) Unlock(ctx context.Context, account string, address netip.Addr) error {
	if account == "" && !address.IsValid() {
		return errors.New("guard: unlock needs an account, an address or both")
	}
	return g.everywhere(account, func(directory string) error { return g.unlock(ctx, directory, account, address) })
}

// everywhere does something for an account of every directory; once if there
// is no account.
func (g *Guard) everywhere(account string, do func(directory string) error) error {
	err := do("")
	for _, directory := range g.config.Directories {
		if err == nil && account != "" {
			err = do(directory)
		}
	}
	return err
}

func (g *Guard) unlock(ctx context.Context, directory, account string, address netip.Addr) error {
	var v view
	v.rules = g.rules.Load()
	if account != "" {
		if g.name(&Attempt{Account: account, Directory: directory}, &v); v.badName {
			return ErrAccountName
		}
		v.add(&v.rules.account, v.account, v.account, 0)
	}
	if address.IsValid() {
		g.digests.ofAddress(&v.address, &v.network, address)
		v.add(&v.rules.address, v.network, v.address, 0)
	}
	if account != "" && address.IsValid() {
		ofPair(&v.pair, &v.account, &v.address)
		v.add(&v.rules.pair, v.account, v.pair, 0)
	}
	if err := g.config.Failures.Clear(ctx, v.subjects[:v.n]); err != nil {
		return fmt.Errorf("guard: unlocking: %w", err)
	}
	g.turns.wake(v.subjects[:v.n])
	return nil
}

// ForgetPlaces ends the privilege of an address for an account or, without
// one, of all the account's places and devices, as a new password must.
func (g *Guard) ForgetPlaces(ctx context.Context, account string, address netip.Addr) error {
	return g.everywhere(account, func(directory string) error {
		var v view
		if g.name(&Attempt{Account: account, Directory: directory}, &v); v.badName {
			return ErrAccountName
		}
		var place digest
		if address.IsValid() {
			place = g.digests.addressKey(address)
		}
		if err := g.config.Places.Forget(ctx, trusted.Key(v.account), trusted.Key(place), g.config.Now()); err != nil {
			return fmt.Errorf("guard: forgetting places: %w", err)
		}
		return nil
	})
}
