// Package sessions keeps login sessions in the SQL database, for
// alexedwards/scs and its GobCodec.
//
// Only a SHA-256 of each token is kept, so that a leaked database lets nobody
// in. A token is 256 random bits, so a plain hash is enough. Leave
// scs.SessionManager.HashTokenInStore off. Sessions know their account, so that
// all sessions of one account can be ended at once.
package sessions

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"

	"authguard/guard"
	"authguard/internal/sqltx"
)

// AccountKey is the session value that names the account, a string.
const AccountKey = "account"

const (
	// maxToken is longer than any token of scs (43 bytes), so that what a
	// stranger sends as one costs little to hash.
	maxToken = 256
	// queryTime bounds what a request waits for, the wait for a connection
	// included.
	queryTime = 3 * time.Second
)

// Config configures a Store. DB is required and has been migrated.
type Config struct {
	DB *sql.DB
	// Realm is whose sessions these are: a token of another realm's is none here.
	// Default guard.DefaultRealm.
	Realm string
	Now   func() time.Time // default time.Now
	// Ahead is how far Now is ahead of time.Now, by which scs says when a session
	// ends; nil: it is not.
	Ahead func() time.Duration
}

// Store is an scs.CtxStore. It is safe for concurrent use. It cannot list
// sessions: it does not know their tokens.
type Store struct {
	config Config
	proof  string // the token of nobody's session, which Prove writes
}

var (
	_ scs.Store    = (*Store)(nil)
	_ scs.CtxStore = (*Store)(nil)
)

// New makes a Store and starts nothing.
func New(config Config) (*Store, error) {
	if config.DB == nil {
		return nil, errors.New("sessions: DB is missing")
	}
	config.Realm = cmp.Or(config.Realm, guard.DefaultRealm)
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Ahead == nil {
		config.Ahead = func() time.Duration { return 0 }
	}
	return &Store{config: config, proof: rand.Text()}, nil
}

// FindCtx returns a session's data; false if there is none or it has expired.
func (s *Store) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	if len(token) > maxToken {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var text string
	err = s.config.DB.QueryRowContext(ctx, `SELECT data FROM sessions WHERE token_hash = $1 AND realm = $2 AND expires_at > $3`,
		hash(token), s.config.Realm, s.config.Now().UnixMilli()).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, false, nil
	}
	if err == nil {
		data, err = base64.StdEncoding.DecodeString(text)
	}
	if err != nil {
		return nil, false, fmt.Errorf("sessions: find: %w", err)
	}
	return data, true, nil
}

// CommitCtx writes a session. One that was ended while its request was still
// running is written again: to trust a session, compare the account's version
// too.
func (s *Store) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	account, err := accountOf(data)
	if err != nil {
		return fmt.Errorf("sessions: commit: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	_, err = s.config.DB.ExecContext(ctx, `INSERT INTO sessions (token_hash, realm, data, account, expires_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (token_hash) DO UPDATE SET data = excluded.data, account = excluded.account, expires_at = excluded.expires_at`,
		hash(token), s.config.Realm, base64.StdEncoding.EncodeToString(data), account, expiry.Add(s.config.Ahead()).UnixMilli())
	if err != nil {
		return fmt.Errorf("sessions: commit: %w", err)
	}
	return nil
}

const (
	// proofTexts make a proof eight pages long, more than a session and the page
	// splits that it may cause, so that a disk with room for a proof has room for a
	// login.
	proofTexts = 32 << 10 / 26
	// endedLongAgo is when a proof expired, and no session of anybody's.
	endedLongAgo = 0
)

// Prove writes what a login writes, into the same table: a session, but nobody's,
// and one that ended long ago, which Purge deletes. Its data differs each time: SQLite
// writes no page that stays as it was.
func (s *Store) Prove(ctx context.Context) error {
	_, err := s.config.DB.ExecContext(ctx, `INSERT INTO sessions (token_hash, data, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (token_hash) DO UPDATE SET data = excluded.data`, hash(s.proof), strings.Repeat(rand.Text(), proofTexts), endedLongAgo)
	if err != nil {
		return fmt.Errorf("sessions: write: %w", err)
	}
	return nil
}

// DeleteCtx ends one session. It is no error if there is none.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	if _, err := s.config.DB.ExecContext(ctx, `DELETE FROM sessions WHERE token_hash = $1`, hash(token)); err != nil {
		return fmt.Errorf("sessions: delete: %w", err)
	}
	return nil
}

// DeleteAccount ends all sessions of an account of the realm and returns how many there were.
func (s *Store) DeleteAccount(ctx context.Context, account string) (int64, error) {
	if account == "" {
		return 0, nil // sessions that nobody has logged in to yet
	}
	return s.delete(ctx, `DELETE FROM sessions WHERE account = $1 AND realm = $2`, account, s.config.Realm)
}

// Purge deletes expired sessions of all realms and returns how many there were. Proofs go too, and
// are not counted.
func (s *Store) Purge(ctx context.Context) (int64, error) {
	if _, err := s.delete(ctx, `DELETE FROM sessions WHERE expires_at = $1`, endedLongAgo); err != nil {
		return 0, err
	}
	return s.delete(ctx, `DELETE FROM sessions WHERE expires_at <= $1`, s.config.Now().UnixMilli())
}

func (s *Store) delete(ctx context.Context, query string, args ...any) (int64, error) {
	rows, err := sqltx.Exec(ctx, s.config.DB, query, args...)
	if err != nil {
		return 0, fmt.Errorf("sessions: delete: %w", err)
	}
	return rows, nil
}

// Find is FindCtx without a context.
func (s *Store) Find(token string) ([]byte, bool, error) {
	return s.FindCtx(context.Background(), token)
}

// Commit is CommitCtx without a context.
func (s *Store) Commit(token string, data []byte, expiry time.Time) error {
	return s.CommitCtx(context.Background(), token, data, expiry)
}

// Delete is DeleteCtx without a context.
func (s *Store) Delete(token string) error { return s.DeleteCtx(context.Background(), token) }

// accountOf decodes the data, since scs hands a store nothing else. Only a
// session that changes costs that.
func accountOf(data []byte) (string, error) {
	_, values, err := scs.GobCodec{}.Decode(data)
	account, _ := values[AccountKey].(string)
	return account, err
}

func hash(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
