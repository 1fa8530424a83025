package accounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"authguard/internal/database"
)

// Addition is a new account.
type Addition struct {
	Username   string
	Email      string // optional
	Groups     []string
	Password   string
	Role       Role // default User
	MustChange bool
}

// Add adds an account. Errors are ErrName, ErrGroup, ErrTaken and CheckPassword's.
func (t *Table) Add(ctx context.Context, a Addition) (Account, error) {
	if err := t.CheckPassword(a.Password); err != nil {
		return Account{}, err
	}
	account, err := t.newAccount(a)
	if err != nil {
		return Account{}, err
	}
	hash, err := t.config.Hash(a.Password)
	if err != nil {
		return Account{}, err
	}
	if err := t.insert(ctx, account, hash); err != nil {
		return Account{}, fmt.Errorf("accounts: add %q: %w", account.Username, err)
	}
	t.alias(account.Email, account.Username)
	return account, nil
}

func (t *Table) newAccount(a Addition) (Account, error) {
	username, email, err := t.names(a.Username, a.Email)
	if err != nil {
		return Account{}, err
	}
	groups, err := ParseGroups(strings.Join(a.Groups, ","))
	if err != nil {
		return Account{}, err
	}
	if a.Role = cmp.Or(a.Role, User); a.Role != User && a.Role != Admin {
		return Account{}, fmt.Errorf("accounts: role: must be user or admin, not %.20q", a.Role)
	}
	now := t.config.Now().Truncate(time.Millisecond)
	return Account{
		ID: rand.Text(), Username: username, Email: email, Groups: groups, Role: a.Role, MustChange: a.MustChange,
		Version:   now.UnixMilli(), // not one of a deleted account of this name, whose links may still be valid
		CreatedAt: now, ChangedAt: now,
	}, nil
}

// names normalizes both names and drops an email address that equals the user name.
func (t *Table) names(username, email string) (string, string, error) {
	user, err := t.config.Normalise(username)
	if err == nil && user == "" {
		err = errors.New("it is empty")
	}
	if err != nil {
		return "", "", fmt.Errorf("%w: user name: %w", ErrName, err)
	}
	if email == "" {
		return user, "", nil
	}
	mail, err := t.config.Normalise(email)
	if err != nil {
		return "", "", fmt.Errorf("%w: email: %w", ErrName, err)
	}
	if mail == user {
		mail = ""
	}
	return user, mail, nil
}

