package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/trusted"
)

// An Explanation is what the guard knows of an account, an address or both, and
// the same in words.
type Explanation struct {
	guard.Explanation
	// Summary is what would happen to the next attempt, in one sentence.
	Summary string
	// Open: it would be let through to its password.
	Open bool
	// Words are the reasons, and what else explains it, a sentence each.
	Words []string
}

// Explain tells why somebody can or cannot log in. It changes nothing. The
// error is ErrAsked if neither account nor address is given, and
// guard.ErrAccountName for a name that is none.
func (c *Control) Explain(ctx context.Context, account string, address netip.Addr) (Explanation, error) {
	if account == "" && !address.IsValid() {
		return Explanation{}, fmt.Errorf("%w: name an account, an address or both", ErrAsked)
	}
	known, err := c.config.Guard.Explain(ctx, account, address)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Explanation: known, Open: known.Decision.Action == guard.Proceed}
	e.Summary = summary(&known.Decision)
	for _, r := range known.Decision.Reasons.All() {
		e.Words = append(e.Words, r.String())
	}
	more, err := c.moreOf(ctx, &known)
	e.Words = append(e.Words, more...)
	return e, err
}

// summary is the decision in one sentence.
func summary(d *guard.Decision) string {
	switch d.Action {
	case guard.Proceed:
		return "The next attempt would be let through to its password."
	case guard.Challenge:
		return "The next attempt would be asked to solve a CAPTCHA before its password is looked at."
	case guard.Wait:
		return "The next attempt would have to wait " + waitWords(d.RetryAfter) + "."
	}
	if d.RetryAfter <= 0 {
		return "The next attempt would be refused, whatever its password."
	}
	return "The next attempt would be refused, whatever its password. There is room again in " + waitWords(d.RetryAfter) + "."
}

// waitWords rounds up: whoever waits for as long as it says has waited long
// enough.
func waitWords(d time.Duration) string {
	for _, unit := range []struct {
		size, below time.Duration
		name        string
	}{{time.Second, 90 * time.Second, "second"}, {time.Minute, 90 * time.Minute, "minute"}, {time.Hour, 1 << 62, "hour"}} {
		if d > unit.below {
			continue
		}
		n := (max(d, 1) + unit.size - 1) / unit.size
		if n == 1 {
			return "1 " + unit.name
		}
		return fmt.Sprintf("%d %ss", n, unit.name)
	}
	return d.String()
}

// moreOf is what the guard does not know or not say: the place and the account
// itself.
func (c *Control) moreOf(ctx context.Context, e *guard.Explanation) (words []string, err error) {
	if e.Account == "" {
		return nil, nil
	}
	if e.Address.IsValid() {
		words = append(words, placeWords(e.Status))
	}
	account, err := c.config.Accounts.Get(ctx, e.Account)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		return append(words, "authguard's own account table has no account of this name"), nil
	case err != nil:
		return words, err
	case account.Disabled:
		words = append(words, "the account is disabled, so even its right password looks wrong")
	case account.MustChange:
		words = append(words, "the account's password is good for choosing another one only")
	}
	return words, nil
}

func placeWords(s trusted.Status) string {
	switch s {
	case trusted.Privileged:
		return "the address is a known place of this account"
	case trusted.Spent:
		return "the address was a known place of this account until too many wrong passwords came from it"
	}
	return "nobody has logged in to this account from this address before"
}
