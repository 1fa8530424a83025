package accounts

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/operation"
)

// resetWithin limits how long one request secures accounts. The next request continues.
const resetWithin = 20 * time.Second

// Attacked returns the accounts of an attack, with what an administrator has to know before securing them. With another
// account source, a user is not the administrator of the same name.
func (r *Realm) Attacked(ctx context.Context, id string) ([]attacks.Victim, error) {
	victims, err := r.Attacks.Victims(ctx, r.Name, id)
	if err != nil {
		return nil, err
	}
	for i := range victims {
		v := &victims[i]
		if !v.Lost || r.Elsewhere != "" && !atAdministration(*v) {
			continue
		}
		account, err := r.Accounts.Get(ctx, v.Account)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		v.Username, v.Administrator, v.NoEmail = account.Username, account.Role == Admin, account.Email == ""
	}
	return victims, nil
}

// atAdministration is whether the attack had a sign-in of the account at the admin console.
func atAdministration(v attacks.Victim) bool {
	return slices.ContainsFunc(v.Logins, func(l attacks.Login) bool { return AtConsole(l.Integration) })
}

// NotOurs says where to force a password change.
func NotOurs(kept string) string {
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
func (r *Realm) ResetAttack(ctx context.Context, who, id string,
	asked AttackReset) (done []Resetting, left int, err error) {
	if strings.TrimSpace(asked.Why) == "" {
		return nil, 0, fmt.Errorf("%w: missing reason: users who are signed out may ask", operation.ErrAsked)
	}
	if _, err := operation.Trimmed(asked.Why); err != nil {
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
	if _, err := r.Attacks.Get(ctx, r.Name, id); err != nil {
		return nil, 0, err
	}
	chosen, err := r.Attacked(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	named := len(asked.Accounts) > 0
	chosen = slices.DeleteFunc(chosen, func(v attacks.Victim) bool {
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
		one, err := r.resetVictim(ctx, who, id, v, asked)
		if err != nil {
			return done, len(chosen) - i, err
		}
		done = append(done, one)
	}
	return done, 0, nil
}

func (r *Realm) resetVictim(ctx context.Context, who, id string, v attacks.Victim,
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
			if err := r.reset(ctx, what, v); err != nil {
				one.Problems = append(one.Problems, what+": "+strings.TrimPrefix(err.Error(), operation.ErrAsked.Error()+": "))
				continue
			}
			at := r.Now()
			if err := r.Attacks.Done(ctx, r.Name, v.Account, attacks.Reset{What: what, At: at, Who: who,
				Why: asked.Why}); err != nil {
				return one, err
			}
			one.Done = append(one.Done, what)
		}
	}
	if len(one.Done) == 0 {
		return one, nil
	}
	return one, r.Record(ctx, operation.Action{Who: who, What: "attack-reset", Subject: v.Account,
		Detail: fmt.Sprintf("%s, after the attack %s", strings.Join(one.Done, ", "), id), Why: asked.Why})
}

// reset carries out one operation on one account. With another account source, it means the administrator of that name
// only if the attack had a sign-in at the admin console.
func (r *Realm) reset(ctx context.Context, what string, v attacks.Victim) error {
	account, directory := v.Account, ""
	if atAdministration(v) {
		directory = Directory
	}
	switch apart := r.Elsewhere != ""; {
	case what == attacks.Sessions && apart:
		_, err := r.endSessions(ctx, directory, account)
		return err
	case what == attacks.Sessions:
		_, err := r.Sessions.EndOthers(ctx, account, "", "")
		return err
	case what == attacks.KnownClients && apart:
		return r.forgetIn(ctx, directory, account, netip.Addr{})
	case what == attacks.KnownClients:
		return r.forget(ctx, account, netip.Addr{})
	}
	standing, err := r.Standing(ctx, account)
	if err != nil {
		return err
	}
	if standing.Kept != Ours {
		return fmt.Errorf("%w: %s", operation.ErrAsked, NotOurs(standing.Kept))
	}
	err = errors.Join(r.Accounts.AskNewPassword(ctx, account), r.Codes.Revoke(ctx, account))
	if errors.Is(err, ErrUnknown) {
		return fmt.Errorf("%w: no such account", operation.ErrAsked)
	}
	return err
}
