package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/attacks"
	"authguard/internal/codes"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/sessions"
)

// A Realm has the accounts of one realm, and the sessions, known clients, codes, tokens and MFA that a change of an
// account invalidates. Set all fields before use; then it is safe for concurrent use.
type Realm struct {
	Tables
	Users
	Name    string
	Guards  func(directory string) []*guard.Guard // all that count the accounts of a directory
	Attacks *attacks.Recorder
	Alerts  *alerts.Alerter
	Record  func(context.Context, operation.Action) error // in the audit log
	Now     func() time.Time
	Log     *slog.Logger
}

// Tables are in the database. All are required.
type Tables struct {
	Accounts *Table
	Sessions *sessions.Store
	Codes    *codes.Table
	Tokens   *Tokens
	MFA      *mfa.Table // the administrators' MFA methods, and all passkeys
}

// Users say where the users' accounts are.
type Users struct {
	// DirectoryOf returns the directory in which a canonical name signs in: Directory, or empty. The error is
	// ErrUnknown if there is none.
	DirectoryOf func(ctx context.Context, name string) (directory string, err error)
	// Elsewhere is the users' account source, such as "query", if not Tables. Only administrators can be added then.
	Elsewhere string
	// Source looks users up if Elsewhere is set.
	Source Source
	// App reports whether an app behind the proxy or decision API manages the accounts; nil if none does.
	App func(ctx context.Context) (bool, error)
}

const (
	// Integration is the integration of the admin console's sign-in in events, and of its sessions.
	Integration = "admin"
	// Directory is where administrators' accounts are counted, separate from other integrations. Otherwise a user with an
	// administrator's name could make their own client a known client of the administrator.
	Directory = "administration"
)

// AtConsole reports whether an integration, of a session or an attempt, is the admin console.
func AtConsole(integration string) bool {
	return integration == Integration || strings.HasPrefix(integration, Integration+"_")
}

// Guard returns the guard where an account of a directory signs in.
func (r *Realm) Guard(directory string) *guard.Guard {
	return append(r.Guards(directory), r.Guards("")...)[0]
}

// Canonical returns the normalized user name, also for an email address. The error is guard.ErrAccountName.
func (r *Realm) Canonical(account string) (string, error) {
	name, err := r.Guard("").Normalise(account)
	if err != nil {
		return "", err
	}
	return r.Accounts.Canonical(name), nil
}

// nameOf returns the canonical name of an existing account.
func (r *Realm) nameOf(name string) string {
	if canonical, err := r.Canonical(name); err == nil {
		return canonical
	}
	return name
}

// Held returns the scope that a token needs, in addition to the operation's, to change an account. Setting a user's
// password gives all their rights. It is empty for an account without power and for an unknown one.
func (r *Realm) Held(ctx context.Context, name string) (operation.Scope, error) {
	account, err := r.Accounts.Get(ctx, name)
	switch {
	case errors.Is(err, ErrUnknown):
		return "", nil
	case account.Role == Admin:
		return operation.Admin, err
	case len(account.Groups) > 0:
		return operation.Groups, err
	}
	return "", err
}

// MayChange implements operation.Powers: MayChangeSignIn for an administrator's account, the scope for one in groups.
// For a token without the scope, an administrator's account does not exist: the token cannot enumerate administrators.
func (r *Realm) MayChange(ctx context.Context, by operation.By, name string) error {
	if by.Users {
		return r.user(ctx, name)
	}
	held, err := r.Held(ctx, name)
	switch {
	case err != nil || held == "":
		return err
	case held == operation.Admin && !by.May(operation.Admin):
		return ErrUnknown
	case held == operation.Admin:
		return by.MayChangeSignIn()
	}
	return by.Needs(held)
}

// MayUnlock implements operation.Powers. With an administrator's counters or known clients, an attacker could reset the
// limits between guesses. The name is trimmed as the operations trim it: with much space around it, Held would not find
// it.
func (r *Realm) MayUnlock(ctx context.Context, by operation.By, name string) error {
	held, err := r.Held(ctx, strings.TrimSpace(name))
	if err != nil || held != operation.Admin {
		return err
	}
	return by.Needs(held)
}

// user returns nil for a user's account in authguard's own table. The error is ErrAsked for an administrator's account
// and for another account source, and ErrUnknown.
func (r *Realm) user(ctx context.Context, name string) error {
	a, err := r.Accounts.Get(ctx, name)
	switch {
	case errors.Is(err, ErrUnknown) && r.Elsewhere != "":
		return r.elsewhere()
	case err == nil && a.Role == Admin:
		return fmt.Errorf("%w: %s is an administrator; use the page Administrators", operation.ErrAsked, a.Username)
	}
	return err
}

func (r *Realm) elsewhere() error {
	return fmt.Errorf("%w: accounts.source is %s, so users are looked up there and not in authguard's own table; "+
		"add the account there. Only administrators can be added here, with authguard admin add", operation.ErrAsked,
		r.Elsewhere)
}

// another returns an error for an operation that could lock administrators out of their own account.
func (r *Realm) another(who, name string) error {
	if who == "admin:"+r.nameOf(name) {
		return fmt.Errorf("%w: this is your own account; ask another administrator, or use a command on the server",
			operation.ErrAsked)
	}
	return nil
}

