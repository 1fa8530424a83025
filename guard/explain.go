package guard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
	e.Decision = v.forecast()
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
	if err != nil || e.Listed != NotListed || e.Decision.Action != Block || g.peers.mayBeProxy(address) {
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
		if r.windows.Backoff().First > 0 && s.Kind == OnPair {
			lines = append(lines, Line{
				Subject: OnPair, Delay: true, Used: int(use.Count), Full: use.Over&failures.BackoffBit != 0,
				FreeIn: used[i][failures.MaxLimits].FreeIn,
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

// forecast is what would be decided if there is no room, and Proceed
// otherwise.
func (v *view) forecast() (d Decision) {
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

// RemoveKnownClients ends the privilege of an address for an account or, without
// one, of all the account's places and devices, as a new password must.
func (g *Guard) RemoveKnownClients(ctx context.Context, account string, address netip.Addr) error {
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

// KnownClients is what is known of the places and devices of an account.
type KnownClients struct {
	// List are the addresses that are or were privileged, last used first.
	List []RememberedClient
	// Reset is when all were last forgotten: a device cookie that was issued at or before
	// it vouches for nothing. Zero: never.
	Reset time.Time
	// Device is when the cookie was issued that vouches for the browser; zero: none does.
	Device time.Time
}

// A Place is one from which somebody has logged in.
type RememberedClient struct {
	Address netip.Addr     // the zero Addr: it is none of those that were asked about
	Status  trusted.Status // Privileged or Spent
	// Shared says that the address is nobody's own, and no place while that is so.
	Shared      bool
	First, Last time.Time // logins; of a spent place Last is when it was spent
}

// KnownClients tells what is remembered of an account, of Attempt's Account and Directory, and
// whether one of its Devices vouches. Places are kept as keyed digests (R23), so an
// address has a name only if it is among those given. It changes nothing. Without
// Config.Places nothing is known.
func (g *Guard) KnownClients(ctx context.Context, a Attempt, addresses []netip.Addr) (known KnownClients, err error) {
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
	known.List = g.named(record, addresses, v.Now)
	return known, nil
}

// named are the places of a record, with the addresses that they are digests of.
func (g *Guard) named(record trusted.Record, addresses []netip.Addr, now time.Time) (all []RememberedClient) {
	names := map[digest]netip.Addr{}
	for _, address := range addresses {
		if key := g.digests.addressKey(address); !names[key].IsValid() {
			names[key] = address
		}
	}
	for _, e := range record.Entries {
		p := RememberedClient{Address: names[e.Client], Status: e.Status, First: time.UnixMilli(e.First), Last: time.UnixMilli(e.Last)}
		p.Shared = p.Address.IsValid() && g.shared(p.Address, e.Client, now)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b RememberedClient) int { return b.Last.Compare(a.Last) })
	return all
}

// An Explanation is what the guard knows of an account, an address or both.
type Explanation struct {
	Account string // normalised and canonical; empty if none was asked for
	Address netip.Addr
	Listed  Verdict
	List    string         // the named list that the address is on; empty: none
	Status  trusted.Status // of the address to the account, if both are known
	Mode    bool           // CAPTCHA mode is on
	Lines   []Line
	// Decision is what an attempt would get now, with nothing charged: Proceed
	// if there is room.
	Decision Decision
	// Notes are what the caller of Explain knows beside it, a sentence each
	// without its full stop.
	Notes []string
}

// A Line is one limit as it stands for a subject.
type Line struct {
	Subject SubjectKind
	Limit   Limit
	Event   string // whose limit it is; empty: the logins'
	List    string // the named list whose limit it is; empty: none
	Delay   bool   // the pair's delay, not a limit
	Used    int    // charges in the limit's window; at most the ladder's largest limit
	Full    bool
	FreeIn  time.Duration // if full
}

// Open reports whether the next attempt would be let through to its password.
func (e *Explanation) Open() bool { return e.Decision.Action == Proceed }

// Summary is what would happen to the next attempt, in one sentence or two.
func (e *Explanation) Summary() string {
	switch d := &e.Decision; d.Action {
	case Proceed:
		return "The next attempt would proceed to the password check."
	case Challenge:
		return "The next attempt would have to solve a CAPTCHA before the password check."
	case Delay:
		return "The next attempt would be delayed by " + Spell(d.RetryAfter) + "."
	case FakeFailure:
		return "The next attempt would get a fake failure, without a password check."
	case Forget:
		return "The known client has reached its limit: its next attempt would be decided like an unknown client's."
	}
	const refused = "The next attempt would be blocked, whatever its password."
	switch {
	case e.Decision.RetryAfter <= 0:
		return refused
	case e.Listed == Blocked:
		return refused + " The block lasts until it expires or is removed."
	}
	return refused + " It ends in " + Spell(e.Decision.RetryAfter) + "."
}

// Why is what leads to the summary, a sentence each without its full stop.
func (e *Explanation) Why() (words []string) {
	for _, r := range e.Decision.Reasons {
		words = append(words, r.String())
	}
	if e.Account != "" && e.Address.IsValid() {
		words = append(words, map[trusted.Status]string{
			trusted.Known:   "the address is a known client of this account",
			trusted.Spent:   "the address was a known client of this account until too many wrong passwords came from it",
			trusted.Unknown: "the address is an unknown client for this account",
		}[e.Status])
	}
	if e.List != "" && !slices.ContainsFunc(e.Decision.Reasons, func(r Reason) bool { return r.List != "" }) {
		words = append(words, "the address is on the list "+e.List)
	}
	return append(words, e.Notes...)
}

// Text is everything in words, line by line.
func (e *Explanation) Text() []string {
	lines := []string{e.Summary()}
	for _, why := range e.Why() {
		lines = append(lines, "  "+why)
	}
	for _, l := range e.Lines {
		lines = append(lines, "  "+l.String())
	}
	return lines
}

// Whose is the account, address or network that a limit counts; empty for a
// pair.
func (e *Explanation) Whose(kind SubjectKind) string {
	switch kind {
	case OnAccount:
		return e.Account
	case OnAddress:
		return e.Address.String()
	case OnNetwork:
		bits := 48
		if e.Address.Is4() {
			bits = 24
		}
		network, _ := e.Address.Prefix(bits)
		return network.String()
	}
	return ""
}

// String is how the limit stands, on one line.
func (l Line) String() string {
	switch {
	case l.Delay && l.Full:
		return fmt.Sprintf("%s: the next attempt is possible in %s", l.Subject, Spell(l.FreeIn))
	case l.Delay:
		return fmt.Sprintf("%s: no delay now", l.Subject)
	}
	what := cmp.Or(l.Event, "failures")
	subject := l.Subject.String()
	if l.List != "" {
		subject += " on the list " + l.List
	}
	text := fmt.Sprintf("%s: %d of %d %s in any %s, then %s", subject, l.Used, l.Limit.Failures, what, l.Window(),
		l.Then())
	if l.Full {
		text += "; full for another " + Spell(l.FreeIn)
	}
	if l.Limit.Monitor {
		text += " (monitored)"
	}
	return text
}

// Window is the words after "any": "minute", "24 hours".
func (l Line) Window() string {
	switch l.Limit.Window {
	case time.Second:
		return "second"
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return Spell(l.Limit.Window)
}

// Then is what the limit asks for when it is full.
func (l Line) Then() Action {
	if l.Delay {
		return Delay
	}
	return l.Limit.Action
}

// MarshalJSON is what programs read, from the administration's API and from
// `authguard explain --json`. Seconds are whole, rounded up.
func (e Explanation) MarshalJSON() ([]byte, error) {
	type reason struct {
		Code string `json:"code"`
		Text string `json:"text"`
	}
	wire := struct {
		Account    string     `json:"account,omitempty"`
		Address    netip.Addr `json:"address,omitzero"`
		Decision   string     `json:"decision"`
		RetryAfter int        `json:"retry_after,omitempty"`
		Open       bool       `json:"open"`
		Place      string     `json:"client,omitempty"`
		Listed     string     `json:"listed,omitempty"`
		List       string     `json:"list,omitempty"`
		CAPTCHA    bool       `json:"captcha_mode"`
		Summary    string     `json:"summary"`
		Reasons    []reason   `json:"reasons"`
		Limits     []Line     `json:"limits"`
		Words      []string   `json:"words"`
	}{
		Account: e.Account, Address: e.Address, Decision: e.Decision.Action.String(),
		RetryAfter: seconds(e.Decision.RetryAfter), Open: e.Open(),
		Listed: map[Verdict]string{Allowed: "allowed", Blocked: "blocked"}[e.Listed], List: e.List, CAPTCHA: e.Mode,
		Summary: e.Summary(),
		Reasons: []reason{}, Limits: append([]Line{}, e.Lines...), Words: e.Text(),
	}
	if e.Account != "" && e.Address.IsValid() {
		wire.Place = map[trusted.Status]string{trusted.Known: "known", trusted.Spent: "spent",
			trusted.Unknown: "unknown"}[e.Status]
	}
	for _, r := range e.Decision.Reasons {
		wire.Reasons = append(wire.Reasons, reason{r.Code(), r.String()})
	}
	return json.Marshal(wire)
}

// MarshalJSON is a limit as programs read it; limit and window are left out for
// the pair's delay.
func (l Line) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Subject string `json:"subject"`
		Event   string `json:"event,omitempty"`
		List    string `json:"list,omitempty"`
		Used    int    `json:"used"`
		Limit   int    `json:"limit,omitempty"`
		Window  int    `json:"window_seconds,omitempty"`
		Then    string `json:"action"`
		Full    bool   `json:"full"`
		FreeIn  int    `json:"free_in_seconds,omitempty"`
		Monitor bool   `json:"monitor,omitempty"`
	}{l.Subject.String(), l.Event, l.List, l.Used, l.Limit.Failures, seconds(l.Limit.Window), l.Then().String(), l.Full,
		seconds(l.FreeIn), l.Limit.Monitor})
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }
