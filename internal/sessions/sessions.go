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

// The session values that the table has in columns of its own: strings, but for IdleKey,
// after how long unused the session ends, an int64 of milliseconds (0: never).
const (
	AccountKey = "account"
	DoorKey    = "door"
	AddressKey = "address"
	AgentKey   = "agent" // what the browser calls itself
	IdleKey    = "idle"
)

// ErrUnknown says that an account has no such session.
var ErrUnknown = errors.New("sessions: no such session")

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

// Store is an scs.CtxStore. It is safe for concurrent use. It cannot list sessions as
// scs would have it, since it does not know their tokens; see Of.
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

// FindCtx returns a session's data; false if there is none, or it has expired, was
// unused for too long or was ended.
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

// running is the condition that a session goes on at the moment of the nth argument.
func running(n int) string {
	return fmt.Sprintf(`expires_at > $%[1]d AND ended_at = 0 AND (idle_for = 0 OR seen_at + idle_for > $%[1]d)`, n)
}

// CommitCtx writes a session. One that was ended while its request was still running
// stays ended; one that DeleteAccount deleted is written again: to trust a session,
// compare the account's version too.
func (s *Store) CommitCtx(ctx context.Context, token string, data []byte, expiry time.Time) error {
	_, values, err := scs.GobCodec{}.Decode(data) // since scs hands a store nothing else
	if err != nil {
		return fmt.Errorf("sessions: commit: %w", err)
	}
	text := func(key string) string { value, _ := values[key].(string); return sqltx.Clean(value) }
	idle, _ := values[IdleKey].(int64)
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	_, err = s.config.DB.ExecContext(ctx, `INSERT INTO sessions
		(token_hash, realm, data, account, door, address, agent, idle_for, started_at, seen_at, expires_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10)
		ON CONFLICT (token_hash) DO UPDATE
			SET data = excluded.data, account = excluded.account, expires_at = excluded.expires_at WHERE sessions.ended_at = 0`,
		ID(token), s.config.Realm, base64.StdEncoding.EncodeToString(data), text(AccountKey), text(DoorKey), text(AddressKey),
		text(AgentKey), idle,
		s.config.Now().UnixMilli(), expiry.Add(s.config.Ahead()).UnixMilli())
	if err != nil {
		return fmt.Errorf("sessions: commit: %w", err)
	}
	return nil
}

// touchEvery is how exactly it is known when a session was used last.
const touchEvery = time.Minute

// Touch notes that a session is used, at most once a minute.
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

// A Session is what an account's owner is told of one.
type Session struct {
	// ID names it and lets nobody in.
	ID      string    `json:"id"`
	Door    string    `json:"integration"`
	Address string    `json:"address"`
	Agent   string    `json:"agent"` // what the browser calls itself
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`
	Ends    time.Time `json:"ends"` // used or not
}

// Of are the sessions of an account of the realm at a door that go on, the newest first;
// of all doors if none is named.
func (s *Store) Of(ctx context.Context, account, door string) (all []Session, err error) {
	err = sqltx.Each(ctx, s.config.DB, func(rows *sql.Rows) error {
		var one Session
		var started, seen, ends int64
		err := rows.Scan(&one.ID, &one.Door, &one.Address, &one.Agent, &started, &seen, &ends)
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

// End ends a session of an account by its ID. The error is ErrUnknown if the account has
// no such session that goes on.
func (s *Store) End(ctx context.Context, account, id string) error {
	n, err := s.end(ctx, `account = $3 AND token_hash = $4`, account, id)
	if err == nil && n == 0 {
		err = ErrUnknown
	}
	return err
}

// EndOthers ends all sessions of an account at a door but one, or all but one at all doors
// if none is named, and returns how many went on.
func (s *Store) EndOthers(ctx context.Context, account, door, but string) (int64, error) {
	return s.end(ctx, `account = $3 AND (door = $4 OR $4 = '') AND token_hash <> $5`, account, door, but)
}

func (s *Store) end(ctx context.Context, which string, args ...any) (int64, error) {
	args = append([]any{s.config.Now().UnixMilli(), s.config.Realm}, args...)
	n, err := sqltx.Exec(ctx, s.config.DB, `UPDATE sessions SET ended_at = $1, data = '' WHERE realm = $2
		AND `+running(1)+` AND `+which, args...)
	if err != nil {
		return 0, fmt.Errorf("sessions: end: %w", err)
	}
	return n, nil
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
		ON CONFLICT (token_hash) DO UPDATE
			SET data = excluded.data`, ID(s.proof), strings.Repeat(rand.Text(), proofTexts), endedLongAgo)
	if err != nil {
		return fmt.Errorf("sessions: write: %w", err)
	}
	return nil
}

// DeleteCtx ends one session. It is no error if there is none.
func (s *Store) DeleteCtx(ctx context.Context, token string) error {
	_, err := s.end(ctx, `token_hash = $3`, ID(token))
	return err
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

// ID names the session of a token, and does not lead back to it.
func ID(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
