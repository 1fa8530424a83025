// Package guard decides what becomes of a login attempt.
//
// [Guard.Begin] charges the attempt as if it had failed and says whether the
// password may be checked. The caller then says with [Guard.Settle] how the
// attempt ended; an attempt that is never settled has failed. [Guard.Login]
// does both around a function and cannot forget.
//
//	d, err := g.Begin(ctx, guard.Attempt{Account: name, Address: addr})
//	if err != nil || d.Action != guard.Proceed {
//		… // tell them to wait, to solve a challenge, or no
//	}
//	ok := checkPassword()
//	g.Settle(ctx, d.Ticket, guard.OutcomeOf(ok))
//
// The package holds the policy and the order of things. Counting is done by
// package failures, the site-wide mode by captchamode, places by trusted;
// there is no HTTP, SQL or Redis here.
package guard
