package accounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/database"
	"authguard/internal/operation"
)

// The prefixes of all tokens, and of those with scopes, let secret scanners find committed tokens:
// authguard_(admin_)?[A-Z2-7]{26}.
const (
	tokenPrefix      = "authguard_"
	adminTokenPrefix = tokenPrefix + "admin_"
)

const (
	// MaxTokenLife and tokenLife are the maximum and default validity of tokens with scopes. Tokens of the decision API
	// are valid until revoked.
	MaxTokenLife = 366 * 24 * time.Hour
	tokenLife    = 90 * 24 * time.Hour

	mostTokens = 1000 // in all realms: each request is compared with all
)

var (
	// ErrTokenTaken means that the realm already has a token of this name.
	ErrTokenTaken = errors.New("accounts: the realm already has a token of this name; choose another name or revoke that " +
		"token first")
	// ErrTokenUnknown means that the realm has no token of this name.
	ErrTokenUnknown = errors.New("accounts: no such token in this realm; `authguard token list` shows all")
)

var tokenNamePattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Token is a stored token.
type Token struct {
	Realm     string            `json:"realm"`
	Name      string            `json:"name"`
	CreatedBy string            `json:"by"`
	CreatedAt time.Time         `json:"created"`
	Scopes    []operation.Scope `json:"scopes,omitempty"`   // none: decision API
	ExpiresAt time.Time         `json:"expires,omitzero"`   // zero: never
	UsedAt    time.Time         `json:"last_used,omitzero"` // with scopes only; zero: never
	Sum       [sha256.Size]byte `json:"-"`
	// Confined restricts a token with scopes to its realm; otherwise it is valid for all. Tokens of the decision API
	// always belong to their realm.
	Confined bool `json:"confined,omitempty"`
	// Maker is the administrator who created a token with scopes: it is valid while they are an administrator. Empty for a
	// command on the server.
	Maker string `json:"-"`
}

// TokenRequest describes a new token. Realm and Name are required. By is the requester.
type TokenRequest struct {
	Realm, Name, By, Maker string
	Scopes                 []operation.Scope
	For                    time.Duration // with scopes only; 0: 90 days
	Confined               bool          // to Realm; with scopes only
}

// Tokens are the bearer tokens in the table api_tokens: those of the decision API, whose digests package web also holds
// in memory, and those of the admin API, which have scopes. Neither kind is valid for the other API. A token is 130
// random bits, so its plain SHA-256 is enough: a leaked database gives no access. Tokens are safe for concurrent use,
// even by several processes.
type Tokens struct{ db *sql.DB }

// NewTokens returns the Tokens of a migrated database.
func NewTokens(db *sql.DB) *Tokens { return &Tokens{db} }

// Add creates a token of a realm. Only its hash is stored: show it once. Errors are operation.ErrAsked and
// ErrTokenTaken.
func (t *Tokens) Add(ctx context.Context, a TokenRequest, now time.Time) (text string, made Token, err error) {
	if err := a.check(); err != nil {
		return "", Token{}, err
	}
	now = now.Truncate(time.Millisecond)
	made = Token{Realm: a.Realm, Name: a.Name, CreatedBy: database.Clean(a.By), CreatedAt: now, Scopes: a.Scopes,
		Maker: a.Maker, Confined: a.Confined}
	text = tokenPrefix + rand.Text()
	if len(a.Scopes) > 0 {
		text, made.ExpiresAt = adminTokenPrefix+rand.Text(), now.Add(cmp.Or(a.For, tokenLife))
	}
	made.Sum = sha256.Sum256([]byte(text))
	err = t.change(ctx, ErrTokenTaken, `INSERT INTO api_tokens (token_hash, realm, name, created_by, created_at, scopes, maker,
		expires_at, confined)
		SELECT $1, $2, $3, $4, CAST($5 AS BIGINT), $6, $7, CAST($8 AS BIGINT), CAST($9 AS BOOLEAN) WHERE (SELECT COUNT(*)
			FROM api_tokens) < $10 ON CONFLICT (realm, name) DO NOTHING`,
		hex.EncodeToString(made.Sum[:]), a.Realm, a.Name, made.CreatedBy, now.UnixMilli(), joined(a.Scopes), a.Maker,
		database.Milliseconds(made.ExpiresAt), a.Confined, mostTokens)
	if errors.Is(err, ErrTokenTaken) {
		if all, failed := t.All(ctx); failed == nil && len(all) >= mostTokens {
			err = fmt.Errorf("%w: at most %d tokens: revoke one first", operation.ErrAsked, mostTokens)
		}
	}
	if err != nil {
		return "", Token{}, err
	}
	return text, made, nil
}

