package guard

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/dchest/siphash"
	"golang.org/x/text/unicode/norm"

	"authguard/failures"
	"authguard/trusted"
)

func (g *Guard) modeState() (m modeState) {
	mode := g.config.Mode
	m.on, m.throttles, m.elevated = mode.On(), mode.Throttling(), mode.Elevated()
	m.wouldBeOn, m.wouldThrottle, m.wouldElevate = mode.Monitored()
	return m
}

// look fills in what is known before anything is counted.
func (g *Guard) look(a *Attempt, v *view) {
	v.rules, v.Now = g.rules.Load(), g.config.Now()
	g.lookAround(a, v)
	v.wants, v.leaked = a.WantsCode, a.PasswordLeaked
	v.hardest = !a.SendsCode && !a.WantsCode && g.config.Challenges != nil
	if g.peers.carriesMost(v.from.address) {
		v.in |= unconfiguredProxy
	}
	if v.badName = g.name(v, a) != nil; !v.badName {
		g.client(a, v)
		if a.Passkey {
			v.in = v.in&^withSolution | withPasskey // a solution is not used up
		}
		if a.VerificationCode != "" && (g.config.Codes != nil || a.WantsCode) {
			v.in |= withCode
		}
	}
	g.subjects(a.Fingerprint, v)
}

func (g *Guard) lookAround(a *Attempt, v *view) {
	v.mode = g.modeState()
	if a.Solution.ID != "" && a.Solution.Claimed() {
		v.in |= withSolution
	}
	g.digests.ofAddress(a.Address, &v.from.address, &v.from.network)
	v.listed = g.listed(v.rules, a.Address, v.Now)
	if v.listed.verdict == Allowed {
		v.in |= allowlisted
	} else if !a.Passkey && a.Account != "" { // an unreadable request names no account
		sends := a.WantsCode || a.SendsCode && g.config.Codes != nil
		needs := func(leaked bool) stepUp {
			return v.rules.policy.StepUp.at(&v.mode, leaked, sends, g.config.Challenges != nil)
		}
		v.mode.step = needs(a.PasswordLeaked)
		v.mode.mayNeedCode = needs(g.config.Leaked.has.Load() != nil) == stepUpByCode
	}
}

// at returns what unknown clients need now. leaked: the password is known from leaks; sends: a code can be sent;
// challenges: there are some.
func (s StepUp) at(m *modeState, leaked, sends, challenges bool) stepUp {
	on := s.Leaked && leaked || s.Throttling && m.throttles || s.Captcha && m.on || s.Elevated && m.elevated
	would := s.Throttling && m.wouldThrottle || s.Captcha && m.wouldBeOn || s.Elevated && m.wouldElevate
	switch {
	case on && s.Monitor, would && !on:
		return monitoredStepUp
	case !on:
		return noStepUp
	case sends || s.BlockWithoutCode:
		return stepUpByCode
	case s.Elevated && m.elevated && challenges:
		return stepUpByChallenge
	}
	return noStepUp
}

// client fills in what identifies the client and its password to the store.
func (g *Guard) client(a *Attempt, v *view) {
	g.device(v, a.Devices)
	if !g.shared(a.Address, v.from.address, v.Now) {
		v.Address = v.from.address
	}
	v.From, v.Network = v.from.address, v.from.part()
	if a.PasswordTag != 0 {
		v.tag, v.Spray = g.digests.ofTag(a.PasswordTag, a.BesideTag, &v.Account)
		v.SprayAccounts = v.rules.policy.Spray.Accounts
	}
}

