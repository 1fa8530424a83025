package accounts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// States of an account.
const (
	Active     = "active"
	Disabled   = "disabled"
	MustChange = "must-change" // its password is temporary
	NoAccount  = "none"
	NotKnown   = "not-known" // the account source is unavailable
)

// A Standing is what is known of an account besides its counters.
type Standing struct {
	State string `json:"state"`
	// Kept is "authguard", the value of accounts.source, or "app" for accounts that only the app can look up.
	Kept  string `json:"kept"`
	Email string `json:"email,omitempty"`
	Role  Role   `json:"role,omitempty"`
	// NeedsCode is set if unknown clients need a verification code with the password, which an attacker may have.
	NeedsCode bool `json:"needs_code,omitempty"`
}

// InApp is the source of accounts that authguard cannot look up.
const InApp = "app"

// Kept returns where the realm's user accounts are, see Standing.
func (r *Realm) Kept(ctx context.Context) (string, error) {
	if r.App != nil {
		if app, err := r.App(ctx); app || err != nil {
			return InApp, err
		}
	}
	return cmp.Or(r.Elsewhere, Ours), nil
}

// Ours is the source of authguard's own accounts.
const Ours = "authguard"

// Standing returns that of a canonical name.
func (r *Realm) Standing(ctx context.Context, name string) (Standing, error) {
	kept, err := r.Kept(ctx)
	if err != nil {
		return Standing{}, err
	}
	own, err := r.Accounts.Get(ctx, name)
	switch {
	case err == nil && (r.Elsewhere == "" || own.Role == Admin):
		return Standing{State: own.State(), Kept: Ours, Email: own.Email, Role: own.Role, NeedsCode: own.NeedsCode}, nil
	case err != nil && !errors.Is(err, ErrUnknown):
		return Standing{}, err
	case kept == InApp:
		return Standing{State: NotKnown, Kept: kept}, nil
	case r.Elsewhere == "":
		return Standing{State: NoAccount, Kept: kept}, nil
	}
	login, found, err := r.Source.FindForLogin(ctx, name)
	switch {
	case err != nil:
		r.Log.Warn("the source of an account could not be queried", "source", kept, "error", err)
		return Standing{State: NotKnown, Kept: kept}, nil
	case !found:
		return Standing{State: NoAccount, Kept: kept}, nil
	case !login.Password.Usable:
		return Standing{State: Disabled, Kept: kept, Email: login.Email}, nil
	}
	return Standing{State: Active, Kept: kept, Email: login.Email, Role: User}, nil
}

// State returns the state of an account that exists.
func (a Account) State() string {
	switch {
	case a.Disabled:
		return Disabled
	case a.MustChange:
		return MustChange
	}
	return Active
}

// Note returns the state in words, for an administrator; empty for an active account.
func (s Standing) Note() string {
	switch {
	case s.State == MustChange && s.NeedsCode:
		return "an attacker may have the account's password: it must be changed, and sign-in requires a verification code"
	case s.State == MustChange:
		return "the account's password must be changed at the next sign-in"
	case s.State == Disabled && s.Kept == Ours:
		return "the account is disabled, so even the correct password is answered as wrong"
	case s.State == Disabled:
		return fmt.Sprintf("the account is disabled in its source (accounts.source is %s), so even the correct password is "+
			"answered as wrong", s.Kept)
	case s.State == NoAccount && s.Kept == Ours:
		return "authguard's own account table has no account of this name"
	case s.State == NoAccount:
		return fmt.Sprintf("the account source (accounts.source is %s) has no account of this name", s.Kept)
	case s.State == NotKnown && s.Kept == InApp:
		return "the app manages the accounts: only the app knows whether this account exists"
	case s.State == NotKnown:
		return fmt.Sprintf("the account source (accounts.source is %s) is currently unavailable", s.Kept)
	}
	return ""
}

// Unknown returns a note if no account has this name. It is empty for no name, and for accounts only an app knows.
func (r *Realm) Unknown(ctx context.Context, account string) (note string, err error) {
	if account == "" {
		return "", nil
	}
	name, err := r.Canonical(account)
	if err != nil {
		return "", err
	}
	standing, err := r.Standing(ctx, name)
	if standing.State == NoAccount {
		note = standing.Note()
	}
	return note, err
}
