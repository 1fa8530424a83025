package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/events"
)

// Explain tells why somebody can or cannot log in. It changes nothing. The
// error is ErrAsked if neither account nor address is given, and
// guard.ErrAccountName for a name that is none.
func (c *Control) Explain(ctx context.Context, account string, address netip.Addr) (guard.Explanation, error) {
	if account == "" && !address.IsValid() {
		return guard.Explanation{}, fmt.Errorf("%w: enter an account, an IP address or both", ErrAsked)
	}
	e, err := c.config.Guard.Explain(ctx, account, address)
	if err != nil || e.Account == "" {
		return e, err
	}
	standing, err := c.Standing(ctx, e.Account)
	if note := standing.note(); note != "" {
		e.Notes = append(e.Notes, note)
	}
	return e, err
}

// Unknown says so if there is no account of this name: a typing mistake. It says nothing
// of no name, and nothing where only an app knows.
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

// Unlock forgets the failures of an account, an address or, with both, also of
// the pair; either may be missing, and so may why. The error is ErrAsked if both are, and
// guard.ErrAccountName for a name that is none.
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

// UnlockNetwork forgets the failures of a network as the guard counts it: an IPv4 /24 or an
// IPv6 /48. Those of the addresses in it stay. The error is ErrAsked for any other range.
func (c *Control) UnlockNetwork(ctx context.Context, who string, network netip.Prefix, why string) error {
	why, err := reason(why)
	if err != nil {
		return err
	}
	if _, counted := events.PrefixesOf(network.Addr()); !network.IsValid() || counted != network {
		return fmt.Errorf("%w: failures are counted per network of one size; write it like 203.0.113.0/24 or 2001:db8:1::/48", ErrAsked)
	}
	if err := c.atAll(func(g *guard.Guard) error { return g.UnlockNetwork(ctx, network.Addr()) }); err != nil {
		return err
	}
	return c.record(ctx, audit.Action{Who: who, What: "unlock", Subject: network.String(), Why: why})
}

// ForgetPlaces makes an address a stranger to an account again or, without an
// address, every place and device of the account (R14); why may be empty.
func (c *Control) ForgetPlaces(ctx context.Context, who, account string, address netip.Addr, why string) error {
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

// forget forgets places wherever there are some.
func (c *Control) forget(ctx context.Context, account string, address netip.Addr) error {
	return c.atAll(func(g *guard.Guard) error { return g.ForgetPlaces(ctx, account, address) })
}

// atAll does something at the guard, and at those beside it.
func (c *Control) atAll(do func(*guard.Guard) error) error {
	err := do(c.config.Guard)
	if c.config.Others != nil {
		for _, g := range c.config.Others() {
			err = errors.Join(err, do(g))
		}
	}
	return err
}

// Canonical is the one form of an account's name: normalised, and the user name
// where an e-mail address was given. The error is guard.ErrAccountName.
func (c *Control) Canonical(account string) (string, error) {
	name, err := c.config.Guard.Normalise(account)
	if err != nil {
		return "", err
	}
	return c.config.Accounts.Canonical(name), nil
}

// actionOn is recorded under the account if there is one.
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
