package guard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

// Explain reads what stands against an account, an address or the pair. It
// changes nothing. An invalid account name is an error.
func (g *Guard) Explain(ctx context.Context, account string, address netip.Addr) (Explanation, error) {
	e := Explanation{Address: address, Mode: g.config.Mode.On()}
	if account == "" && !address.IsValid() {
		return e, errors.New("guard: explain needs an account, an address or both")
	}
	v := new(view)
	g.look(&Attempt{Account: account, Address: address}, v)
	if account != "" && v.badName {
		return e, ErrAccountName
	}
	v.about(account, address)
	if account != "" {
		e.Account = v.name
	}
	var err error
	var used Used
	if v.Charge, used, err = g.config.Store.Read(ctx, v.Charge); err != nil {
		return e, fmt.Errorf("guard: reading the counters: %w", err)
	}
	e.Listed, e.List, e.Status = v.listed.verdict, v.listed.name(), v.Status
	e.Lines = v.lines(&used)
	e.Decision = v.foretell()
	return e, nil
}

// Refusing is the range that counts as this one address, if every stranger is refused
// there now for what came from it: from which address a whole firewall may as well
// keep everybody out. It is not ok where somebody has logged in from (R14: known
// places pass), where a proxy may have been forgotten (R9), and where the lists or
// something else than the address's own limits and its network's decide.
func (g *Guard) Refusing(ctx context.Context, address netip.Addr) (l Listing, ok bool, err error) {
	now := g.config.Now()
	e, err := g.Explain(ctx, "", address)
	if err != nil || e.Listed != NotListed || e.Decision.Action != Block || g.peers.suspects(address) {
		return l, false, err
	}
	if used, err := g.config.SharedAddresses.Used(ctx, g.digests.addressKey(address), now); err != nil || used {
		return l, false, err
	}
	left := time.Duration(0)
	for _, line := range e.Lines {
		if line.Full && line.Limit.Action == Block && !line.Limit.Monitor && (line.Subject == OnAddress ||
			line.Subject == OnNetwork) {
			left, ok = max(left, line.FreeIn), true
		}
	}
	return Listing{Prefix: oneAddress(address), Verdict: Blocked, Until: now.Add(left)}, ok, nil
}

// about narrows what is counted to what was asked about: an account, an address with its network,
// or all. It counts whatever CAPTCHA mode asks for.
func (v *view) about(account string, address netip.Addr) {
	for i := range v.Subjects() {
		s := &v.Subjects()[i]
		switch {
		case s.Kind == OnPair && s.For&KnownDevice == 0:
			s.For = UnknownClient | KnownAddress
		case s.Kind != OnPair:
			s.For = UnknownClient
		}
		if account == "" && !s.rule.ofAddress() || !address.IsValid() && (s.rule.ofAddress() || s.Kind == OnPair) {
			s.For = 0
		}
	}
	if !address.IsValid() {
		v.Address = digest{}
	}
}

func (v *view) lines(used *Used) (lines []Line) {
	for i := range v.Subjects() {
		s := &v.Subjects()[i]
		if !v.Counts(s) {
			continue
		}
		r, use := s.rule, s.Usage
		if r.ladder.Backoff().First > 0 && s.Kind == OnPair {
			lines = append(lines, Line{
				Subject: OnPair, Delay: true, Used: int(use.Count), Full: use.Over&failures.BackoffBit != 0,
				FreeIn: used[i][failures.MaxRungs].FreeIn,
			})
		}
		for j, l := range r.limits {
			if r.of(v.Status).Has(j) {
				lines = append(lines, Line{
					Subject: r.on(j), List: r.reason(j).List, Limit: l, Used: used[i][j].Charges,
					Full: use.Over.Has(j), FreeIn: used[i][j].FreeIn,
				})
			}
		}
	}
	return lines
}

// foretell is what would be decided if there is no room, and Proceed
// otherwise.
func (v *view) foretell() (d Decision) {
	if full, _ := v.full(); full == nil && !v.challengesAll() && v.listed.verdict != Blocked {
		v.ID = failures.ChargeID{At: 1}
	}
	decide(v, false, &d)
	return d
}

// Unlock removes the failures of an account, an address or, with both, also of
// the pair. The network's count stays: it is not one person's (UnlockNetwork).
func (g *Guard) Unlock(ctx context.Context, account string, address netip.Addr) error {
	if account == "" && !address.IsValid() {
		return errors.New("guard: unlock needs an account, an address or both")
	}
	var kinds []SubjectKind
	if account != "" {
		kinds = append(kinds, OnAccount)
	}
	if address.IsValid() {
		kinds = append(kinds, OnAddress)
	}
	if len(kinds) == 2 {
		kinds = append(kinds, OnPair)
	}
	return g.clear(ctx, Attempt{Account: account, Address: address}, kinds...)
}