// other returns the account of another user than the sender.
func (r *Realm) other(ctx context.Context, by operation.By, name string) (account Account, err error) {
	if err = r.another(by.Who, name); err == nil {
		account, err = r.Accounts.Get(ctx, name)
	}
	return account, err
}

// changed ends sessions, known clients, codes and passkeys after a change of an account, even if one part fails. The
// account's version has already invalidated the sessions; deleting them is cleanup.
func (r *Realm) changed(ctx context.Context, name string) (*operation.Change, error) {
	name = r.nameOf(name)
	return &operation.Change{Action: operation.Action{Subject: name}}, r.end(ctx, name)
}

// end is changed without the change. With another account source, only administrators are in our table.
func (r *Realm) end(ctx context.Context, name string) error {
	removed := r.removePasskeys(context.WithoutCancel(ctx), name)
	return errors.Join(unended(removed), r.endLogins(ctx, name))
}

// endLogins is end except for passkeys.
func (r *Realm) endLogins(ctx context.Context, name string) error {
	if r.Elsewhere != "" {
		return r.endIn(ctx, Directory, name)
	}
	ctx = context.WithoutCancel(ctx)
	_, ended := r.Sessions.DeleteAccount(ctx, name)
	return unended(ended, r.forget(ctx, name, netip.Addr{}), r.Codes.Revoke(ctx, name))
}

// endIn is endLogins with another account source. An administrator and a user can have the same name there; the other
// one's sessions and known clients stay.
func (r *Realm) endIn(ctx context.Context, directory, name string) error {
	ctx = context.WithoutCancel(ctx)
	_, ended := r.endSessions(ctx, directory, name)
	return unended(ended, r.forgetIn(ctx, directory, name, netip.Addr{}), r.Codes.RevokeIn(ctx, directory, name))
}

// endSessions ends the sessions of an account in a directory, and returns their number.
func (r *Realm) endSessions(ctx context.Context, directory, name string) (ended int, err error) {
	running, err := r.Sessions.Of(ctx, name, "")
	for _, one := range running {
		if AtConsole(one.Integration) != (directory != "") {
			continue
		}
		switch failed := r.Sessions.End(ctx, name, one.ID); {
		case failed == nil:
			ended++
		case !errors.Is(failed, sessions.ErrUnknown): // it has just ended
			err = errors.Join(err, failed)
		}
	}
	return ended, err
}

// unended adds what to do if a part of end failed.
func unended(parts ...error) error {
	err := errors.Join(parts...)
	if err != nil {
		err = fmt.Errorf("accounts: the account was changed, but not all sessions, known clients, verification "+
			"codes and passkeys could be removed; repeat it: %w", err)
	}
	return err
}

// removePasskeys removes a user's passkeys: an attacker with the password or a session may have added one. An
// administrator's are MFA, and only ResetFactors removes them.
func (r *Realm) removePasskeys(ctx context.Context, name string) error {
	account, err := r.Accounts.Get(ctx, name)
	if errors.Is(err, ErrUnknown) || err == nil && account.Role == Admin {
		return nil
	}
	if err == nil {
		_, err = r.MFA.RemoveAll(ctx, account.ID)
	}
	return err
}

// forget removes the known clients of an account in all directories: all, or the one at an address.
func (r *Realm) forget(ctx context.Context, account string, address netip.Addr) error {
	return errors.Join(r.forgetIn(ctx, "", account, address), r.forgetIn(ctx, Directory, account, address))
}

func (r *Realm) forgetIn(ctx context.Context, directory, account string, address netip.Addr) (err error) {
	for _, g := range r.Guards(directory) {
		err = errors.Join(err, g.RemoveKnownClients(ctx, account, address))
	}
	return err
}

// RemoveKnownClients removes an IP address from an account's known clients or, without one, all known clients and
// device cookies (R14).
type RemoveKnownClients struct {
	Account string `json:"account"`
	Address string `json:"address"`
	operation.Because
}

// May implements the check of a Request.
func (q RemoveKnownClients) May(ctx context.Context, p operation.Powers, by operation.By) error {
	return p.MayUnlock(ctx, by, q.Account)
}

// Do implements Request.
func (q RemoveKnownClients) Do(ctx context.Context, r *Realm, _ operation.By) (*operation.Change, error) {
	account := strings.TrimSpace(q.Account)
	if account == "" {
		return nil, fmt.Errorf("%w: enter the account whose known clients to remove", operation.ErrAsked)
	}
	address, err := operation.AddressOf(q.Address)
	if err == nil {
		account, err = r.Canonical(account)
	}
	if err == nil {
		err = r.forget(ctx, account, address)
	}
	if err != nil {
		return nil, err
	}
	change := &operation.Change{Action: operation.On(account, address),
		Notice: operation.Notice{Text: "All known clients removed:", Subject: account,
			Note: "No undo: a client becomes known again at its next sign-in."}}
	change.What = "known-clients-remove"
	if address.IsValid() {
		change.Notice.Text = "Known IP address " + address.String() + " removed:"
	}
	return change, nil
}
