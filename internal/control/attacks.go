package control

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/attacks"
	"authguard/internal/operation"
)

const (
	// The default and the maximum number of attacks on a page.
	attacksShown = 20
	maxAttacks   = 1000
	// resetWithin limits how long one request secures accounts. The next request continues.
	resetWithin = 20 * time.Second
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
	kept, err := c.Kept(ctx)
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
	if r.Victims, err = c.config.Attacks.Victims(ctx, c.config.Realm, id); err != nil {
		return r, err
	}
	if err = c.describe(ctx, r.Victims); err != nil {
		return r, err
	}
	kept, err := c.Kept(ctx)
	if kept != ours {
		r.NoPassword, r.Open = notOurs(kept), r.OpenHere
	}
	return r, err
}

// OpenAccounts returns the number of possibly compromised accounts to secure: of running attacks, and of those that
// ended in the last week.
func (c *Control) OpenAccounts(ctx context.Context) (int, error) {
	kept, err := c.Kept(ctx)
	if err != nil {
		return 0, err
	}
	return c.config.Attacks.OpenAccounts(ctx, c.config.Realm, c.config.Now().Add(-attacks.OpenFor), kept == ours)
}

func (c *Control) unsecured(ctx context.Context, now time.Time) ([]attacks.Attack, error) {
	kept, err := c.Kept(ctx)
	if err != nil {
		return []attacks.Attack{}, err
	}
	all, err := c.config.Attacks.Unsecured(ctx, c.config.Realm, now.Add(-attacks.OpenFor), kept == ours, topRows)
	return c.opened(all, kept), err
}