// UnlockNetwork removes the failures of the network around an address: the IPv4 /24 or the
// IPv6 /48. Those of the addresses in it stay.
func (g *Guard) UnlockNetwork(ctx context.Context, address netip.Addr) error {
	if !address.IsValid() {
		return errors.New("guard: unlocking a network needs an address in it")
	}
	return g.clear(ctx, Attempt{Address: address}, OnNetwork)
}

// clear removes the failures of some of the subjects of an attempt.
func (g *Guard) clear(ctx context.Context, a Attempt, kinds ...SubjectKind) error {
	v := new(view)
	if g.look(&a, v); a.Account != "" && v.badName {
		return ErrAccountName
	}
	own := slices.DeleteFunc(slices.Clone(v.Subjects()), func(s Subject) bool { return !slices.Contains(kinds, s.Kind) })
	if err := g.config.Store.Clear(ctx, own); err != nil {
		return fmt.Errorf("guard: unlocking: %w", err)
	}
	v.about(a.Account, a.Address)
	g.wake(&v.Charge)
	return nil
}

// ForgetPlaces ends the privilege of an address for an account or, without
// one, of all the account's places and devices, as a new password must.
func (g *Guard) ForgetPlaces(ctx context.Context, account string, address netip.Addr) error {
	var v view
	if g.name(&v, &Attempt{Account: account}) != nil {
		return ErrAccountName
	}
	var place digest
	if address.IsValid() {
		place = g.digests.addressKey(address)
	}
	if err := g.config.Store.Forget(ctx, v.Account, place, g.config.Now()); err != nil {
		return fmt.Errorf("guard: removing known clients: %w", err)
	}
	return nil
}

// Remembered is what is known of the places and devices of an account.
type Remembered struct {
	// Places are the addresses that are or were privileged, last used first.
	Places []Place
	// Reset is when all were last forgotten: a device cookie that was issued at or before
	// it vouches for nothing. Zero: never.
	Reset time.Time
	// Device is when the cookie was issued that vouches for the browser; zero: none does.
	Device time.Time
}

// A Place is one from which somebody has logged in.
type Place struct {
	Address netip.Addr     // the zero Addr: it is none of those that were asked about
	Status  trusted.Status // Privileged or Spent
	// Shared says that the address is nobody's own, and no place while that is so.
	Shared      bool
	First, Last time.Time // logins; of a spent place Last is when it was spent
}

// Places tells what is remembered of an account, of Attempt's Account and Directory, and
// whether one of its Devices vouches. Places are kept as keyed digests (R23), so an
// address has a name only if it is among those given. It changes nothing. Without
// Config.Places nothing is known.
func (g *Guard) Places(ctx context.Context, a Attempt, addresses []netip.Addr) (known Remembered, err error) {
	v := new(view)
	v.rules, v.Now = g.rules.Load(), g.config.Now()
	if g.name(v, &a) != nil {
		return known, ErrAccountName
	}
	if g.config.KnownClients == nil {
		return known, nil
	}
	record, err := g.config.KnownClients(ctx, v.Account, v.Now)
	if err != nil {
		return known, fmt.Errorf("guard: reading known clients: %w", err)
	}
	if record.Reset > 0 {
		known.Reset = time.UnixMilli(record.Reset)
	}
	if g.device(v, a.Devices); v.Device != (digest{}) && v.Issued.After(known.Reset) &&
		record.Status(v.Device) != trusted.Spent {
		known.Device = v.Issued
	}
	known.Places = g.named(record, addresses, v.Now)
	return known, nil
}

// named are the places of a record, with the addresses that they are digests of.
func (g *Guard) named(record trusted.Record, addresses []netip.Addr, now time.Time) (all []Place) {
	names := map[digest]netip.Addr{}
	for _, address := range addresses {
		if key := g.digests.addressKey(address); !names[key].IsValid() {
			names[key] = address
		}
	}
	for _, e := range record.Entries {
		p := Place{Address: names[e.Place], Status: e.Status, First: time.UnixMilli(e.First), Last: time.UnixMilli(e.Last)}
		p.Shared = p.Address.IsValid() && g.shared(p.Address, e.Place, now)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Place) int { return b.Last.Compare(a.Last) })
	return all
}
