// Package sessions stores login sessions in the SQL database, for alexedwards/scs and its GobCodec.
//
// It stores only a SHA-256 of each token, so a leaked database lets no attacker in. Tokens are 256 random bits, so a
// plain hash is enough. Leave scs.SessionManager.HashTokenInStore off. Sessions know their account, so all sessions of
// an account can be ended at once.
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
	"authguard/internal/database"
)

// The session values with their own table columns: strings, except IdleKey, the idle timeout as int64 milliseconds (0:
// none).
const (
	AccountKey     = "account"
	IntegrationKey = "door"
	AddressKey     = "address"
	AgentKey       = "agent" // User-Agent
	IdleKey        = "idle"
)

// ErrUnknown means that an account has no such session.
var ErrUnknown = errors.New("sessions: no such session")

const (
	// maxToken exceeds the length of scs's tokens (43 bytes). It bounds the cost of hashing what an attacker sends as a
	// token.
	maxToken = 256
	// queryTime is the timeout of a query during a request, including the wait for a connection.
	queryTime = 3 * time.Second
)

// Config configures a Store. DB is required and must be migrated.
type Config struct {
	DB *sql.DB
	// Realm owns the sessions: tokens of other realms are not valid. Default guard.DefaultRealm.
	Realm string
	Now   func() time.Time // default time.Now
	// Ahead is how far Now is ahead of time.Now, which scs uses for expiry times; nil: 0.
	Ahead func() time.Duration
}

// Store is an scs.CtxStore. It is safe for concurrent use. It cannot list sessions for scs, because it does not know
// their tokens; see Of.
type Store struct {
	config Config
	proof  string // token of the dummy session that Prove writes
}

var (
	_ scs.Store    = (*Store)(nil)
	_ scs.CtxStore = (*Store)(nil)
)

// New returns a Store.
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

// FindCtx returns a session's data; false if it does not exist, has expired, was idle for too long or was ended.
func (s *Store) FindCtx(ctx context.Context, token string) (data []byte, found bool, err error) {
	if len(token) > maxToken {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var text string
	err = s.config.DB.QueryRowContext(ctx, `SELECT data FROM sessions WHERE token_hash = $1 AND realm = $2
		AND `+running(3),
		ID(token), s.config.Realm, s.config.Now().UnixMilli()).Scan(&text)
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

// running is the condition that a session is valid at the time in the nth argument.
func running(n int) string {
	return fmt.Sprintf(`expires_at > $%[1]d AND ended_at = 0 AND (idle_for = 0 OR seen_at + idle_for > $%[1]d)`, n)
}

// CommitCtx writes a session. A session ended during its request stays ended, but one that DeleteAccount deleted is
// written again. To trust a session, also compare the account's version.
func (s *Store) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	_, values, err := scs.GobCodec{}.Decode(data) // scs passes nothing else to a store
	if err != nil {
		return fmt.Errorf("sessions: commit: %w", err)
	}
	text := func(key string) string { value, _ := values[key].(string); return database.Clean(value) }
	idle, _ := values[IdleKey].(int64)
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	_, err = s.config.DB.ExecContext(
		ctx,
		`INSERT INTO sessions
		(token_hash, realm, data, account, door, address, agent, idle_for, started_at, seen_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10)
		ON CONFLICT (token_hash) DO UPDATE
			SET data = excluded.data, account = excluded.account, expires_at = excluded.expires_at WHERE sessions.ended_at = 0`,
		ID(
			token,
		),
		s.config.Realm,
		base64.StdEncoding.EncodeToString(data),
		text(AccountKey),
		text(IntegrationKey),
		text(AddressKey),
		text(AgentKey),
		idle,
		s.config.Now().UnixMilli(),
		expiry.Add(s.config.Ahead()).UnixMilli(),
	)
	if err != nil {
		return fmt.Errorf("sessions: commit: %w", err)
	}
	return nil
}

// touchEvery is the resolution of the last use.
const touchEvery = time.Minute

// Touch records the use of a session, at most once a minute.
func (s *Store) Touch(ctx context.Context, token string) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var seen int64
	now := s.config.Now().UnixMilli()
	err := s.config.DB.QueryRowContext(ctx, `SELECT seen_at FROM sessions WHERE token_hash = $1`, ID(token)).Scan(&seen)
	if err == nil && now-seen >= touchEvery.Milliseconds() {
		_, err = s.config.DB.ExecContext(ctx, `UPDATE sessions SET seen_at = $1 WHERE token_hash = $2
			AND seen_at < $1`, now, ID(token))
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("sessions: touch: %w", err)
	}
	return nil
}