// subjects lists what the attempt is charged to, and which limits stop it.
func (g *Guard) subjects(fingerprint uint32, v *view) {
	unknown := UnknownClient
	if v.challengesAll() {
		unknown = 0
	}
	if v.Tag = v.tag; v.in&withCode != 0 {
		v.Tag = 0 // each guess of a verification code counts
	}
	address := v.addressRules().usual
	if v.mode.throttles || v.mode.wouldThrottle {
		address = v.addressRules().throttled
	}
	if !v.mode.throttles && v.mode.wouldThrottle {
		v.in |= throttleMonitored
	}
	v.n = 0
	v.add(address, OnAddress, v.from.address, v.from.network, unknown, v.in)
	v.add(v.rules.network, OnNetwork, v.from.network, v.from.network, unknown, v.in)
	if v.badName {
		return
	}
	v.add(v.rules.account, OnAccount, v.Account, v.Account, unknown, v.in)
	v.add(v.rules.pair, OnPair, ofPair(v.Account, v.from.address), v.Account, unknown|KnownAddress, v.in)
	if v.Device != (digest{}) {
		v.add(v.rules.pair, OnPair, ofPair(v.Account, v.Device), v.Account, KnownDevice, v.in)
	}
	if v.rules.fingerprint != nil && fingerprint != 0 {
		key := g.digests.ofIdentity(fingerprint)
		v.add(v.rules.fingerprint, OnIdentity, key, key, unknown, v.in)
	}
	if v.rules.site != nil {
		key := g.digests.ofQuota("site", digest{})
		v.add(v.rules.site, OnSite, key, key, unknown, v.in)
	}
}

func (v *view) addressRules() *addressRules {
	if v.listed.on != nil {
		return &v.listed.on.address
	}
	return &v.rules.address
}

// insufficient reports whether even the right password is not enough: the attempt gets a fake failure, needs a
// verification code (R32), or its password is sprayed. A known client and a valid code are exempt from the latter two,
// an admitted login from the last.
func (v *view) insufficient() bool {
	switch {
	case v.fake != nil:
		return true
	case v.Known() || v.code == codeValid:
		return false
	}
	return v.mode.step == stepUpByCode || v.Sprayed && !v.rules.policy.Spray.Monitor && v.admitted == nil
}

// mayNeedCode reports whether another password might be insufficient for want of a code; see Decision.
func (v *view) mayNeedCode() bool { return v.mode.mayNeedCode && !v.Known() && v.code != codeValid }

// asksSprayed reports whether a sprayed password gets the most expensive challenge: its owner can get no code.
func (v *view) asksSprayed() bool {
	return v.hardest && v.Sprayed && !v.Known() && v.in&withCode == 0 && !v.rules.policy.Spray.Monitor
}

func (v *view) modeAsks() bool { return v.mode.on && !v.Known() && v.listed.verdict != Allowed }

func (v *view) stepUpAsks() bool { return v.mode.step == stepUpByChallenge && !v.Known() }

// asks reports whether every unknown client at this address has to solve a challenge.
func (v *view) asks() bool { return v.modeAsks() || v.stepUpAsks() || v.listed.asks() && !v.Known() }

// challengesAll reports whether only a known client passes: the attempt has no solution, verification code or passkey.
func (v *view) challengesAll() bool { return v.asks() && v.in&proven == 0 }

// accountFailures is how many failures of unknown clients the account had; 0 for a known client.
func (v *view) accountFailures() int {
	if s := v.Subject(OnAccount); s != nil {
		return int(s.Usage.Count)
	}
	return 0
}

// ownFailures is accountFailures, or 0 if these may be other accounts' (R6).
func (v *view) ownFailures() int {
	if s := v.Subject(OnAccount); s != nil && s.Usage.Shared {
		return 0
	}
	return v.accountFailures()
}

// full returns a full subject that stops the attempt. failed: one stays full even if every undecided attempt succeeds.
func (v *view) full() (full *Subject, failed bool) {
	for i := range v.Subjects() {
		s := &v.Subjects()[i]
		if !v.Counts(s) {
			continue
		}
		if full == nil && s.Usage.Over&v.Bound(s) != 0 {
			full = s
		}
		failed = failed || s.Usage.Failed&v.Bound(s) != 0
	}
	return full, failed
}

