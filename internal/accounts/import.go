package accounts

import (
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"authguard/internal/database"
	"authguard/internal/operation"
)

const (
	// progressEvery is the number of bytes between two progress reports. A line whose password must be hashed is always
	// reported.
	progressEvery = 1 << 16
	// maxProblems is the number of bad lines that are reported one by one.
	maxProblems = 100
)

// ImportRequest is a file to import.
type ImportRequest struct {
	File   io.Reader `json:"-"`
	Format Format    `json:"format"`
	Size   int64     `json:"size"` // of the file in bytes, for Progress; 0: unknown
	// Groupless rejects lines with groups.
	Groupless bool `json:"-"`
	// Progress, if set, is called repeatedly, and at the end, with the number of bytes done. It runs in the importing
	// goroutine.
	Progress func(done, total int64) `json:"-"`
}

// ImportUsers adds the accounts of an uploaded file, all or none. The error is an *ImportError for invalid lines.
type ImportUsers struct {
	ImportRequest
	operation.Because
}

// Upload implements operation.Uploaded.
func (q *ImportUsers) Upload(file io.Reader, size int64, progress func(done, total int64)) {
	q.File, q.Size, q.Progress = file, size, progress
}

// Do implements Request.
func (q ImportUsers) Do(ctx context.Context, r *Realm, by operation.By) (*operation.Change, error) {
	switch {
	case q.Format != Htpasswd && q.Format != Shadow && q.Format != CSV:
		return nil, fmt.Errorf("%w: format: must be htpasswd, shadow or csv", operation.ErrAsked)
	case r.Elsewhere != "":
		return nil, r.elsewhere()
	}
	q.Groupless = !by.May(operation.Groups)
	n, err := r.Accounts.Import(ctx, q.ImportRequest)
	if err != nil {
		return nil, err
	}
	return &operation.Change{Action: operation.Action{Detail: fmt.Sprintf("%d accounts", n)},
		Answer: map[string]int{"imported": n}}, nil
}

// Import adds all accounts of a file or none, and returns their number. The error is *ImportError if lines are bad:
// unreadable, with an unsupported hash, or with a name that exists in the file or table.
//
// It stages the file in a temporary table in one pass. So the file's size does not matter, and logins only wait for the
// final copy.
func (t *Table) Import(ctx context.Context, request ImportRequest) (imported int, err error) {
	s := &stage{table: t}
	if err := s.run(ctx, request); err != nil {
		return 0, fmt.Errorf("accounts: import: %w", err)
	}
	if bad := s.bad.err(); bad != nil {
		return 0, bad
	}
	return s.rows, t.Refresh(ctx)
}

// errGroupless means that a line has groups although the request is Groupless.
var errGroupless = errors.New("groups need the scope groups")

// stage is the temporary table of one import. A temporary table belongs to one connection and takes no lock that a
// login waits for.
type stage struct {
	table *Table
	conn  *sql.Conn
	rows  int
	bad   ImportError

	reserved, stored *sql.Stmt // prepared statements halve the time of a long file
}

func (s *stage) run(ctx context.Context, request ImportRequest) error {
	slow, done, err := database.Unhurried(ctx, s.table.config.DB)
	if err != nil {
		return err
	}
	defer done()
	if s.conn, err = slow.Conn(ctx); err != nil {
		return err
	}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return err
	}
	if err := s.fill(ctx, request); err != nil || s.bad.err() != nil {
		return err
	}
	return s.commit(ctx)
}

// close discards the connection, even after ctx has ended: the pool drops a bad connection, and its tables with it.
// SQLite keeps the file open while statements exist, so they are closed first.
func (s *stage) close() {
	for _, one := range []*sql.Stmt{s.reserved, s.stored} {
		if one != nil {
			_ = one.Close()
		}
	}
	_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
}

