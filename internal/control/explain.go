package control

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"authguard/guard"
	"authguard/internal/accounts"
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
			e, other, directory, at = other, e, accounts.Directory, "at the public sign-in"
		}
		e.Notes = beside(&other, at)
	}
	if e.Account == "" {
		return e, directory, nil
	}
	standing, err := c.Accounts.Standing(ctx, e.Account)
	if note := standing.Note(); note != "" {
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
