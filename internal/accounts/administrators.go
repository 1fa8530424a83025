package accounts

import (
	"context"
	"database/sql"
	"errors"

	"authguard/internal/changes"
)

// ErrLast means that no enabled administrator would remain.
var ErrLast = errors.New("accounts: at least one administrator must be enabled: add another one first")

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
	if err := changes.Bump(ctx, tx, changes.Accounts); err != nil {
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
