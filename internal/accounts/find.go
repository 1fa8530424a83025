package accounts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"authguard/internal/passwords"
	"authguard/internal/sqltx"
)

const selectAccounts = `SELECT id, username, COALESCE(email, ''), role, disabled, must_change, version, created_at, changed_at FROM accounts `

// FindForLogin implements Source: by user name or e-mail address. What cannot be
// a name is unknown.
func (t *Table) FindForLogin(ctx context.Context, name string) (Login, bool, error) {
	name, err := t.config.Normalise(name)
	if err != nil {
		return Login{}, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var l Login
	var disabled bool
	err = t.config.DB.QueryRowContext(ctx, `SELECT username, password_hash, disabled, role, must_change, version
		FROM accounts WHERE id = (SELECT account FROM account_names WHERE name = $1)`, name).
		Scan(&l.Account, &l.Password.Hash, &disabled, &l.Role, &l.MustChange, &l.Version)
	if errors.Is(err, sql.ErrNoRows) {
		return Login{}, false, nil
	}
	if err != nil {
		return Login{}, false, fmt.Errorf("accounts: look up: %w", err)
	}
	l.Password.Usable = !disabled
	return l, true, nil
}

// Get is an account by user name or e-mail address. The error is ErrUnknown if
// there is none.
func (t *Table) Get(ctx context.Context, name string) (Account, error) {
	name, err := t.config.Normalise(name)
	if err != nil {
		return Account{}, fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	all, err := t.query(ctx, `WHERE id = (SELECT account FROM account_names WHERE name = $1)`, name)
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%w: %q", ErrUnknown, name)
	}
	if err != nil {
		return Account{}, err
	}
	return all[0], nil
}

// List is at most limit accounts in order of their user names, from after the
// given one, byte by byte; "" for the first page.
func (t *Table) List(ctx context.Context, after string, limit int) ([]Account, error) {
	return t.query(ctx, `WHERE username > $1 ORDER BY username LIMIT $2`, sqltx.Clean(after), limit)
}

// HighestCost is the highest bcrypt cost in the table, 0 if it is empty: for
// passwords.Checker.Saw.
func (t *Table) HighestCost(ctx context.Context) (int, error) {
	var hash sql.NullString
	err := t.config.DB.QueryRowContext(ctx, `SELECT MAX(SUBSTR(password_hash, 5)) FROM accounts`).Scan(&hash)
	if err != nil || !hash.Valid {
		return 0, err
	}
	return passwords.CostOf("$2a$" + hash.String)
}

func (t *Table) query(ctx context.Context, where string, args ...any) ([]Account, error) {
	rows, err := t.config.DB.QueryContext(ctx, selectAccounts+where, args...)
	if err != nil {
		return nil, fmt.Errorf("accounts: read: %w", err)
	}
	defer rows.Close()
	var all []Account
	for rows.Next() {
		var a Account
		var created, changed int64
		err := rows.Scan(&a.ID, &a.Username, &a.Email, &a.Role, &a.Disabled, &a.MustChange, &a.Version, &created, &changed)
		if err != nil {
			return nil, fmt.Errorf("accounts: read: %w", err)
		}
		a.CreatedAt, a.ChangedAt = time.UnixMilli(created), time.UnixMilli(changed)
		all = append(all, a)
	}
	return all, rows.Err()
}
