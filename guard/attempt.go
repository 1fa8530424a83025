package guard

import (
	"encoding/binary"
	"net/netip"
	"time"

	"authguard/captchamode/challenge"
)

// An Attempt is one try to log in to an account from an IP address. It never holds the password.
type Attempt struct {
	// Account is the name as it was typed.
	Account string
	// Address is the client's, decided by the integration. All invalid addresses count as one, so
	// that what cannot be parsed is never unlimited.
	Address netip.Addr
	// Devices are the device cookies of the request, of any account; of the account's own at most
	// MaxDevices are checked.
	Devices []string
	// Solution is the solution of a challenge, if there is one.
	Solution challenge.Solve
	// VerificationCode is a verification code, if there is one (R29). From a known client it is
	// not checked.
	VerificationCode string
	// SendsCode says that the integration can send a verification code to the account's owner.
	// Where it cannot, an unknown client with a sprayed password solves the most expensive
	// challenge instead (R28).
	SendsCode bool
	// PasswordTag recognizes a repeated password (R28): keyed, from Guard.Fingerprint, which must
	// not be one of another site's. 0: unknown, so that every try counts.
	PasswordTag uint64
	// Fingerprint recognizes the client, whatever its address: keyed, from Guard.Identity, which
	// must not be one of another site's. 0: unknown, and not counted.
	Fingerprint uint32
	// Forwarded says that the TCP peer is no configured proxy and yet sent a forwarding header
	// (R9).
	Forwarded bool
	// Hold is how long the integration lets an attempt wait on a timer until it is due; zero: the
	// client is asked to wait (R15).
	Hold time.Duration
	// Integration names where the attempt came in: "login", "admin", "api", "library".
	Integration string
}

// MaxDevices is how many device cookies of one account an attempt may bring.
const MaxDevices = 8

// A view is what is known of one attempt until it is decided.
type view struct {
	Charge
	rules   *rules
	name    string // the account, normalized and canonical; as it was typed if badName
	badName bool
	from    origin
	listed  listing
	mode    modeState
	in      exemption
	code    codeState
	tag     uint32 // see Password.Tag
	hardest bool   // no verification code can be sent, and there are challenges
	gone    bool   // the client has hung up while it waited
	waited  time.Duration
	// admitted is what a login with a sprayed password was charged; nil: it was not.
	admitted *Charge
	// fake are the reasons to answer with a fake failure; nil: there are none.
	fake Reasons
}

// A codeState is what is known of a verification code.
type codeState uint8

const (
	unchecked codeState = iota
	codeValid
	codeInvalid
)

// An origin is where an attempt comes from: the digests of its IP address and network.
type origin struct{ address, network digest }

// part is enough of the network's digest to tell networks apart.
func (o *origin) part() uint16 { return binary.LittleEndian.Uint16(o.network[:]) }

// A listing is what the IP lists say of an address.
type listing struct {
	verdict Verdict
	on      *listRule // the named list; nil: none
	left    time.Duration
}

// A modeState is what CAPTCHA mode asks for, and what it would if it were not monitored.
type modeState struct{ on, throttles, wouldBeOn, wouldThrottle bool }

func (g *Guard) modeState() (m modeState) {
	m.on, m.throttles = g.config.Mode.On(), g.config.Mode.Slowing()
	m.wouldBeOn, m.wouldThrottle = g.config.Mode.Watched()
	return m
}

// look fills in what is known before anything is counted.
func (g *Guard) look(a *Attempt, v *view) {
	v.rules, v.Now = g.rules.Load(), g.config.Now()
	g.lookAround(a, v)
	v.hardest = !a.SendsCode && g.config.Challenges != nil
	if g.peers.softened(v.from.address) {
		v.in |= unconfiguredProxy
	}
	if v.badName = g.name(v, a) != nil; !v.badName {
		g.client(a, v)
		if a.VerificationCode != "" && g.config.Codes != nil {
			v.in |= withCode
		}
	}
	g.subjects(a.Fingerprint, v)
}