// Identity returns the client fingerprint for Attempt.Fingerprint, from any text by which the integration recognizes a
// client. It is keyed by secret and realm, so an attacker cannot aim at another client's, and 0 only for the empty
// text. It has 32 bits: among 65,000 clients two share theirs by chance, and count as one.
func (g *Guard) Identity(client string) uint32 {
	if client == "" {
		return 0
	}
	return max(1, uint32(siphash.Hash(g.digests.identity[0], g.digests.identity[1], []byte(client))))
}

// Fingerprint returns the password tag for Attempt.PasswordTag, keyed by secret and realm. It is never 0. The guard
// keeps 24 bits derived from it, for a day.
func (g *Guard) Fingerprint(password string) uint64 {
	return max(1, siphash.Hash(g.digests.password[0], g.digests.password[1], []byte(password)))
}

// Beside returns Attempt.BesideTag for a password and the rest of its request. A password that an app can read as a
// number may be a code that is valid once. The same code again is another guess, because the app has a new one by then.
// So the tag is random.
func (g *Guard) Beside(password, beside string) uint64 {
	if isNumber(password) {
		beside += rand.Text()
	}
	return g.Fingerprint(beside)
}

// Leaked reports whether a password is known from leaks, for Attempt.PasswordLeaked.
func (g *Guard) Leaked(password string) bool {
	list := g.config.Leaked.has.Load()
	return list != nil && (*list)(password)
}

// isNumber reports whether an app may read a text as a number. PHP and JavaScript read 000815x as 815; Python also reads
// 0_815, +815, and the digits of other scripts.
func isNumber(text string) bool {
	text = norm.NFKC.String(text)
	first := strings.IndexFunc(text, func(c rune) bool { return unicode.IsDigit(c) || unicode.IsLetter(c) })
	return first < 0 || strings.IndexFunc(text[first:], unicode.IsDigit) == 0
}

// name sets the account. This is the only normalization of the name (R11).
func (g *Guard) name(v *view, a *Attempt) error {
	name, err := g.config.Normalise(a.Account)
	if err != nil {
		v.name = a.Account
		return err
	}
	v.respelled = !strings.EqualFold(a.Account, name)
	if v.name, err = g.config.Canonical(name, a.Address); err != nil {
		v.name, v.unresolved = name, fmt.Errorf("guard: looking up the canonical account name: %w", err)
	}
	g.digests.ofAccount(v.name, &v.Account)
	return nil
}

// device finds a genuine, unexpired device cookie of this account. The store decides whether its device is still known.
func (g *Guard) device(v *view, cookies []string) {
	if g.config.Cookies == nil || !v.rules.policy.Devices {
		return
	}
	looked := 0
	for _, cookie := range cookies {
		if !trusted.NamesAccount(cookie, v.Account) {
			continue // of another account, or planted by a sibling host
		}
		if looked++; looked > MaxDevices {
			return
		}
		account, device, issued, err := g.config.Cookies.Parse(cookie)
		if err == nil && account == v.Account && v.Now.Sub(issued) < v.rules.policy.KnownClients.TTL {
			v.Device, v.Issued = device, issued
			return
		}
	}
}

// Normalise returns the form of a name that is counted and looked up. The error is ErrAccountName.
func (g *Guard) Normalise(typed string) (string, error) { return g.config.Normalise(typed) }

// Listed returns what the allowlist and the blocklist say about an address now.
func (g *Guard) Listed(address netip.Addr) Verdict {
	return g.config.Lists.Look(address, g.config.Now())
}

// RecognisesDevice reports whether a device cookie is genuine and not expired. Begin decides whether its device is
// known.
func (g *Guard) RecognisesDevice(cookie string) bool {
	if g.config.Cookies == nil {
		return false
	}
	_, _, issued, err := g.config.Cookies.Parse(cookie)
	return err == nil && g.config.Now().Sub(issued) < g.rules.Load().policy.KnownClients.TTL
}

