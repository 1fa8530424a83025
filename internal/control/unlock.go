package control

import (
	"context"
	"fmt"
	"net/netip"

	"authguard/internal/audit"
)

// Unlock forgets the failures of an account, an address or, with both, also of
// the pair; either may be missing. The error is ErrAsked if both are, and
// guard.ErrAccountName for a name that is none.
func (c *Control) Unlock(ctx context.Context, who, account string, address netip.Addr) error {
	account, err := c.subject(account, address)
	if err != nil {
		return err
	}
	if err := c.config.Guard.Unlock(ctx, account, address); err != nil {
		return err
	}
	return c.record(ctx, actionOn(who, "unlock", account, address))
}

// ForgetPlaces makes an address a stranger to an account again or, without an
// address, every place and device of the account (R14).
func (c *Control) ForgetPlaces(ctx context.Context, who, account string, address netip.Addr) error {
	if account == "" {
		return fmt.Errorf("%w: name the account whose places are to be forgotten", ErrAsked)
	}
	account, err := c.subject(account, address)
	if err != nil {
		return err
	}
	if err := c.config.Guard.ForgetPlaces(ctx, account, address); err != nil {
		return err
	}
	return c.record(ctx, actionOn(who, "forget-places", account, address))
}

// subject is the account in the form in which it is counted.
func (c *Control) subject(account string, address netip.Addr) (string, error) {
	if account == "" {
		if !address.IsValid() {
			return "", fmt.Errorf("%w: name an account, an address or both", ErrAsked)
		}
		return "", nil
	}
	return c.Canonical(account)
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

// actionOn is on record under the account if there is one.
func actionOn(who, what, account string, address netip.Addr) audit.Action {
	a := audit.Action{Who: who, What: what, Subject: account}
	switch {
	case !address.IsValid():
	case account == "":
		a.Subject = address.String()
	default:
		a.Detail = "at " + address.String()
	}
	return a
}
