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

// A likeness is what events that share a row have in common.
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

// A batch collects rows. It is not safe for concurrent use.
type batch struct {
	realm   string
	rows    []Row
	index   map[likeness]int // rows that events may still be merged into
	skipped int64            // events that found no room
	since   time.Time        // the first of those
}

func newBatch(realm string) *batch {
	return &batch{realm: realm, index: make(map[likeness]int)}
}

// add merges the event or makes it a row, and reports whether it made one.
// Without room for a row the event is only counted.
func (b *batch) add(e *guard.Event, ending events.Ending, room bool) bool {
	like := likenessOf(e, ending)
	if i, ok := b.index[like]; ok {
		b.rows[i].Count++
		return false
	}
	if !room {
		if b.skipped == 0 {
			b.since = e.At
		}
		b.skipped++
		return false
	}
	b.index[like] = len(b.rows)
	b.rows = append(b.rows, like.row(e.At, b.realm))
	return true
}

func (b *batch) empty() bool { return len(b.rows) == 0 && b.skipped == 0 }

// sealed returns the rows, the last of which counts what was skipped.
func (b *batch) sealed() []Row {
	if b.skipped == 0 {
		return b.rows
	}
	return append(b.rows, Row{
		At: b.since, Realm: b.realm, Kind: KindMore, Count: b.skipped,
		Detail: fmt.Sprintf("and %d more not written", b.skipped),
	})
}
