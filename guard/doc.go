// Package guard decides login attempts.
//
// [Guard.Begin] charges the attempt as if it had failed, and decides whether the password may be checked. The caller
// reports the outcome with [Guard.Settle]; an attempt that is never settled has failed. [Guard.Login] does both.
//
//	d, err := g.Begin(ctx, guard.Attempt{Account: name, Address: addr})
//	if err != nil || d.Action != guard.Proceed {
//		… // answer with a delay, a challenge or an error
//	}
//	ok := checkPassword()
//	g.Settle(ctx, d.Ticket, guard.OutcomeOf(ok))
//
// The package has the policy and the order of the steps. Package failures counts, captchamode has the site-wide mode,
// and trusted the known clients. There is no HTTP, SQL or Redis here.
package guard
