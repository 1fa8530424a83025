package control

import (
	"context"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/attacks"
)

const (
	// The default and the maximum number of attacks on a page.
	attacksShown = 20
	maxAttacks   = 1000
)

// Attacks is a page of the realm's attacks: the running ones, then the newest.
type Attacks struct {
	Attacks []attacks.Attack `json:"attacks"`
	Total   int              `json:"total"` // of all recorded attacks
	Page    int              `json:"page"`  // from 1
	Limit   int              `json:"limit"`
}

// Attacks returns one page of the list; limit 0 is 20.
func (c *Control) Attacks(ctx context.Context, page, limit int) (a Attacks, err error) {
	if limit <= 0 {
		limit = attacksShown
	}
	a.Limit, a.Page = min(limit, maxAttacks), max(page, 1)
	if a.Total, err = c.config.Attacks.Count(ctx, c.config.Realm); err != nil {
		return a, err
	}
	if a.Attacks, err = c.config.Attacks.List(ctx, c.config.Realm, (a.Page-1)*a.Limit, a.Limit); err != nil {
		return a, err
	}
	kept, err := c.Accounts.Kept(ctx)
	a.Attacks = c.opened(a.Attacks, kept)
	return a, err
}

// EachAttack calls do for all attacks on the realm, newest first, until do fails.
func (c *Control) EachAttack(ctx context.Context, do func(attacks.Attack) error) error {
	mode, now := c.config.Mode.State(), c.config.Now()
	return c.config.Attacks.Each(ctx, c.config.Realm, func(a attacks.Attack) error {
		a.Going = going(a, mode, now)
		return do(a)
	})
}

// An AttackReport is one attack with the accounts that had suspicious sign-ins.
type AttackReport struct {
	attacks.Attack
	Victims []attacks.Victim `json:"victims"` // possibly compromised accounts first
	// NoPassword is why a password change cannot be forced here; empty if it can.
	NoPassword string `json:"no_password,omitempty"`
}

// Attack returns one attack on the realm, or attacks.ErrUnknown.
func (c *Control) Attack(ctx context.Context, id string) (r AttackReport, err error) {
	if r.Attack, err = c.config.Attacks.Get(ctx, c.config.Realm, id); err != nil {
		return r, err
	}
	r.Going = going(r.Attack, c.config.Mode.State(), c.config.Now())
	if r.Victims, err = c.Accounts.Attacked(ctx, id); err != nil {
		return r, err
	}
	kept, err := c.Accounts.Kept(ctx)
	if kept != accounts.Ours {
		r.NoPassword, r.Open = accounts.NotOurs(kept), r.OpenHere
	}
	return r, err
}

// OpenAccounts returns the number of possibly compromised accounts to secure: of running attacks, and of those that
// ended in the last week.
func (c *Control) OpenAccounts(ctx context.Context) (int, error) {
	kept, err := c.Accounts.Kept(ctx)
	if err != nil {
		return 0, err
	}
	return c.config.Attacks.OpenAccounts(ctx, c.config.Realm, c.config.Now().Add(-attacks.OpenFor), kept == accounts.Ours)
}

func (c *Control) unsecured(ctx context.Context, now time.Time) ([]attacks.Attack, error) {
	kept, err := c.Accounts.Kept(ctx)
	if err != nil {
		return []attacks.Attack{}, err
	}
	all, err := c.config.Attacks.Unsecured(ctx, c.config.Realm, now.Add(-attacks.OpenFor), kept == accounts.Ours, topRows)
	return c.opened(all, kept), err
}

// opened adds whether attempts go on, and counts only what can be done about accounts that are kept there.
func (c *Control) opened(all []attacks.Attack, kept string) []attacks.Attack {
	mode, now := c.config.Mode.State(), c.config.Now()
	for i := range all {
		all[i].Going = going(all[i], mode, now)
		if kept != accounts.Ours {
			all[i].Open = all[i].OpenHere
		}
	}
	return all
}

// Usual fills in the client from which each account last signed in before the attack.
func (c *Control) Usual(ctx context.Context, a attacks.Attack, victims []attacks.Victim) error {
	for i := range victims {
		v := &victims[i]
		before := a.Began
		if len(v.Logins) > 0 && v.Logins[0].First.Before(before) {
			before = v.Logins[0].First
		}
		row, err := c.config.Audit.SuccessBefore(ctx, c.config.Realm, v.Account, before)
		if err != nil {
			return err
		}
		v.Usual, v.UsualAt = row.Address, row.At
	}
	return nil
}
