package audit

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/times"
)

// The kinds of rows.
const (
	KindAttempt = "attempt" // decision is an events.Ending: "failed", "blocked" …
	KindMode    = "mode"    // CAPTCHA mode switched; decision is the new state
	KindAdmin   = "admin"   // an administrator's operation; decision is its code
	KindAttack  = "attack"  // an attack started or ended; decision is "started" or "ended", and count its attempts
	KindEvent   = "event"   // an event limit was reached, or is no longer reached
)

// A Row is one row of the audit log, for Count equal events.
type Row struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"`              // the first of them, in whole milliseconds
	Last     time.Time `json:"last,omitzero"`   // the last of them; zero for one
	Realm    string    `json:"realm,omitempty"` // empty for the default realm
	Kind     string    `json:"kind"`
	Decision string    `json:"decision,omitempty"`
	Account  string    `json:"account,omitempty"`
	// Address is "unknown" for an attempt without one, and empty if it does not apply. A sum of attempts has their common
	// network, or nothing.
	Address string `json:"address,omitempty"`
	Reasons string `json:"reasons,omitempty"` // codes, separated by commas
	Count   int64  `json:"count"`
	Who     string `json:"who,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// A likeness is what events in one row have in common.
type likeness struct {
	realm       string
	ending      events.Ending
	account     string
	address     netip.Addr
	integration string
	reasons     string
	known       bool
	device      bool
	novel       bool
	sprayed     bool
	limited     string // of an event limit: its name and subject
	client      uint32 // client fingerprint, if known
}

func likenessOf(e *guard.Event, ending events.Ending) likeness {
	return likeness{
		realm: realmOf(e.Realm), ending: ending, account: events.Escape(e.Account), address: e.Address.WithZone(""),
		integration: events.Escape(e.Integration),
		reasons:     events.Codes(e.Reasons), known: e.Known, device: e.AtDevice, novel: e.NewClient, sprayed: e.Sprayed &&
			ending == events.Failed, client: e.Identity,
	}
}

func (l likeness) row(at time.Time) Row {
	return Row{
		At: at, Realm: l.realm, Kind: KindAttempt, Decision: l.ending.String(),
		Account: l.account, Address: events.AddressText(l.address), Reasons: l.reasons, Count: 1, Detail: l.detail(),
	}
}

// limitOf returns the likeness of an event limit.
func limitOf(e *guard.Event) likeness {
	l := likenessOf(e, events.Refused)
	l.integration, l.limited = "event "+e.Limited, "event "+e.Limited+": "+events.LimitText(e)
	if e.Subject != "" {
		l.limited += ", subject " + e.Subject
	}
	if e.Edge == guard.Over {
		l.limited += fmt.Sprintf("; %d exceeded it", e.Count)
	}
	return l
}

func limitRow(e *guard.Event, l likeness) Row {
	row := l.row(e.At)
	row.Kind, row.Decision = KindEvent, "reached"
	if e.Edge == guard.Over {
		row.Decision = "quiet"
	}
	if !e.Address.IsValid() {
		row.Address = ""
	}
	return row
}

// The suffixes of Detail for a known client: by device cookie, or by IP address.
const (
	knownDevice = ", known device"
	knownClient = ", known client"
	// sprayedPassword marks a sprayed password, wrong or right but rejected (R28), without revealing which.
	sprayedPassword = ", sprayed password"
	// ofClient precedes the client fingerprint in eight hexadecimal digits.
	ofClient = ", client "
	// summedUp marks a sum of attempts beyond perMinute. The column part looks for it.
	summedUp = ", summed up"
)

func (l likeness) detail() string {
	at := l.integration
	if l.client != 0 {
		at += fmt.Sprintf("%s%08x", ofClient, l.client)
	}
	switch {
	case l.limited != "":
		return l.limited
	case l.device:
		return at + knownDevice
	case l.known:
		return at + knownClient
	case l.novel:
		return at + ", unknown client"
	case l.sprayed:
		return at + sprayedPassword
	default:
		return at
	}
}

// Note returns what Detail says of an attempt's client besides the integration and the fingerprint: "unknown client".
func (r Row) Note() string {
	_, note, _ := strings.Cut(strings.TrimSuffix(r.Detail, summedUp), ", ")
	if identity := r.Identity(); identity != "" {
		note = strings.TrimPrefix(strings.TrimPrefix(note, "client "+identity), ", ")
	}
	return note
}

// Identity returns the client fingerprint in eight hexadecimal digits; empty if unknown.
func (r Row) Identity() string {
	_, rest, ok := strings.Cut(r.Detail, ofClient)
	if !ok || r.Kind != KindAttempt || len(rest) < 8 {
		return ""
	}
	return rest[:8]
}

func switchRow(s events.ModeSwitch) Row {
	per := map[bool]string{true: "day", false: "minute"}[s.Cause == events.CauseDaily]
	detail := fmt.Sprintf("from %s; failure rate %s a %s, threshold %s", s.From, events.Rate(s.FailureRate), per,
		events.Rate(s.Threshold))
	if s.Would != "" {
		detail += "; would be " + s.Would + " (monitored)"
	}
	if s.Why != "" {
		detail += "; " + events.Escape(s.Why)
	}
	return Row{
		At: s.At, Realm: realmOf(s.Realm), Kind: KindMode, Decision: s.To, Reasons: s.Cause, Count: 1,
		Who: events.Escape(s.Who), Detail: detail,
	}
}

// attackRow has the numbers of an attack's record when it started or ended.
func attackRow(a attacks.Attack) Row {
	row := Row{At: a.Began, Realm: realmOf(a.Realm), Kind: KindAttack, Decision: "started", Count: a.Attempts}
	span := "since " + times.Text(a.Began.UTC())
	if !a.Running() {
		row.At, row.Decision = a.Ended, "ended"
		span = "from " + times.Text(a.Began.UTC()) + " to " + times.Text(a.Last.UTC())
	}
	switch a.Kind {
	case attacks.Account:
		row.Account = a.Subject
	case attacks.Address:
		row.Address = a.Subject
	}
	row.Detail = fmt.Sprintf("attack %s (%s) %s; addresses %d, accounts %d, compromised %d", a.ID, a.Kind,
		span, a.Addresses, a.Accounts, a.Lost)
	if a.PartOf != "" {
		row.Detail += "; continued as " + a.PartOf
	}
	return row
}

// A batch collects rows. It is not safe for concurrent use.
type batch struct {
	rows  []Row
	index map[likeness]int // rows that can still merge events
}

func newBatch() *batch { return &batch{index: make(map[likeness]int)} }

func (b *batch) merge(like likeness, at time.Time) bool {
	i, ok := b.index[like]
	if ok {
		b.rows[i].again(at)
	}
	return ok
}

func (b *batch) add(like likeness, at time.Time) {
	b.index[like] = len(b.rows)
	b.rows = append(b.rows, like.row(at))
}

// again counts one more event, which may be older than the first.
func (r *Row) again(at time.Time) {
	r.Count++
	switch {
	case at.Before(r.At):
		r.At, r.Last = at, cmp.Or(r.Last, r.At)
	case at.After(r.Last):
		r.Last = at
	}
}

// perMinute is each ending's quota of rows per minute and node. Further events are summed up, so that invented names
// and many IP addresses cannot fill the table (R31).
func perMinute(e events.Ending) int {
	switch e {
	case events.Succeeded:
		return 60 * mostRows
	case events.Failed:
		return 600
	}
	return 60
}

// mostSums limits the networks with their own sum. The others share one row per ending and integration.
const mostSums = 32

// sums are the rows of events beyond perMinute. Not safe for concurrent use; create with newSums.
type sums struct {
	rows  []Row
	index map[sumKey]int
}

type sumKey struct {
	realm       string
	ending      events.Ending
	integration string
	network     netip.Prefix
}

func newSums() sums { return sums{index: make(map[sumKey]int)} }

func (s *sums) add(like likeness, at time.Time) {
	key := sumKey{like.realm, like.ending, like.integration, networkOf(like.address)}
	i, ok := s.index[key]
	if !ok && len(s.rows) >= mostSums {
		key.network = netip.Prefix{}
		i, ok = s.index[key]
	}
	if !ok {
		i, s.index[key] = len(s.rows), len(s.rows)
		s.rows = append(s.rows, like.row(at))
		s.rows[i].Count, s.rows[i].Detail = 0, like.integration+summedUp
	}
	one, row := &s.rows[i], like.row(at)
	one.again(at)
	if one.Account != row.Account {
		one.Account = ""
	}
	if one.Reasons != row.Reasons {
		one.Reasons = ""
	}
	if one.Address != row.Address {
		one.Address = networkText(key.network)
	}
}

// networkOf returns the IPv4 /24 or IPv6 /48 around an IP address; invalid for none.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 48
	if a.Is4() {
		bits = 24
	}
	network, _ := a.Prefix(bits)
	return network
}

func networkText(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}