// Session is a session as the account's owner sees it.
type Session struct {
	// ID identifies the session and is useless for login.
	ID          string    `json:"id"`
	Integration string    `json:"integration"`
	Address     string    `json:"address"`
	Agent       string    `json:"agent"` // User-Agent
	Started     time.Time `json:"started"`
	Seen        time.Time `json:"seen"`
	Ends        time.Time `json:"ends"` // absolute end, even if used
}

// Of returns the valid sessions of an account of the realm at an integration (door), the newest first; at all
// integrations if door is empty.
func (s *Store) Of(ctx context.Context, account, door string) (all []Session, err error) {
	err = database.Each(ctx, s.config.DB, func(rows *sql.Rows) error {
		var one Session
		var started, seen, ends int64
		err := rows.Scan(&one.ID, &one.Integration, &one.Address, &one.Agent, &started, &seen, &ends)
		one.Started, one.Seen, one.Ends = time.UnixMilli(started), time.UnixMilli(seen), time.UnixMilli(ends)
		all = append(all, one)
		return err
	}, `SELECT token_hash, door, address, agent, started_at, seen_at, expires_at FROM sessions
		WHERE account = $1 AND (door = $2 OR $2 = '') AND realm = $3 AND `+running(4)+` ORDER BY started_at DESC, token_hash`,
		account, door, s.config.Realm, s.config.Now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("sessions: list: %w", err)
	}
	return all, nil
}

// End ends a session of an account by its ID. It returns ErrUnknown if the account has no such valid session.
func (s *Store) End(ctx context.Context, account, id string) error {
	n, err := s.end(ctx, `account = $3 AND token_hash = $4`, account, id)
	if err == nil && n == 0 {
		err = ErrUnknown
	}
	return err
}

// EndOthers ends all sessions of an account at an integration except but, or at all integrations if door is empty. It
// returns their number.
func (s *Store) EndOthers(ctx context.Context, account, door, but string) (int64, error) {
	return s.end(ctx, `account = $3 AND (door = $4 OR $4 = '') AND token_hash <> $5`, account, door, but)
}

func (s *Store) end(ctx context.Context, which string, args ...any) (int64, error) {
	args = append([]any{s.config.Now().UnixMilli(), s.config.Realm}, args...)
	n, err := database.Exec(ctx, s.config.DB, `UPDATE sessions SET ended_at = $1, data = '' WHERE realm = $2
		AND `+running(1)+` AND `+which, args...)
	if err != nil {
		return 0, fmt.Errorf("sessions: end: %w", err)
	}
	return n, nil
}

const (
	// proofTexts make a proof eight pages long, more than a session and the page splits it may cause. So a disk with room
	// for a proof has room for a login.
	proofTexts = 32 << 10 / 26
	// endedLongAgo is the expiry time of proofs; no real session has it.
	endedLongAgo = 0
)

// Prove tests a login's write with a dummy session that has expired and that Purge deletes. Its data differs each time,
// because SQLite does not write unchanged pages.
func (s *Store) Prove(ctx context.Context) error {
	_, err := s.config.DB.ExecContext(ctx, `INSERT INTO sessions (token_hash, data, expires_at) VALUES ($1, $2, $3)
		ON CONFLICT (token_hash) DO UPDATE
			SET data = excluded.data`, ID(s.proof), strings.Repeat(rand.Text(), proofTexts), endedLongAgo)
	if err != nil {
		return fmt.Errorf("sessions: write: %w", err)
	}
	return nil
}

// DeleteCtx ends one session. A missing session is no error.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.end(ctx, `token_hash = $3`, ID(token))
	return err
}

// DeleteAccount deletes all sessions of an account of the realm and returns their number.
func (s *Store) DeleteAccount(ctx context.Context, account string) (int64, error) {
	if account == "" {
		return 0, nil // sessions before their login
	}
	return s.delete(ctx, `DELETE FROM sessions WHERE account = $1 AND realm = $2`, account, s.config.Realm)
}

// Purge deletes expired sessions of all realms and returns their number, without proofs.
func (s *Store) Purge(ctx context.Context) (int64, error) {
	if _, err := s.delete(ctx, `DELETE FROM sessions WHERE expires_at = $1`, endedLongAgo); err != nil {
		return 0, err
	}
	return s.delete(ctx, `DELETE FROM sessions WHERE expires_at <= $1`, s.config.Now().UnixMilli())
}

func (s *Store) delete(ctx context.Context, query string, args ...any) (int64, error) {
	rows, err := database.Exec(ctx, s.config.DB, query, args...)
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

// ID returns the ID of a token's session; it does not reveal the token.
func ID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
