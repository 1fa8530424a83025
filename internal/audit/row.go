package audit

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// The kinds of rows.
const (
	KindAttempt = "attempt" // decision is an events.Ending: "failed", "refused" …
	KindMode    = "mode"    // CAPTCHA mode switched; decision is the new state
	KindAdmin   = "admin"   // an administrator did something; decision is what
	KindMore    = "more"    // count events that got no rows of their own
)

// A Row is one row of the audit log: something that happened Count times.
type Row struct {
	ID       int64     `json:"id"`
	At       time.Time `json:"at"` // the first of them, in whole milliseconds
	Realm    string    `json:"-"`
	Kind     string    `json:"kind"`
	Decision string    `json:"decision,omitempty"`
	Account  string    `json:"account,omitempty"`
	Address  string    `json:"address,omitempty"` // "unknown" if the attempt had none; "" if none applies
	Reasons  string    `json:"reasons,omitempty"` // codes, separated by commas
	Count    int64     `json:"count"`
	Who      string    `json:"who,omitempty"`
	Detail   string    `json:"detail,omitempty"`
}

// A likeness is what events have in common that share a row.
type likeness struct {
	ending  events.Ending
	account string
	address netip.Addr
	door    string
	reasons string
	known   bool
	novel   bool
}

func likenessOf(e *guard.Event, ending events.Ending) likeness {
	return likeness{
		ending: ending, account: events.Escape(e.Account), address: e.Address.WithZone(""), door: events.Escape(e.Door),
		reasons: strings.Join(e.Reasons.Codes(), ","), known: e.Privileged, novel: e.NewPlace,
	}
}

func (l likeness) row(at time.Time, realm string) Row {
	return Row{
		At: at, Realm: realm, Kind: KindAttempt, Decision: l.ending.String(),
		Account: l.account, Address: events.AddressText(l.address), Reasons: l.reasons, Count: 1, Detail: l.detail(),
	}
}

func (l likeness) detail() string {
	switch {
	case l.known:
		return l.door + ", privileged place"
	case l.novel:
		return l.door + ", new place"
	default:
		return l.door
	}
}

func switchRow(s events.ModeSwitch, realm string) Row {
	detail := fmt.Sprintf("from %s; %.4g failures per minute, threshold %.4g", s.From, s.Pressure, s.Threshold)
	if s.Why != "" {
		detail += "; " + events.Escape(s.Why)
	}
	return Row{
		At: s.At, Realm: realm, Kind: KindMode, Decision: s.To, Reasons: s.Cause, Count: 1,
		Who: events.Escape(s.Who), Detail: detail,
	}
}