func (s *stage) open(ctx context.Context) (err error) {
	for _, statement := range []string{
		`CREATE TEMPORARY TABLE import_accounts (id TEXT, username TEXT, email TEXT, member_of TEXT, hash TEXT)`,
		`CREATE TEMPORARY TABLE import_names (name TEXT PRIMARY KEY, line BIGINT)`,
	} {
		if _, err := s.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	for query, to := range map[string]**sql.Stmt{
		`INSERT INTO import_names (name, line) SELECT CAST($1 AS TEXT), CAST($2 AS BIGINT)
			WHERE NOT EXISTS (SELECT 1 FROM account_names WHERE realm = $3 AND name = $1) ON CONFLICT DO NOTHING`: &s.reserved,
		`INSERT INTO import_accounts (id, username, email, member_of, hash) VALUES ($1, $2, $3, $4, $5)`: &s.stored,
	} {
		if *to, err = s.conn.PrepareContext(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) fill(ctx context.Context, request ImportRequest) error {
	read := map[Format]func(io.Reader, func(entry, error) error) error{Htpasswd: eachHtpasswd, Shadow: eachShadow,
		CSV: eachCSV}[request.Format]
	if read == nil {
		return errors.New("unknown format")
	}
	told := int64(0)
	err := read(request.File, func(e entry, problem error) error {
		if problem == nil && request.Groupless && len(e.groups) > 0 {
			problem = errGroupless
		}
		err := s.take(ctx, e, problem)
		if request.Progress != nil && (e.offset-told >= progressEvery || e.password != "") {
			told = e.offset
			request.Progress(told, request.Size)
		}
		return err
	})
	if err == nil && request.Progress != nil {
		request.Progress(request.Size, request.Size)
	}
	return err
}

// take stages one line or records its problem. An error means that the database failed.
func (s *stage) take(ctx context.Context, e entry, problem error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if problem == nil {
		e.username, e.email, problem = s.table.names(e.username, e.email)
	}
	if problem == nil && e.hash == "" {
		problem = s.table.CheckPassword(e.password)
	}
	if problem != nil {
		s.bad.add(e.line, problem)
		return nil
	}
	for _, name := range []string{e.username, e.email} {
		if taken, err := s.reserve(ctx, name, e.line); err != nil {
			return err
		} else if taken != nil {
			s.bad.add(e.line, taken)
			return nil
		}
	}
	return s.keep(ctx, e)
}

// reserve claims a name for a line; taken says where the name is already used.
func (s *stage) reserve(ctx context.Context, name string, line int) (taken, err error) {
	if name == "" {
		return nil, nil
	}
	result, err := s.reserved.ExecContext(ctx, name, line, s.table.config.Realm)
	if err != nil {
		return nil, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return nil, err
	}
	var first int
	err = s.conn.QueryRowContext(ctx, `SELECT line FROM import_names WHERE name = $1`, name).Scan(&first)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("the account %.60q already exists", name), nil
	}
	return fmt.Errorf("%.60q is already in line %d", name, first), err
}

// keep stores the entry. After a bad line nothing will be imported, so it hashes no more passwords.
func (s *stage) keep(ctx context.Context, e entry) (err error) {
	if s.bad.err() != nil {
		return nil
	}
	if e.hash == "" {
		if e.hash, err = s.table.config.Hash(e.password); err != nil {
			return err
		}
	}
	s.rows++
	_, err = s.stored.ExecContext(ctx, rand.Text(), e.username, nullable(e.email), strings.Join(e.groups, ","), e.hash)
	return err
}

// commit copies everything in one transaction, which fails if a name was taken meanwhile.
func (s *stage) commit(ctx context.Context) error {
	return s.table.change(ctx, s.conn, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO accounts (id, realm, username, email, member_of, password_hash,
			version, created_at, changed_at)
			SELECT id, CAST($2 AS TEXT), username, email, member_of, hash, $1, $1, $1
				FROM import_accounts`, s.table.config.Now().UnixMilli(), s.table.config.Realm)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO account_names (realm, name, account) SELECT CAST($1 AS TEXT), username, id
			FROM import_accounts
			UNION ALL SELECT CAST($1 AS TEXT), email, id FROM import_accounts WHERE email IS NOT NULL`, s.table.config.Realm)
		return err
	})
}

// LineProblem is a problem of one line. It contains no password or hash.
type LineProblem struct {
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// ImportError says why nothing was imported: the bad lines in order, at most maxProblems.
type ImportError struct {
	Problems []LineProblem
	More     int // further bad lines
}

// Error implements error, one line per problem.
func (e *ImportError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "accounts: nothing was imported: %d bad line(s)", len(e.Problems)+e.More)
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\nline %d: %s", p.Line, p.Text)
	}
	if e.More > 0 {
		fmt.Fprintf(&b, "\nand %d more", e.More)
	}
	return b.String()
}

func (e *ImportError) add(line int, problem error) {
	if len(e.Problems) == maxProblems {
		e.More++
		return
	}
	text := strings.TrimPrefix(strings.TrimPrefix(problem.Error(), "accounts: "), "passwords: ")
	e.Problems = append(e.Problems, LineProblem{line, strings.ReplaceAll(text, "\n", "; ")})
}

func (e *ImportError) err() error {
	if len(e.Problems) == 0 {
		return nil
	}
	return e
}