func (a *TokenRequest) check() error {
	if !tokenNamePattern.MatchString(a.Name) {
		return fmt.Errorf("%w: a name is 1 to 64 letters, digits, dots, dashes or underscores, and begins with a letter or "+
			"digit", operation.ErrAsked)
	}
	for _, scope := range a.Scopes {
		if !slices.Contains(operation.Scopes(), scope) {
			return fmt.Errorf("%w: a scope must be read, unlock, lists, accounts, groups, mode, alerts, policy or admin",
				operation.ErrAsked)
		}
		if a.Confined && slices.Contains(operation.OverAll(), scope) {
			return fmt.Errorf("%w: the scopes lists, alerts and admin apply to all realms: a token of one realm cannot have "+
				"them", operation.ErrAsked)
		}
	}
	if a.For != 0 && (len(a.Scopes) == 0 || a.For < time.Minute || a.For > MaxTokenLife) {
		return fmt.Errorf("%w: a token with scopes must be valid for a minute to 366 days", operation.ErrAsked)
	}
	return nil
}

// usedEvery is the resolution of UsedAt.
const usedEvery = time.Minute

// Find returns a token with scopes by its text, and updates UsedAt. It returns false for unknown or expired tokens, for
// those of the decision API, and if the maker is disabled or no longer an administrator: a token may never do more than
// its maker.
func (t *Tokens) Find(ctx context.Context, text string, now time.Time) (found Token, ok bool, err error) {
	if !strings.HasPrefix(text, adminTokenPrefix) || len(text) > 2*len(adminTokenPrefix)+26 {
		return Token{}, false, nil
	}
	sum := sha256.Sum256([]byte(text))
	err = t.each(ctx, func(one Token) { found, ok = one, true }, `WHERE token_hash = $1 AND scopes <> ''
		AND expires_at > $2
		AND (maker = '' OR EXISTS (SELECT 1 FROM accounts WHERE realm = $3 AND username = maker AND role = 'admin'
			AND NOT disabled))`,
		hex.EncodeToString(sum[:]), now.UnixMilli(), guard.DefaultRealm)
	if err == nil && ok && now.Sub(found.UsedAt) >= usedEvery {
		_, err = database.Exec(ctx, t.db, `UPDATE api_tokens SET used_at = $1 WHERE token_hash = $2
			AND used_at < $1`, now.UnixMilli(), hex.EncodeToString(sum[:]))
	}
	if err != nil {
		return Token{}, false, fmt.Errorf("accounts: %w", err)
	}
	return found, ok, nil
}

// Revoke deletes a token, or returns ErrTokenUnknown.
func (t *Tokens) Revoke(ctx context.Context, realm, name string) error {
	return t.change(ctx, ErrTokenUnknown, `DELETE FROM api_tokens WHERE realm = $1 AND name = $2`, realm, database.Clean(name))
}

// RevokeOf deletes all tokens that an administrator created: an attacker may have created them.
func (t *Tokens) RevokeOf(ctx context.Context, maker string) error {
	none := errors.New("accounts: invalid token")
	if err := t.change(ctx, none, `DELETE FROM api_tokens WHERE maker = $1`, database.Clean(maker)); !errors.Is(err, none) {
		return err
	}
	return nil
}

// change runs one statement and notifies all nodes, or returns none if it changed nothing.
func (t *Tokens) change(ctx context.Context, none error, statement string, args ...any) error {
	err := database.InTx(ctx, t.db, func(tx *sql.Tx) error {
		if rows, err := database.Exec(ctx, tx, statement, args...); err != nil {
			return err
		} else if rows == 0 {
			return none
		}
		return database.Announce(ctx, tx, database.TokensChanged)
	})
	if err != nil && !errors.Is(err, none) {
		err = fmt.Errorf("accounts: %w", err)
	}
	return err
}

// All returns every token, by realm and name.
func (t *Tokens) All(ctx context.Context) (all []Token, err error) {
	err = t.each(ctx, func(one Token) { all = append(all, one) }, `ORDER BY realm, name`)
	if err != nil {
		return nil, fmt.Errorf("accounts: %w", err)
	}
	return all, nil
}

func (t *Tokens) each(ctx context.Context, add func(Token), which string, args ...any) error {
	return database.Each(ctx, t.db, func(rows *sql.Rows) error {
		var one Token
		var sum, scopes string
		var created, expires, used int64
		if err := rows.Scan(&sum, &one.Realm, &one.Name, &one.CreatedBy, &created, &scopes, &one.Maker, &expires, &used,
			&one.Confined); err != nil {
			return err
		}
		one.CreatedAt, one.ExpiresAt, one.UsedAt = database.Time(created), database.Time(expires), database.Time(used)
		for _, scope := range strings.Fields(scopes) {
			one.Scopes = append(one.Scopes, operation.Scope(scope))
		}
		if n, err := hex.Decode(one.Sum[:], []byte(sum)); err != nil || n != len(one.Sum) {
			return fmt.Errorf("the digest of %q cannot be read", one.Name)
		}
		add(one)
		return nil
	}, `SELECT token_hash, realm, name, created_by, created_at, scopes, maker, expires_at, used_at, confined
		FROM api_tokens `+which, args...)
}

func joined(scopes []operation.Scope) string {
	all := make([]string, len(scopes))
	for i, one := range scopes {
		all[i] = string(one)
	}
	return strings.Join(all, " ")
}