// listed asks the administrators' entries first, then the IP lists in the policy's order.
func (g *Guard) listed(r *rules, a netip.Addr, now time.Time) listing {
	if v := g.config.Lists.Look(a, now); v == Blocked {
		return listing{verdict: v, left: g.config.Lists.blockedFor(a, now)}
	} else if v != NotListed {
		return listing{verdict: v}
	}
	for _, l := range r.lists {
		switch {
		case !g.config.Lists.Named(l.name).Has(a):
		case l.verdict != Blocked:
			return listing{verdict: l.verdict, on: l}
		case l.monitored:
			return listing{on: l}
		default: // an IP list does not expire
			return listing{verdict: Blocked, on: l, left: mostBlocked}
		}
	}
	return listing{}
}

func (l *listing) name() string {
	if l.on == nil {
		return ""
	}
	return l.on.name
}

// asks reports whether an IP list challenges every unknown client.
func (l *listing) asks() bool { return l.on != nil && l.on.asks != nil && !l.on.asks.Monitor }

func (l *listing) challenge() Reason {
	return Reason{Cause: LimitReached, Subject: OnAddress, Limit: l.on.asks, List: l.on.name, Monitored: l.on.asks.Monitor}
}

// shared reports whether an address is never a known client: a shared address, or perhaps an unconfigured proxy.
func (g *Guard) shared(a netip.Addr, address digest, now time.Time) bool {
	if g.config.SharedAddresses.Shared(address, now) || g.config.Shared != nil && g.config.Shared(a) {
		return true
	}
	return g.peers.mayBeProxy(a) && g.config.SharedAddresses.Several(address, now)
}

func (v *view) charged() *Charge {
	if v.fake == nil {
		return &v.Charge
	}
	alone := v.pairAlone()
	return &alone
}

// withdraw takes back every charge of an attempt whose password was not checked.
func (g *Guard) withdraw(ctx context.Context, c *Charge) error {
	err := g.config.Store.Settle(afterwards(ctx), c, Withdrawn)
	g.wake(c)
	if err != nil {
		return fmt.Errorf("guard: taking back a charge: %w", err)
	}
	return nil
}

// afterwards is for writes that must not be canceled: a client that hangs up has still guessed. The store bounds the
// time.
func afterwards(ctx context.Context) context.Context {
	if ctx.Done() == nil {
		return ctx
	}
	return context.WithoutCancel(ctx)
}

// wake wakes the attempts that wait for the same subjects.
func (g *Guard) wake(c *Charge) {
	if g.waiting.waiting.Load() == 0 {
		return
	}
	var all counted
	all.of(c)
	g.waiting.wake(all.list())
}

func (g *Guard) observe(e Event) {
	if g.config.Observer != nil {
		g.config.Observer.Observe(e)
	}
}

func (v *view) fullKey() (key failures.Key) {
	if full, _ := v.full(); full != nil {
		key = full.Key
	}
	return key
}

// only leaves one kind of subject in the charge. The counts of the others stay known.
func (v *view) only(kind SubjectKind) {
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; s.Kind != kind {
			s.For = 0
		}
	}
}

// add adds a subject with a rule's limits. The store keeps the subjects of one shard together.
func (c *Charge) add(r *rule, kind SubjectKind, key, shard digest, clients Clients, in exemption) *Subject {
	s := &c.list[c.n]
	c.n++
	s.Kind, s.For, s.Ends, s.rule, s.Usage = kind, clients, r.ends, r, failures.Usage{}
	s.Shard, s.Key, s.Limits = failures.Key(shard), failures.Key(key), r.windows
	for status := range s.Binds {
		s.Binds[status] = r.stops(trusted.Status(status), in)
	}
	return s
}

func (g *Guard) sprayedCharge(r *rules, spray uint32, now time.Time) Charge {
	c := Charge{Now: now}
	key := g.digests.ofQuota("sprayed logins", g.digests.ofIdentity(spray))
	c.add(r.sprayed, OnSite, key, key, EveryClient, 0)
	return c
}

func (o *origin) part() uint16 { return binary.LittleEndian.Uint16(o.network[:]) }
