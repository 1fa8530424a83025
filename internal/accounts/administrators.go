package accounts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"authguard/internal/database"
	"authguard/internal/operation"
)

// ErrLast means that no enabled administrator would remain.
var ErrLast = errors.New("accounts: at least one administrator must be enabled: add another one first")

// AddFirst adds an administrator with a temporary password to an empty table. Otherwise the password is empty.
func (t *Table) AddFirst(ctx context.Context, name string) (password string, err error) {
	some, err := t.List(ctx, "", 1)
	if err != nil || len(some) > 0 {
		return "", err
	}
	password = t.TemporaryPassword()
	_, err = t.Add(ctx, Addition{Username: name, Password: password, Role: Admin, MustChange: true})
	if errors.Is(err, ErrTaken) { // a node that started at the same time added it
		return "", nil
	}
	return password, err
}

// Promote makes a user an administrator with a temporary password: an attacker who knows the old password must not
// become one. Errors are ErrUnknown, also for an administrator, and CheckPassword's.
func (t *Table) Promote(ctx context.Context, name, password string) error {
	if err := t.CheckPassword(password); err != nil {
		return err
	}
	hash, err := t.config.Hash(password)
	if err != nil {
		return err
	}
	return t.updateWhere(ctx, name, `role = 'user'`, false,
		`role = 'admin', password_hash = $4, must_change = TRUE, version = version + 1`, hash)
}

// Demote makes an administrator a user and ends their sessions. Errors are ErrUnknown, also for a user, and ErrLast.
func (t *Table) Demote(ctx context.Context, name string) error {
	return t.updateWhere(ctx, name, `role = 'admin'`, true, `role = 'user', version = version + 1`)
}