func (t *Table) insert(ctx context.Context, a Account, hash string) error {
	return t.change(ctx, t.config.DB, func(tx *sql.Tx) error {
		at := a.CreatedAt.UnixMilli()
		_, err := tx.ExecContext(ctx, `INSERT INTO accounts
			(id, realm, username, email, member_of, password_hash, role, must_change, version, created_at, changed_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)`,
			a.ID, t.config.Realm, a.Username, nullable(a.Email), strings.Join(a.Groups, ","), hash, string(a.Role), a.MustChange,
			a.Version, at)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO account_names (realm, name, account)
			SELECT realm, username, id FROM accounts WHERE id = $1
			UNION ALL SELECT realm, email, id FROM accounts WHERE id = $1 AND email IS NOT NULL`, a.ID)
		return err
	})
}

// SetPassword sets an account's password and ends its sessions. With mustChange the password is temporary. The caller
// removes known clients. Errors are ErrUnknown and CheckPassword's.
func (t *Table) SetPassword(ctx context.Context, name, password string, mustChange bool) error {
	if err := t.CheckPassword(password); err != nil {
		return err
	}
	hash, err := t.config.Hash(password)
	if err != nil {
		return err
	}
	return t.update(ctx, name, `password_hash = $4, must_change = $5, needs_code = FALSE, version = version + 1`, hash,
		mustChange)
}

// ChoosePassword is SetPassword by the account's owner, whose session has the given version. If the account changed
// since, it does nothing and returns ErrUnknown: a request from an ended session must not undo what ended it.
func (t *Table) ChoosePassword(ctx context.Context, name, password string, version int64) error {
	if err := t.CheckPassword(password); err != nil {
		return err
	}
	hash, err := t.config.Hash(password)
	if err != nil {
		return err
	}
	return t.updateWhere(ctx, name, `version = $5`, false,
		`password_hash = $4, must_change = FALSE, needs_code = FALSE, version = version + 1`, hash, version)
}

// AskNewPassword ends an account's sessions and makes its password temporary. Changing it requires a verification code,
// because an attacker may know the password. The error is ErrUnknown.
func (t *Table) AskNewPassword(ctx context.Context, name string) error {
	return t.update(ctx, name, `must_change = $4, needs_code = $4, version = version + 1`, true)
}

// SetGroups replaces an account's groups, also for existing sessions. Errors are ErrUnknown and ErrGroup.
func (t *Table) SetGroups(ctx context.Context, name string, groups []string) error {
	groups, err := ParseGroups(strings.Join(groups, ","))
	if err != nil {
		return err
	}
	return t.update(ctx, name, `member_of = $4`, strings.Join(groups, ","))
}

// Upgrade replaces the hash of an account by another hash of the same password, after a login. Sessions and known
// clients stay. If the hash changed meanwhile, Upgrade does nothing, so it never overwrites a new password.
func (t *Table) Upgrade(ctx context.Context, login Login, hash string) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	_, err := t.config.DB.ExecContext(ctx, `UPDATE accounts SET password_hash = $1 WHERE realm = $2 AND username = $3
		AND password_hash = $4`,
		hash, t.config.Realm, login.Account, login.Password.Hash)
	if err != nil {
		return fmt.Errorf("accounts: upgrade the hash of %q: %w", login.Account, err)
	}
	return nil
}

// Disable rejects every password of an account and ends its sessions. Errors are ErrUnknown and ErrLast.
func (t *Table) Disable(ctx context.Context, name string) error {
	return t.updateWhere(ctx, name, `TRUE`, true, `disabled = $4, version = version + 1`, true)
}

// Enable undoes Disable, except for the ended sessions.
func (t *Table) Enable(ctx context.Context, name string) error {
	return t.update(ctx, name, `disabled = $4`, false)
}

// Delete removes an account with its names. Errors are ErrUnknown and ErrLast.
func (t *Table) Delete(ctx context.Context, name string) error {
	name, err := t.config.Normalise(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	err = t.change(ctx, t.config.DB, func(tx *sql.Tx) error {
		if err := t.spare(ctx, tx, name); err != nil {
			return err
		}
		var id string
		err := tx.QueryRowContext(ctx, `SELECT account FROM account_names WHERE realm = $1
			AND name = $2`, t.config.Realm, name).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return ErrUnknown
		}
		for _, table := range []string{`account_names WHERE account`, `accounts WHERE id`} {
			if err == nil {
				_, err = database.Exec(ctx, tx, `DELETE FROM `+table+` = $1`, id)
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("accounts: delete %q: %w", name, err)
	}
	return nil
}

func (t *Table) update(ctx context.Context, name, set string, args ...any) error {
	return t.updateWhere(ctx, name, `TRUE`, false, set, args...)
}

// updateWhere updates an account that satisfies where; any other is ErrUnknown. With spare it returns ErrLast for the
// last administrator.
func (t *Table) updateWhere(ctx context.Context, name, where string, spare bool, set string, args ...any) error {
	name, err := t.config.Normalise(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	}
	args = append([]any{t.config.Realm, name, t.config.Now().UnixMilli()}, args...)
	err = t.change(ctx, t.config.DB, func(tx *sql.Tx) error {
		if spare {
			if err := t.spare(ctx, tx, name); err != nil {
				return err
			}
		}
		n, err := database.Exec(ctx, tx, `UPDATE accounts SET changed_at = $3, `+set+
			` WHERE `+where+` AND id = (SELECT account FROM account_names WHERE realm = $1 AND name = $2)`, args...)
		if err == nil && n == 0 {
			err = ErrUnknown
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("accounts: change %q: %w", name, err)
	}
	return nil
}

// change runs do in a transaction and announces it to all nodes. If another transaction takes the same name first, it
// returns ErrTaken.
func (t *Table) change(ctx context.Context, db database.Beginner, do func(*sql.Tx) error) error {
	err := database.InTx(ctx, db, func(tx *sql.Tx) error {
		if err := do(tx); err != nil {
			return err
		}
		return database.Announce(ctx, tx, database.AccountsChanged)
	})
	if database.Taken(err) {
		return ErrTaken
	}
	return err
}

func nullable(text string) sql.NullString { return sql.NullString{String: text, Valid: text != ""} }
