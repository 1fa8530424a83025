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

	"authguard/internal/database"
)

// SQLSourceConfig configures an SQLSource.
type SQLSourceConfig struct {
	// DB belongs to another program; open it read-only (database.OpenReadOnly).
	DB *sql.DB
	// Query selects the hash of a name, e.g. "SELECT password_hash FROM users WHERE email = ?". Every ? is the name, as is
	// $1. In a query with $1, ? stays PostgreSQL's operator. NULL is an account without a password. Further columns must
	// be called email and groups (names separated by commas).
	Query string
	// Canonical, if set, selects the canonical name of a name's account in the same way. Without it every name is its own
	// account.
	Canonical string
}

// SQLSource is a Source in another program's database. It never writes. It is safe for concurrent use; the caller
// closes the database.
type SQLSource struct {
	db               *sql.DB
	query, canonical string // with $1 for the name, which both databases support
}

var _ Source = (*SQLSource)(nil)

// NewSQLSource checks that the queries only read.
func NewSQLSource(config SQLSourceConfig) (*SQLSource, error) {
	if config.DB == nil {
		return nil, errors.New("accounts: sql: DB is missing")
	}
	query, err := withName(config.Query)
	if err != nil {
		return nil, fmt.Errorf("accounts: sql: query: %w", err)
	}
	canonical := ""
	if config.Canonical != "" {
		canonical, err = withName(config.Canonical)
	}
	if err != nil {
		return nil, fmt.Errorf("accounts: sql: canonical: %w", err)
	}
	return &SQLSource{config.DB, query, canonical}, nil
}

// FindForLogin implements Source. Two rows for one name are an error: one user could log in as the other.
func (s *SQLSource) FindForLogin(ctx context.Context, name string) (Login, bool, error) {
	row, found, err := s.row(ctx, s.query, name)
	if err != nil {
		return Login{}, false, err
	}
	account, err := s.CanonicalOf(ctx, name) // for unknown names, too: lookups take as long (R12)
	if err != nil || !found {
		return Login{}, false, err
	}
	l := foreign(account, row[0])
	if email := strings.TrimSpace(row[1]); printable(email) {
		l.Email = email
	}
	l.Groups = foreignGroups(row[2])
	return l, true, nil
}

// CanonicalOf queries the canonical name of an account. It returns the name itself if the account or the query does not
// exist.
func (s *SQLSource) CanonicalOf(ctx context.Context, name string) (string, error) {
	if s.canonical == "" {
		return name, nil
	}
	row, found, err := s.row(ctx, s.canonical, name)
	if err != nil || !found || row[0] == "" {
		return name, err
	}
	return row[0], nil
}

// Try looks up an account that does not exist.
func (s *SQLSource) Try(ctx context.Context) error {
	_, _, err := s.row(ctx, s.query, "authguard-doctor")
	return err
}

// row reads the first column of the only row, and the columns email and groups.
func (s *SQLSource) row(ctx context.Context, query, name string) (row [3]string, found bool, err error) {
	if !database.Holds(name) {
		return row, false, nil // no account can have that name
	}
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	var values [3]sql.NullString
	err = database.Each(ctx, s.db, func(rows *sql.Rows) error {
		if found {
			return errors.New("more than one row for a name: add a condition or LIMIT 1")
		}
		found = true
		columns, err := rows.Columns()
		if err != nil {
			return err
		}
		into := make([]any, len(columns))
		for i, column := range columns {
			switch column = strings.ToLower(column); {
			case i == 0:
				into[i] = &values[0]
			case column == "email":
				into[i] = &values[1]
			case column == "groups":
				into[i] = &values[2]
			default:
				return fmt.Errorf("column %d is called %.40q: the first is the hash, others must be called email or groups "+
					"(SELECT … AS email)", i+1, column)
			}
		}
		return rows.Scan(into...)
	}, query, name)
	if err != nil {
		return row, false, fmt.Errorf("accounts: sql: %w", err)
	}
	for i, value := range values {
		row[i] = value.String
	}
	return row, found, nil
}

var (
	quoted    = regexp.MustCompile(`'(?:[^']|'')*'|"[^"]*"`)
	marked    = regexp.MustCompile(quoted.String() + `|\?`)
	firstWord = regexp.MustCompile(`^\w+`)
	dollar    = regexp.MustCompile(`\$1\b`)
)

// readable checks that a query only reads, and returns it without quoted parts. It detects mistakes, not attacks: the
// query is the administrator's own.
func readable(query string) (bare string, err error) {
	bare = strings.TrimSpace(quoted.ReplaceAllString(query, "''"))
	word := strings.ToUpper(firstWord.FindString(bare))
	switch {
	case word != "SELECT" && word != "WITH":
		return "", errors.New("must be a SELECT")
	case strings.Contains(strings.TrimSuffix(bare, ";"), ";"):
		return "", errors.New("must be one statement")
	}
	return bare, nil
}

// withName replaces every ? by $1 in a reading query.
func withName(query string) (string, error) {
	bare, err := readable(query)
	switch {
	case err != nil:
		return "", err
	case dollar.MatchString(bare):
		return query, nil
	case !strings.Contains(bare, "?"):
		return "", errors.New("must contain ? or $1 for the name")
	}
	return marked.ReplaceAllStringFunc(query, func(part string) string {
		if part == "?" {
			return "$1"
		}
		return part
	}), nil
}

// foreign returns the login of another program's account. Its version changes with the password: a digest of the salted
// hash, cut to 63 bits. It reveals nothing about the hash.
func foreign(account, hash string) Login {
	sum := sha256.Sum256([]byte("authguard account version\x00" + hash))
	version := int64(binary.BigEndian.Uint64(sum[:]) >> 1)
	return Login{Account: account, Password: stored(hash, true), Role: User, Version: version}
}
