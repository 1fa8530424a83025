package accounts

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"authguard/internal/passwords"
)

// queryTime bounds a look-up in somebody else's database.
const queryTime = 3 * time.Second

// SQLSourceConfig configures an SQLSource.
type SQLSourceConfig struct {
	// DB is somebody else's; open it so that it cannot write
	// (database.OpenReadOnly).
	DB *sql.DB
	// Query selects the bcrypt hash of a name, e.g.
	// "SELECT password_hash FROM users WHERE email = ?". Every ? is the name,
	// as is $1. NULL is an account without a password.
	Query string
	// Canonical, if set, selects the one name of the account that a name
	// belongs to, likewise. Without it every name is its own account.
	Canonical string
}

// SQLSource is a Source in somebody else's database. It never writes. It is safe
// for concurrent use; the caller closes the database.
type SQLSource struct {
	db                 *sql.DB
	query, canonical   string
	queryN, canonicalN int
}

var _ Source = (*SQLSource)(nil)

// NewSQLSource checks that the queries only read.
func NewSQLSource(config SQLSourceConfig) (*SQLSource, error) {
	if config.DB == nil {
		return nil, errors.New("accounts: sql: DB is missing")
	}
	s := &SQLSource{db: config.DB, query: config.Query, canonical: config.Canonical}
	var problem error
	if s.queryN, problem = placeholders(s.query); problem != nil {
		return nil, fmt.Errorf("accounts: sql: query: %w", problem)
	}
	if s.canonical == "" {
		return s, nil
	}
	if s.canonicalN, problem = placeholders(s.canonical); problem != nil {
		return nil, fmt.Errorf("accounts: sql: canonical: %w", problem)
	}
	return s, nil
}

// FindForLogin implements Source. A name that leads to two rows is an error: one
// of them would be let in with the password of the other.
func (s *SQLSource) FindForLogin(ctx context.Context, name string) (Login, bool, error) {
	hash, found, err := s.one(ctx, s.query, s.queryN, name)
	if err != nil || !found {
		return Login{}, false, err
	}
	account, err := s.CanonicalOf(ctx, name)
	if err != nil {
		return Login{}, false, err
	}
	return Login{
		Account:  account,
		Password: passwords.Stored{Hash: hash, Usable: hash != ""},
		Role:     User,
		Version:  versionOf(hash),
	}, true, nil
}

// CanonicalOf is the one name of the account that a name belongs to; the name
// itself if there is no such account or no query for it. It asks the database.
func (s *SQLSource) CanonicalOf(ctx context.Context, name string) (string, error) {
	if s.canonical == "" {
		return name, nil
	}
	canonical, found, err := s.one(ctx, s.canonical, s.canonicalN, name)
	if err != nil || !found || canonical == "" {
		return name, err
	}
	return canonical, nil
}

// one reads the first column of the only row.
func (s *SQLSource) one(ctx context.Context, query string, n int, name string) (text string, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	args := make([]any, n)
	for i := range args {
		args[i] = name
	}
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return "", false, fmt.Errorf("accounts: sql: %w", err)
	}
	defer rows.Close()
	var value sql.NullString
	for rows.Next() {
		if found {
			return "", false, errors.New("accounts: sql: more than one row for a name; add a condition or LIMIT 1")
		}
		found = true
		if err := rows.Scan(&value); err != nil {
			return "", false, fmt.Errorf("accounts: sql: %w", err)
		}
	}
	if err := rows.Err(); err != nil {
		return "", false, fmt.Errorf("accounts: sql: %w", err)
	}
	return value.String, found, nil
}

var (
	quoted = regexp.MustCompile(`'(?:[^']|'')*'|"[^"]*"`)
	dollar = regexp.MustCompile(`\$1\b`)
)

// placeholders counts the arguments of a query that reads. That it reads is a
// check for mistakes, not for malice: the query is the operator's own.
func placeholders(query string) (int, error) {
	bare := strings.TrimSpace(quoted.ReplaceAllString(query, "''"))
	word, _, _ := strings.Cut(strings.ToUpper(bare), " ")
	if word != "SELECT" && word != "WITH" {
		return 0, errors.New("must be a SELECT")
	}
	if strings.Contains(strings.TrimSuffix(bare, ";"), ";") {
		return 0, errors.New("must be one statement")
	}
	if n := strings.Count(bare, "?"); n > 0 {
		return n, nil
	}
	if !dollar.MatchString(bare) {
		return 0, errors.New("needs ? or $1 where the name goes")
	}
	return 1, nil
}

// versionOf changes when the password does. It is a digest of a salted hash, cut
// to 63 bits: nothing can be recovered from it.
func versionOf(hash string) int64 {
	sum := sha256.Sum256([]byte("authguard account version\x00" + hash))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 1)
}
