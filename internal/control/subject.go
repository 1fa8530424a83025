package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/events"
	"authguard/trusted"
)

// Explain returns why a client can or cannot sign in. It changes nothing. The error is ErrAsked without account and
// address, and guard.ErrAccountName for an invalid name.
func (c *Control) Explain(ctx context.Context, account string, address netip.Addr) (guard.Explanation, error) {
	if account == "" && !address.IsValid() {
		return guard.Explanation{}, fmt.Errorf("%w: enter an account, an IP address or both", ErrAsked)
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

// Unlock resets the failures of an account, an IP address or, with both, also of the pair. why may be empty. Errors are
// ErrAsked without both, and guard.ErrAccountName.
func (c *Control) Unlock(ctx context.Context, who, account string, address netip.Addr, why string) (err error) {
	if account == "" && !address.IsValid() {
		return fmt.Errorf("%w: enter an account, an IP address or both", ErrAsked)
	}
	if why, err = reason(why); err != nil {
		return err
	}
	if account != "" {
		if account, err = c.Canonical(account); err != nil {
			return err
		}
	}
	if err := c.atAll(func(g *guard.Guard) error { return g.Unlock(ctx, account, address) }); err != nil {
		return err
	}
	return c.record(ctx, actionOn(who, "unlock", account, address, why))
}

// UnlockNetwork resets the failures of a network that the guard counts, an IPv4 /24 or IPv6 /48, but not of the IP
// addresses in it. The error is ErrAsked for any other range.
func (c *Control) UnlockNetwork(ctx context.Context, who string, network netip.Prefix, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if _, counted := events.PrefixesOf(network.Addr()); !network.IsValid() || counted != network {
		return fmt.Errorf("%w: failures are counted per network of one size; write it like 203.0.113.0/24 or 2001:db8:1::/48",
			ErrAsked)
	}
	if err := c.atAll(func(g *guard.Guard) error { return g.UnlockNetwork(ctx, network.Addr()) }); err != nil {
		return err
	}
	return c.record(ctx, audit.Action{Who: who, What: "unlock", Subject: network.String(), Why: why})
}

// RemoveKnownClients removes an IP address from an account's known clients or, without one, all known clients and
// device cookies (R14). why may be empty.
func (c *Control) RemoveKnownClients(ctx context.Context, who, account string, address netip.Addr, why string) error {
	if account == "" {
		return fmt.Errorf("%w: enter the account whose known clients to remove", ErrAsked)
	}
	why, err := reason(why)
	if err != nil {
		return err
	}
	if account, err = c.Canonical(account); err != nil {
		return err
	}
	if err := c.forget(ctx, account, address); err != nil {
		return err
	}
	return c.record(ctx, actionOn(who, "known-clients-remove", account, address, why))
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

func actionOn(who, what, account string, address netip.Addr, why string) audit.Action {
	a := audit.Action{Who: who, What: what, Subject: account, Why: why}
	switch {
	case !address.IsValid():
	case account == "":
		a.Subject = address.String()
	default:
		a.Detail = "at " + address.String()
	}
	return a
}