// opened adds whether attempts go on, and counts only what can be done about accounts that are kept there.
func (c *Control) opened(all []attacks.Attack, kept string) []attacks.Attack {
	mode, now := c.config.Mode.State(), c.config.Now()
	for i := range all {
		all[i].Going = going(all[i], mode, now)
		if kept != ours {
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

// describe adds what an administrator has to know before securing possibly compromised accounts. With another account
// source, a user is not the administrator of the same name.
func (c *Control) describe(ctx context.Context, victims []attacks.Victim) error {
	for i := range victims {
		v := &victims[i]
		if !v.Lost || c.config.Elsewhere != "" && !atAdministration(*v) {
			continue
		}
		account, err := c.config.Accounts.Get(ctx, v.Account)
		if errors.Is(err, accounts.ErrUnknown) {
			continue
		}
		if err != nil {
			return err
		}
		v.Username, v.Administrator, v.NoEmail = account.Username, account.Role == accounts.Admin, account.Email == ""
	}
	return nil
}

// atAdministration is whether the attack had a sign-in of the account at the admin console.
func atAdministration(v attacks.Victim) bool {
	return slices.ContainsFunc(v.Logins, func(l attacks.Login) bool { return ofAdministration(l.Integration) })
}

func notOurs(kept string) string {
	if kept == InApp {
		return "the app manages the accounts; force the password change there"
	}
	return "accounts.source is " + kept + "; force the password change there"
}

// An AttackReset secures the accounts of an attack.
type AttackReset struct {
	Accounts []string // empty: all possibly compromised ones but administrators'
	Hide     bool     // for a token that must not learn who is an administrator; May then refuses these
	Own      string   // the administrator who asks, whose account is never secured; empty: a program
	What     []string // of attacks.Resets; empty: all
	Why      string   // required
	// May returns why an account must not be changed; nil: all may be.
	May func(ctx context.Context, account string) error
}

// A Resetting is the outcome for one account.
type Resetting struct {
	Account  string   `json:"account"`
	Done     []string `json:"done"`
	Already  []string `json:"already"` // since the last login
	Problems []string `json:"problems,omitempty"`
	LeftOut  bool     `json:"left_out,omitempty"` // an administrator's account, which is secured by its name only
}

var errOwnAccount = fmt.Errorf("%w: this is your own account: end your other sessions and change your password on the "+
	"page Your sign-in", operation.ErrAsked)

// ResetAttack ends sessions, removes known clients and forces password changes unless that was done since the last
// login. The audit log has a row per account. left counts the accounts not processed in time: repeat the call. Errors
// are ErrAsked and attacks.ErrUnknown.
func (c *Control) ResetAttack(ctx context.Context, who, id string,
	asked AttackReset) (done []Resetting, left int, err error) {
	if err := whyNot(asked.Why, "users who are signed out may ask"); err != nil {
		return nil, 0, err
	}
	if len(asked.What) == 0 {
		asked.What = attacks.Resets()
	}
	for _, what := range asked.What {
		if !slices.Contains(attacks.Resets(), what) {
			return nil, 0, fmt.Errorf("%w: what: must be one of %s, not %.20q", operation.ErrAsked,
				strings.Join(attacks.Resets(), ", "),
				what)
		}
	}
	report, err := c.Attack(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	named := len(asked.Accounts) > 0
	chosen := slices.DeleteFunc(report.Victims, func(v attacks.Victim) bool {
		return named && !slices.Contains(asked.Accounts, v.Account) || !named && !v.Lost
	})
	if len(chosen) == 0 && named {
		return nil, 0, fmt.Errorf("%w: the account %.60q had no sign-in from an unknown client during this attack",
			operation.ErrAsked, asked.Accounts[0])
	}
	began := time.Now()
	for i, v := range chosen {
		switch {
		case time.Since(began) > resetWithin:
			return done, len(chosen) - i, nil
		case !named && v.Administrator && !asked.Hide:
			done = append(done, Resetting{Account: v.Account, Done: []string{}, Already: []string{}, LeftOut: true})
			continue
		case v.Administrator && v.Username == asked.Own:
			return done, 0, errOwnAccount
		}
		one, err := c.resetVictim(ctx, who, id, v, asked)
		if err != nil {
			return done, len(chosen) - i, err
		}
		done = append(done, one)
	}
	return done, 0, nil
}

func (c *Control) resetVictim(ctx context.Context, who, id string, v attacks.Victim,
	asked AttackReset) (one Resetting, err error) {
	one = Resetting{Account: v.Account, Done: []string{}, Already: []string{}}
	if asked.May != nil {
		if err := asked.May(ctx, v.Account); err != nil {
			one.Problems = append(one.Problems, err.Error())
			return one, nil
		}
	}
	ctx = context.WithoutCancel(ctx)
	for _, what := range attacks.Resets() {
		switch {
		case !slices.Contains(asked.What, what):
		case v.Reset(what) != nil:
			one.Already = append(one.Already, what)
		default:
			if err := c.reset(ctx, what, v); err != nil {
				one.Problems = append(one.Problems, what+": "+strings.TrimPrefix(err.Error(), operation.ErrAsked.Error()+": "))
				continue
			}
			at := c.config.Now()
			if err := c.config.Attacks.Done(ctx, c.config.Realm, v.Account, attacks.Reset{What: what, At: at, Who: who,
				Why: asked.Why}); err != nil {
				return one, err
			}
			one.Done = append(one.Done, what)
		}
	}
	if len(one.Done) == 0 {
		return one, nil
	}
	return one, c.record(ctx, operation.Action{Who: who, What: "attack-reset", Subject: v.Account,
		Detail: fmt.Sprintf("%s, after the attack %s", strings.Join(one.Done, ", "), id), Why: asked.Why})
}

// reset carries out one operation on one account. With another account source, it means the administrator of that name
// only if the attack had a sign-in at the admin console.
func (c *Control) reset(ctx context.Context, what string, v attacks.Victim) error {
	account, directory := v.Account, ""
	if atAdministration(v) {
		directory = adminDirectory
	}
	switch apart := c.config.Elsewhere != ""; {
	case what == attacks.Sessions && apart:
		return c.endSessionsApart(ctx, directory, account)
	case what == attacks.Sessions:
		_, err := c.config.Sessions.EndOthers(ctx, account, "", "")
		return err
	case what == attacks.KnownClients && apart:
		return c.forgetIn(ctx, directory, account, netip.Addr{})
	case what == attacks.KnownClients:
		return c.forget(ctx, account, netip.Addr{})
	}
	standing, err := c.Standing(ctx, account)
	if err != nil {
		return err
	}
	if standing.Kept != ours {
		return fmt.Errorf("%w: %s", operation.ErrAsked, notOurs(standing.Kept))
	}
	err = errors.Join(c.config.Accounts.AskNewPassword(ctx, account), c.config.Codes.Revoke(ctx, account))
	if errors.Is(err, accounts.ErrUnknown) {
		return fmt.Errorf("%w: no such account", operation.ErrAsked)
	}
	return err
}
