package guard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"

	"authguard/trusted"
)

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
			trusted.Privileged: "the address is a known client of this account",
			trusted.Spent:      "the address was a known client of this account until too many wrong passwords came from it",
			trusted.Stranger:   "the address is an unknown client for this account",
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
		wire.Place = map[trusted.Status]string{trusted.Privileged: "known", trusted.Spent: "spent",
			trusted.Stranger: "unknown"}[e.Status]
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
