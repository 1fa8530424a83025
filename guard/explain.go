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

// Explain reads what limits an account, an IP address or their pair, and changes nothing. The error may be
// ErrAccountName.
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
	used, err := g.config.Store.Read(ctx, &v.Charge)
	if err != nil {
		return e, fmt.Errorf("guard: reading the counters: %w", err)
	}
	e.Listed, e.List, e.Status = v.listed.verdict, v.listed.name(), v.Status
	e.Lines = v.lines(&used)
	e.Decision = v.forecast()
	return e, nil
}

// Refusing returns the range that counts as this IP address, for a firewall to block. ok means that the limits of
// address or network block every unknown client there now. ok is false if any account has logged in from there, since
// known clients pass (R14). It is also false for a possible unconfigured proxy (R9), or if a list or another limit
// decides.
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

// about leaves the subjects that were asked about, whatever CAPTCHA mode asks for.
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

func (v *view) forecast() (d Decision) {
	if full, _ := v.full(); full == nil && !v.challengesAll() && v.listed.verdict != Blocked {
		v.ID = failures.ChargeID{At: 1}
	}
	decide(v, false, &d)
	return d
}

// Unlock removes the failures of an account, an IP address or, with both, also of the pair. See also UnlockNetwork.
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

// UnlockNetwork removes the failures of an address's network (IPv4 /24, IPv6 /48), but not of the addresses in it.
func (g *Guard) UnlockNetwork(ctx context.Context, address netip.Addr) error {
	if !address.IsValid() {
		return errors.New("guard: unlocking a network needs an address in it")
	}
	return g.clear(ctx, Attempt{Address: address}, OnNetwork)
}

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

// RemoveKnownClients makes an IP address unknown to an account or, without an address, all its known clients. The
// latter is required after a password change.
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

// KnownClients has the known clients of an account.
type KnownClients struct {
	// List has the clients that are or were known, last used first.
	List []RememberedClient
	// Reset is when all were last removed: device cookies issued until then are invalid. Zero: never.
	Reset time.Time
	// Device is when the browser's valid device cookie was issued; zero: it has none.
	Device time.Time
}

// A RememberedClient is a client from which a user has signed in.
type RememberedClient struct {
	Address netip.Addr     // zero: none of those that were asked about
	Status  trusted.Status // Known or Spent
	// Shared: it is a shared address now, and so not a known client.
	Shared      bool
	First, Last time.Time // logins; for Spent, Last is when it exceeded its limit
}

// KnownClients returns the known clients of Attempt.Account, and whether one of Attempt.Devices is known. Only the
// given addresses are named: clients are stored as keyed digests (R23). Without Config.KnownClients the result is
// empty.
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

func (g *Guard) named(record trusted.Record, addresses []netip.Addr, now time.Time) (all []RememberedClient) {
	names := map[digest]netip.Addr{}
	for _, address := range addresses {
		if key := g.digests.addressKey(address); !names[key].IsValid() {
			names[key] = address
		}
	}
	for _, e := range record.Entries {
		p := RememberedClient{
			Address: names[e.Client],
			Status:  e.Status,
			First:   time.UnixMilli(e.First),
			Last:    time.UnixMilli(e.Last),
		}
		p.Shared = p.Address.IsValid() && g.shared(p.Address, e.Client, now)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b RememberedClient) int { return b.Last.Compare(a.Last) })
	return all
}

// An Explanation is what limits an account, an IP address or both.
type Explanation struct {
	Account string // normalized and canonical; empty if not asked for
	Address netip.Addr
	Listed  Verdict
	List    string         // the IP list that the address is on; empty: none
	Status  trusted.Status // of the address for the account, if both are given
	Mode    bool           // CAPTCHA mode is on
	Lines   []Line
	// Decision is what an attempt would get now, without a charge.
	Decision Decision
	// Notes are further sentences from the caller of Explain, without full stops.
	Notes []string
}

// A Line is the state of one limit for a subject.
type Line struct {
	Subject SubjectKind
	Limit   Limit
	Event   string // whose limit it is; empty: a login's
	List    string // the IP list whose limit it is; empty: none
	Delay   bool   // the pair's delay, not a limit
	Used    int    // charges in the limit's window, at most the largest limit's number
	Full    bool
	FreeIn  time.Duration // if full
}

// Open reports whether the next attempt would proceed to its password check.
func (e *Explanation) Open() bool { return e.Decision.Action == Proceed }

// Behind returns the limit that blocks the next attempt after its challenge: a solution does not help.
func (e *Explanation) Behind() (longest Line, ok bool) {
	for _, l := range e.Lines {
		if e.Decision.Action == Challenge && l.Full && !l.Delay && !l.Limit.Monitor && l.Limit.Action == Block &&
			(!ok || l.FreeIn > longest.FreeIn) {
			longest, ok = l, true
		}
	}
	return longest, ok
}

// Summary returns what would happen to the next attempt, in one or two sentences.
func (e *Explanation) Summary() string {
	switch d := &e.Decision; d.Action {
	case Proceed:
		return "The next attempt would proceed to the password check."
	case Challenge:
		if line, ok := e.Behind(); ok {
			return "The next attempt would have to solve a CAPTCHA, and would then be blocked, whatever its password. The " +
				"block ends in " + Spell(line.FreeIn) + "."
		}
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

// Why returns the reasons for the summary, as sentences without full stops.
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

// Text returns summary, reasons and limits, line by line.
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

// Whose returns the account, address or network that a limit counts; empty for other subjects.
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

// String returns the state of the limit on one line.
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

// Window returns the words after "any": "minute", "24 hours".
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

// Then returns the action of the limit.
func (l Line) Then() Action {
	if l.Delay {
		return Delay
	}
	return l.Limit.Action
}

// MarshalJSON is for the administration API and `authguard explain --json`. Seconds are whole, rounded up.
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

// MarshalJSON leaves out limit and window for the pair's delay. Seconds are whole, rounded up.
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
