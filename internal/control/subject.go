package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/operation"
	"authguard/trusted"
)

// Explain returns why a client can or cannot sign in. It changes nothing. The error is ErrAsked without account and
// address, and guard.ErrAccountName for an invalid name.
func (c *Control) Explain(ctx context.Context, account string, address netip.Addr) (guard.Explanation, error) {
	if account == "" && !address.IsValid() {
		return guard.Explanation{}, fmt.Errorf("%w: enter an account, an IP address or both", operation.ErrAsked)
	}
	e, _, err := c.explain(ctx, account, address)
	return e, err
}

// explain is Explain for the directory in which the account is treated worse. The other guard's state is in the notes.
func (c *Control) explain(
	ctx context.Context, account string, address netip.Addr,
) (e guard.Explanation, directory string, err error) {
	if e, err = c.config.Guard.Explain(ctx, account, address); err != nil {
		return e, "", err
	}
	if c.config.Administration != nil {
		other, err := c.config.Administration.Explain(ctx, account, address)
		if err != nil {
			return e, "", err
		}
		at := "at the administration's sign-in"
		if worse(&other, &e) {
			e, other, directory, at = other, e, adminDirectory, "at the public sign-in"
		}
		e.Notes = beside(&other, at)
	}
	if e.Account == "" {
		return e, directory, nil
	}
	standing, err := c.Standing(ctx, e.Account)
	if note := standing.note(); note != "" {
		e.Notes = append(e.Notes, note)
	}
	return e, directory, err
}

// worse compares two accounts of one name. One with a failure or a known client comes first; of two such, the one with
// the stricter decision.
func worse(e, than *guard.Explanation) bool {
	if known(e) && known(than) {
		return e.Decision.Action < than.Decision.Action // Block comes first, Proceed last
	}
	return known(e)
}

func known(e *guard.Explanation) bool {
	return e.Status != trusted.Unknown || slices.ContainsFunc(e.Lines, func(l guard.Line) bool {
		return l.Used > 0 && (l.Subject == guard.OnAccount || l.Subject == guard.OnPair)
	})
}

// beside describes the same subjects' state at the other guard; empty if it has none.
func beside(e *guard.Explanation, at string) (notes []string) {
	for _, l := range e.Lines {
		if l.Used > 0 {
			notes = append(notes, at+": "+l.String())
		}
	}
	if len(notes) > 0 || e.Status != trusted.Unknown {
		notes = slices.Insert(notes, 0, at+": "+lowerFirst(strings.TrimSuffix(e.Summary(), ".")))
	}
	return notes
}

// Unknown returns a note if no account has this name. It is empty for no name, and for accounts only an app knows.
func (c *Control) Unknown(ctx context.Context, account string) (note string, err error) {
	if account == "" {
		return "", nil
	}
	name, err := c.Canonical(account)
	if err != nil {
		return "", err
	}
	standing, err := c.Standing(ctx, name)
	if standing.State == NoAccount {
		note = standing.note()
	}
	return note, err
}

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
func (q Unlock) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
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
		return c.unlockNetwork(ctx, q.Network)
	case q.Event != "":
		return c.unlockEvent(ctx, q.Event, guard.Subjects{Account: account, Address: address, Subject: q.Subject})
	case account == "" && !address.IsValid():
		return nil, fmt.Errorf("%w: enter an account, an IP address or both", operation.ErrAsked)
	}
	note, err := c.Unknown(ctx, account)
	if err == nil && account != "" {
		account, err = c.Canonical(account)
	}
	if err != nil {
		return nil, err
	}
	if err := c.atAll(func(g *guard.Guard) error { return g.Unlock(ctx, account, address) }); err != nil {
		return nil, err
	}
	change := &operation.Change{Action: actionOn(account, address)}
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
		change.Also, err = RemoveKnownClients{Account: account, Address: q.Address}.Do(ctx, c, by)
	}
	return change, err
}