// spare returns ErrLast if the account is the last administrator's. The bump serializes concurrent removals; without
// it, each would count on the other administrator.
func (t *Table) spare(ctx context.Context, tx *sql.Tx, name string) error {
	if err := database.Announce(ctx, tx, database.AccountsChanged); err != nil {
		return err
	}
	var last bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM accounts WHERE role = 'admin' AND NOT disabled
			AND id = (SELECT account FROM account_names WHERE realm = $1 AND name = $2))
		AND (SELECT count(*) FROM accounts WHERE realm = $1 AND role = 'admin'
			AND NOT disabled) = 1`, t.config.Realm, name).Scan(&last)
	if err == nil && last {
		err = ErrLast
	}
	return err
}

// A NewAdministrator has a temporary password, which is not stored and returned only once.
type NewAdministrator struct {
	Account
	Password string `json:"password"`
}

// AddAdministrator adds an administrator or promotes a user. Both get a temporary password: an attacker who knew the
// user's, or added a passkey, must not become administrator. Errors are ErrAsked and those of Table.Add.
type AddAdministrator struct {
	operation.OfAdministrator
	Email string `json:"email" help:"Email address, also valid as a user name"`
	operation.Explained
}

// Do implements Request.
func (q AddAdministrator) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	made := NewAdministrator{Password: r.Accounts.TemporaryPassword()}
	var err, ended error
	made.Account, err = r.Accounts.Get(ctx, q.Username)
	switch {
	case errors.Is(err, ErrUnknown):
		made.Account, err = r.Accounts.Add(ctx, Addition{Username: q.Username, Email: q.Email,
			Password: made.Password, Role: Admin, MustChange: true})
	case err == nil && made.Role == Admin:
		err = fmt.Errorf("%w: %s is already an administrator", operation.ErrAsked, made.Username)
	case err == nil:
		if err = r.Accounts.Promote(ctx, q.Username, made.Password); err == nil {
			_, removed := r.MFA.RemoveAll(context.WithoutCancel(ctx), made.ID)
			ended = errors.Join(removed, r.end(ctx, made.Username))
			made.Role, made.MustChange = Admin, true
		}
	}
	if err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: made.Username}, Answer: made,
		Alert:  addedAlert(made.Username, by),
		Secret: temporary(made.Username, made.Password)}, ended
}

// RemoveAdministrator removes the role with its sessions, known clients, MFA and the tokens that the administrator
// created. The account remains as a user's. Errors are ErrAsked for one's own account, and those of Table.Demote.
type RemoveAdministrator struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q RemoveAdministrator) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	account, err := r.other(ctx, by, q.Username)
	if err == nil {
		err = r.Accounts.Demote(ctx, q.Username)
	}
	if err != nil {
		return nil, err
	}
	_, removed := r.MFA.RemoveAll(context.WithoutCancel(ctx), account.ID)
	return &operation.Change{Action: operation.Action{Subject: account.Username},
			Notice: operation.Notice{Note: "No undo: sessions, MFA and tokens are removed. Add the administrator again."}},
		errors.Join(removed, r.end(ctx, account.Username))
}

// ReplacePassword sets an administrator's temporary password, which only the answer has, and revokes the tokens that
// they created. Errors are ErrAsked for one's own account, and ErrUnknown.
type ReplacePassword struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q ReplacePassword) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	account, err := r.other(ctx, by, q.Username)
	switch {
	case err != nil:
		return nil, err
	case account.Role != Admin:
		return nil, ErrUnknown
	}
	password := r.Accounts.TemporaryPassword()
	if err := r.Accounts.SetPassword(ctx, q.Username, password, true); err != nil {
		return nil, err
	}
	revoked := r.Tokens.RevokeOf(context.WithoutCancel(ctx), account.Username)
	return &operation.Change{Action: operation.Action{Subject: account.Username},
		Answer: map[string]string{"username": q.Username, "password": password},
		Notice: operation.Notice{Note: noUndoPassword},
		Secret: temporary(q.Username, password)}, errors.Join(revoked, r.end(ctx, account.Username))
}

// ResetFactors removes all MFA methods of an administrator who has lost them, and ends the sessions. Errors are
// ErrAsked, also for one's own account, and ErrUnknown.
type ResetFactors struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q ResetFactors) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	account, err := r.other(ctx, by, q.Username)
	switch {
	case err != nil:
		return nil, err
	case account.Role != Admin:
		return nil, fmt.Errorf("%w: only administrators have MFA, and this is not an administrator's account",
			operation.ErrAsked)
	}
	removed, err := r.MFA.RemoveAll(ctx, account.ID)
	if err != nil {
		return nil, err
	}
	_, ended := r.Sessions.EndOthers(ctx, account.Username, Integration, "")
	return &operation.Change{Alert: signInAlert("mfa-reset", account.Username, by.Who, by.Why),
		Action: operation.Action{Subject: account.Username}, Answer: map[string]any{"ok": true, "removed": removed},
		Notice: operation.Notice{Note: "No undo: the keys are deleted. Set up MFA again at the next sign-in."}}, ended
}

// EndSessions ends all sessions of an administrator, or the one with an ID. Being urgent, it requires no recent
// sign-in. The error is sessions.ErrUnknown if there is no such session.
type EndSessions struct {
	Username string `json:"username"`
	ID       string `json:"id"`
	operation.Because
}

// AllSessions are the flags of EndSessions.
type AllSessions struct {
	operation.OfAdministrator
	operation.Explained
}

// Do implements Request.
func (q EndSessions) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	name := r.nameOf(q.Username)
	if name == "" {
		return nil, fmt.Errorf("%w: username: missing", operation.ErrAsked)
	}
	if q.ID != "" {
		if err := r.Sessions.End(ctx, name, q.ID); err != nil {
			return nil, err
		}
		return &operation.Change{Action: operation.Action{Subject: name}, Notice: operation.Notice{Text: "Session ended:",
			Subject: q.Username, Note: noUndoSessions}}, nil
	}
	n, err := r.Sessions.EndOthers(ctx, name, Integration, "")
	if err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Subject: name, Detail: fmt.Sprintf("%d sessions", n)},
		Answer: map[string]any{"ok": true, "ended": n}, Notice: operation.Notice{Note: noUndoSessions}}, nil
}
