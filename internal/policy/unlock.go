package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/events"
	"authguard/internal/operation"
)

// Unlock resets the failures of an account, an IP address or, with both, also of the pair; or of a network that the guard
// counts, but not of the IP addresses in it; or of an event. With Known it also removes known clients (at an IP address).
type Unlock struct {
	Account string `json:"account" help:"Account to reset"`
	Address string `json:"address" help:"IP address to reset; with --account also the pair"`
	Network string `json:"network" placeholder:"CIDR" help:"Network to reset: IPv4 /24 or IPv6 /48"`
	Event   string `json:"event" help:"Event to reset instead of logins"`
	Subject string `json:"subject" help:"With --event: the subject that it counts by"`
	Known   bool   `json:"known_clients" name:"known-clients" help:"Remove known clients as well: at --address, or all"`
	operation.Because
}

// May implements the check of a Request.
func (q Unlock) May(ctx context.Context, p operation.Powers, by operation.By) error {
	return p.MayUnlock(ctx, by, q.Account)
}

// Validate checks the flags of a command.
func (q Unlock) Validate() error {
	switch {
	case q.Event == "" && q.Network == "" && q.Account == "" && q.Address == "":
		return errors.New("missing subject: give --account NAME, --address IP or both, or --network CIDR")
	case q.Known && q.Account == "":
		return errors.New("--known-clients needs --account, because known clients belong to an account")
	}
	return nil
}

// Do implements Request.
func (q Unlock) Do(ctx context.Context, l *Limits, by operation.By) (*operation.Change, error) {
	address, err := operation.AddressOf(q.Address)
	account := strings.TrimSpace(q.Account)
	switch {
	case err != nil:
		return nil, err
	case q.Known && account == "":
		return nil, fmt.Errorf("%w: known_clients: requires an account; known clients belong to an account",
			operation.ErrAsked)
	case q.Network != "" && (account != "" || q.Address != "" || q.Event != "" || q.Known):
		return nil, fmt.Errorf("%w: network: cannot be combined with other fields", operation.ErrAsked)
	case q.Network != "":
		return l.unlockNetwork(ctx, q.Network)
	case q.Event != "":
		return l.unlockEvent(ctx, q.Event, guard.Subjects{Account: account, Address: address, Subject: q.Subject})
	case account == "" && !address.IsValid():
		return nil, fmt.Errorf("%w: enter an account, an IP address or both", operation.ErrAsked)
	}
	note, err := l.Accounts.Unknown(ctx, account)
	if err == nil && account != "" {
		account, err = l.Accounts.Canonical(account)
	}
	if err != nil {
		return nil, err
	}
	if err := l.atAll(func(g *guard.Guard) error { return g.Unlock(ctx, account, address) }); err != nil {
		return nil, err
	}
	change := &operation.Change{Action: operation.On(account, address)}
	change.Notice = operation.Notice{Text: "Failure counters reset:", Subject: cmp.Or(account, address.String()),
		Note: noUndoCounters}
	switch {
	case account == "":
		change.Notice.Text = "Failure counters reset: IP address"
	case address.IsValid():
		change.Notice.Text = "Failure counters reset at " + address.String() + ":"
	case note != "":
		change.Notice.Text = "Failure counters reset (" + note + "):"
	}
	if note != "" {
		change.Answer = map[string]any{"ok": true, "note": note}
	}
	if q.Known {
		change.Also, err = accounts.RemoveKnownClients{Account: account, Address: q.Address}.Do(ctx, l.Accounts, by)
	}
	return change, err
}

// atAll resets counters of all guards.
func (l *Limits) atAll(do func(*guard.Guard) error) (err error) {
	for _, g := range append(l.Accounts.Guards(""), l.Accounts.Guards(accounts.Directory)...) {
		err = errors.Join(err, do(g))
	}
	return err
}

func (l *Limits) unlockNetwork(ctx context.Context, text string) (*operation.Change, error) {
	network, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("%w: network: %.60q is not a network; write it like 203.0.113.0/24 or 2001:db8:1::/48",
			operation.ErrAsked, text)
	}
	network = network.Masked()
	if _, counted := events.PrefixesOf(network.Addr()); counted != network {
		return nil, fmt.Errorf("%w: failures are counted per network of one size; write it like 203.0.113.0/24 or "+
			"2001:db8:1::/48", operation.ErrAsked)
	}
	if err := l.atAll(func(g *guard.Guard) error { return g.UnlockNetwork(ctx, network.Addr()) }); err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: network.String()},
		Notice: operation.Notice{Text: "Failure counters reset: network", Subject: network.String(),
			Note: noUndoCounters}}, nil
}

const noUndoCounters = "No undo: the counted failures are deleted."

// unlockEvent resets an event's counters. The audit log does not get the subject's text.
func (l *Limits) unlockEvent(ctx context.Context, event string, s guard.Subjects) (*operation.Change, error) {
	if s.Account == "" && s.Subject == "" && !s.Address.IsValid() {
		return nil, fmt.Errorf("%w: enter an account, an IP address or a subject of the event", operation.ErrAsked)
	}
	if err := l.Accounts.Guard("").UnlockEvent(ctx, event, s); err != nil {
		return nil, l.noEvent(event, err)
	}
	a := operation.On(s.Account, s.Address)
	a.Detail = strings.TrimSpace("event " + event + " " + a.Detail)
	return &operation.Change{Action: a}, nil
}

// An EventExplanation is the state of an event's limits.
type EventExplanation struct {
	Event  string       `json:"event"`
	Limits []guard.Line `json:"limits"`
	Words  []string     `json:"words"`
}

// ExplainEvent returns the state of an event's limits for the given subjects. It changes nothing. The error is ErrAsked
// for an event without limits.
func (l *Limits) ExplainEvent(ctx context.Context, event string, s guard.Subjects) (EventExplanation, error) {
	lines, err := l.Accounts.Guard("").ExplainEvent(ctx, event, s)
	e := EventExplanation{Event: event, Limits: append([]guard.Line{}, lines...), Words: []string{}}
	for _, line := range lines {
		e.Words = append(e.Words, line.String())
	}
	if len(lines) == 0 {
		e.Words = append(e.Words, "None of its limits counts by the given fields; use --account, --address or --subject.")
	}
	return e, l.noEvent(event, err)
}

func (l *Limits) noEvent(event string, err error) error {
	if !errors.Is(err, guard.ErrNoEvent) {
		return err
	}
	there := "none"
	if names := l.Accounts.Guard("").Policy().EventNames(); len(names) > 0 {
		there = strings.Join(names, ", ")
	}
	return fmt.Errorf("%w: the event %.40q has no limits; events with limits: %s", operation.ErrAsked, event, there)
}