func (c *Control) unlockNetwork(ctx context.Context, text string) (*operation.Change, error) {
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
	if err := c.atAll(func(g *guard.Guard) error { return g.UnlockNetwork(ctx, network.Addr()) }); err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: network.String()},
		Notice: operation.Notice{Text: "Failure counters reset: network", Subject: network.String(),
			Note: noUndoCounters}}, nil
}

const noUndoCounters = "No undo: the counted failures are deleted."

// unlockEvent resets an event's counters. The audit log does not get the subject's text.
func (c *Control) unlockEvent(ctx context.Context, event string, s guard.Subjects) (*operation.Change, error) {
	if s.Account == "" && s.Subject == "" && !s.Address.IsValid() {
		return nil, fmt.Errorf("%w: enter an account, an IP address or a subject of the event", operation.ErrAsked)
	}
	if err := c.config.Guard.UnlockEvent(ctx, event, s); err != nil {
		return nil, c.noEvent(event, err)
	}
	a := actionOn(s.Account, s.Address)
	a.Detail = strings.TrimSpace("event " + event + " " + a.Detail)
	return &operation.Change{Action: a}, nil
}

// RemoveKnownClients removes an IP address from an account's known clients or, without one, all known clients and
// device cookies (R14).
type RemoveKnownClients struct {
	Account string `json:"account"`
	Address string `json:"address"`
	operation.Because
}

// May implements the check of a Request.
func (q RemoveKnownClients) May(ctx context.Context, p operation.Powers, by operation.By) error {
	return p.MayUnlock(ctx, by, q.Account)
}

// Do implements Request.
func (q RemoveKnownClients) Do(ctx context.Context, c *Control, _ operation.By) (*operation.Change, error) {
	account := strings.TrimSpace(q.Account)
	if account == "" {
		return nil, fmt.Errorf("%w: enter the account whose known clients to remove", operation.ErrAsked)
	}
	address, err := operation.AddressOf(q.Address)
	if err == nil {
		account, err = c.Canonical(account)
	}
	if err != nil {
		return nil, err
	}
	if err := c.forget(ctx, account, address); err != nil {
		return nil, err
	}
	change := &operation.Change{Action: actionOn(account, address),
		Notice: operation.Notice{Text: "All known clients removed:", Subject: account,
			Note: "No undo: a client becomes known again at its next sign-in."}}
	change.What = "known-clients-remove"
	if address.IsValid() {
		change.Notice.Text = "Known IP address " + address.String() + " removed:"
	}
	return change, nil
}

func (c *Control) forget(ctx context.Context, account string, address netip.Addr) error {
	return c.atAll(func(g *guard.Guard) error { return g.RemoveKnownClients(ctx, account, address) })
}

func (c *Control) atAll(do func(*guard.Guard) error) error { return each(c.guards(), do) }

func each(guards []*guard.Guard, do func(*guard.Guard) error) (err error) {
	for _, g := range guards {
		err = errors.Join(err, do(g))
	}
	return err
}

func (c *Control) guards() []*guard.Guard {
	return append(c.guardsOf(""), c.guardsOf(adminDirectory)...)
}

// guardsOf returns the guards that count the accounts of a directory.
func (c *Control) guardsOf(directory string) (all []*guard.Guard) {
	if directory != "" {
		if c.config.Administration != nil {
			all = append(all, c.config.Administration)
		}
		return all
	}
	all = append(all, c.config.Guard)
	if c.config.Others != nil {
		all = append(all, c.config.Others()...)
	}
	return all
}

// guardOf returns the guard where an account of a directory signs in.
func (c *Control) guardOf(directory string) *guard.Guard {
	return append(c.guardsOf(directory), c.config.Guard)[0]
}

// Canonical returns the normalized user name, also for an email address. The error is guard.ErrAccountName.
func (c *Control) Canonical(account string) (string, error) {
	name, err := c.config.Guard.Normalise(account)
	if err != nil {
		return "", err
	}
	return c.config.Accounts.Canonical(name), nil
}

func actionOn(account string, address netip.Addr) operation.Action {
	a := operation.Action{Subject: account}
	switch {
	case !address.IsValid():
	case account == "":
		a.Subject = address.String()
	default:
		a.Detail = "at " + address.String()
	}
	return a
}