// lookAround fills in what is known of the site and the IP address.
func (g *Guard) lookAround(a *Attempt, v *view) {
	v.mode = g.modeState()
	if a.Solution.Claimed() {
		v.in |= withSolution
	}
	g.digests.ofAddress(a.Address, &v.from.address, &v.from.network)
	v.listed = g.listed(v.rules, a.Address, v.Now)
	if v.listed.verdict == Allowed {
		v.in |= allowlisted
	}
}

// client fills in what identifies the client and its password to the store.
func (g *Guard) client(a *Attempt, v *view) {
	g.device(v, a.Devices)
	if !g.shared(a.Address, v.from.address, v.Now) {
		v.Address = v.from.address
	}
	v.From, v.Network = v.from.address, v.from.part()
	if a.PasswordTag != 0 {
		v.tag, v.Spray = g.digests.ofTag(a.PasswordTag, &v.Account)
		v.SprayAccounts = v.rules.policy.Spray.Accounts
	}
}

// subjects lists what the attempt is charged to, and which limits stop it. A new subject is one
// more entry here.
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
	v.Add(address.subject(OnAddress, v.from.address, v.from.network, unknown, v.in))
	v.Add(v.rules.network.subject(OnNetwork, v.from.network, v.from.network, unknown, v.in))
	if v.badName {
		return
	}
	v.Add(v.rules.account.subject(OnAccount, v.Account, v.Account, unknown, v.in))
	v.Add(v.rules.pair.subject(OnPair, ofPair(v.Account, v.from.address), v.Account, unknown|KnownAddress, v.in))
	if v.Device != (digest{}) {
		v.Add(v.rules.pair.subject(OnPair, ofPair(v.Account, v.Device), v.Account, KnownDevice, v.in))
	}
	if v.rules.fingerprint != nil && fingerprint != 0 {
		key := g.digests.ofIdentity(fingerprint)
		v.Add(v.rules.fingerprint.subject(OnIdentity, key, key, unknown, v.in))
	}
	if v.rules.site != nil {
		key := g.digests.ofQuota("site", digest{})
		v.Add(v.rules.site.subject(OnSite, key, key, unknown, v.in))
	}
}

// addressRules are the limits of the attempt's IP address.
func (v *view) addressRules() *addressRules {
	if v.listed.on != nil {
		return &v.listed.on.address
	}
	return &v.rules.address
}

// insufficient reports whether even the right password is not enough: it gets a fake failure; or
// it is used for password spraying, and an unknown client sent it without a verification code and
// was not admitted without one.
func (v *view) insufficient() bool {
	return v.fake != nil || v.Sprayed && !v.Known() && v.code != codeValid && !v.rules.policy.Spray.Monitor &&
		v.admitted == nil
}

// asksSprayed reports whether an attempt with a sprayed password solves the most expensive
// challenge, right or wrong: its owner can get no verification code.
func (v *view) asksSprayed() bool {
	return v.hardest && v.Sprayed && !v.Known() && v.in&withCode == 0 && !v.rules.policy.Spray.Monitor
}

// modeAsks reports whether CAPTCHA mode asks for a challenge.
func (v *view) modeAsks() bool { return v.mode.on && !v.Known() && v.listed.verdict != Allowed }

// asks reports whether every unknown client at this address has to solve a challenge.
func (v *view) asks() bool { return v.modeAsks() || v.listed.asks() && !v.Known() }

// challengesAll reports whether the attempt is stopped unless its client is known: it brings
// neither a solution nor a verification code.
func (v *view) challengesAll() bool { return v.asks() && v.in&(withSolution|withCode) == 0 }

// accountFailures is how many failures of unknown clients the account had; 0 if the client is
// known.
func (v *view) accountFailures() int {
	if s := v.Subject(OnAccount); s != nil {
		return int(s.Usage.Count)
	}
	return 0
}

// ownFailures is accountFailures, and 0 where these may be other accounts' (R6).
func (v *view) ownFailures() int {
	if s := v.Subject(OnAccount); s != nil && s.Usage.Shared {
		return 0
	}
	return v.accountFailures()
}

// full reports whether a subject that stops the attempt is full, and whether it stays full
// although every undecided attempt succeeds.
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
