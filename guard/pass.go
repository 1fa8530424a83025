package guard

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/trusted"
)

// Passes know the one-time codes that let a stranger's place in (R29). A good
// one lifts what stops strangers: the account's rungs, whatever asks for a
// challenge, and the rule on passwords that somebody sprays. The delay of the
// pair, the refusal of an address that guesses and an administrator's block
// stay, and the password is needed all the same. Both methods are safe for
// concurrent use; with several nodes, what they change is changed for all.
type Passes interface {
	// Show reports whether a code is good for the account at the place, and
	// counts one of the code's few tries. The first place that shows a code is
	// the only one that it lets in. An error means that the store failed.
	Show(ctx context.Context, p Pass) (good bool, err error)
	// Settle says how an attempt ended that Show found good: Succeeded uses the
	// place's codes up, Abandoned and Withdrawn give the try back, since no
	// password was looked at. The Pass has no code then.
	Settle(ctx context.Context, p Pass, o Outcome) error
}

// A Pass is a one-time code on its way from the attempt to Passes.
type Pass struct {
	Account string      // normalised and canonical
	Place   trusted.Key // the digest of the address
	Code    string      // as it was typed
	Now     time.Time   // the guard's clock
}

// TakesPasses reports whether there are any: a page asks for a code only then.
func (g *Guard) TakesPasses() bool { return g.config.Codes != nil }

// PassFor is a pass without a code, for whoever makes codes: the account that a
// name as it was typed stands for, and the place. The error is ErrAccountName.
func (g *Guard) PassFor(account string, address netip.Addr) (Pass, error) {
	var v view
	if err := g.name(&v, &Attempt{Account: account}); err != nil {
		return Pass{}, err
	}
	return Pass{Account: v.name, Place: g.digests.addressKey(address), Now: g.config.Now()}, nil
}

func (v *view) pass(a *Attempt) Pass {
	return Pass{Account: v.name, Place: v.from.address, Code: a.VerificationCode, Now: v.Now}
}

// checkPass finds out whether the verification code is valid; v.code says so. If it is not,
// nothing stays charged to the account, so that made-up codes do not block it; but a guessed code
// is a guess, and the IP address is charged for it. The attempt is then to be decided as if it had
// brought none.
func (g *Guard) checkPass(ctx context.Context, a *Attempt, v *view) error {
	valid, err := g.config.Codes.Show(ctx, v.pass(a))
	if err != nil {
		return errors.Join(fmt.Errorf("guard: checking a verification code: %w", err), g.withdraw(ctx, &v.Charge))
	}
	if valid {
		v.code = codeValid
		return nil
	}
	guessed, withdrawn := v.Charge, v.Charge
	for i := range v.Subjects() {
		if s := &v.Subjects()[i]; s.rule.ofAddress() {
			withdrawn.Subjects()[i].For = 0
		} else {
			guessed.Subjects()[i].For = 0
		}
	}
	v.code, v.in = codeInvalid, v.in&^withCode
	v.Status, v.AtDevice = trusted.Stranger, false
	g.subjects(a.Fingerprint, v)
	g.config.Mode.Observe(captchamode.Failure, v.from.address)
	if err := g.config.Store.Settle(afterwards(ctx), guessed, Failed); err != nil {
		return fmt.Errorf("guard: charging a wrong code: %w", err)
	}
	return g.withdraw(ctx, &withdrawn)
}

// settlePass says how the attempt of a valid code ended. The login does not wait
// for a code that cannot be used up: it is good for this client only, which is
// known from now on, and not for long.
func (g *Guard) settlePass(ctx context.Context, t *Ticket, o Outcome) {
	if !t.flags.has(flagPassed) || g.config.Codes == nil || o == Failed {
		return
	}
	p := Pass{Account: t.login.name, Place: t.from.address, Now: g.config.Now()}
	if err := g.config.Codes.Settle(afterwards(ctx), p, o); err != nil {
		g.config.Failed(fmt.Errorf("guard: settling a verification code: %w", err))
	}
}
