package accounts

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
)

// A stage is the temporary table of one import. A temporary table belongs to
// one connection and takes no lock that a login waits for.
type stage struct {
	table *Table
	conn  *sql.Conn
	rows  int
	bad   ImportError

	taken, reserved, stored *sql.Stmt // prepared: half the time of a long file
}

func (s *stage) open(ctx context.Context) (err error) {
	for _, statement := range []string{
		`CREATE TEMPORARY TABLE import_accounts (id TEXT, username TEXT, email TEXT, hash TEXT)`,
		`CREATE TEMPORARY TABLE import_names (name TEXT PRIMARY KEY, line BIGINT)`,
	} {
		if _, err := s.conn.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	for query, to := range map[string]**sql.Stmt{
		`SELECT COUNT(*) FROM account_names WHERE name = $1`:                              &s.taken,
		`INSERT INTO import_names (name, line) VALUES ($1, $2) ON CONFLICT DO NOTHING`:    &s.reserved,
		`INSERT INTO import_accounts (id, username, email, hash) VALUES ($1, $2, $3, $4)`: &s.stored,
	} {
		if *to, err = s.conn.PrepareContext(ctx, query); err != nil {
			return err
		}
	}
	return nil
}

// close drops the tables, also when ctx has ended: the connection lives on.
func (s *stage) close() {
	for _, statement := range []*sql.Stmt{s.taken, s.reserved, s.stored} {
		if statement != nil {
			statement.Close()
		}
	}
	for _, name := range []string{"import_accounts", "import_names"} {
		s.conn.ExecContext(context.Background(), `DROP TABLE IF EXISTS `+name)
	}
}

func (s *stage) fill(ctx context.Context, request ImportRequest) error {
	read := map[Format]func(io.Reader, func(entry, error) bool) error{Htpasswd: eachHtpasswd, CSV: eachCSV}[request.Format]
	if read == nil {
		return errors.New("unknown format")
	}
	var failed error
	told := int64(0)
	err := read(request.File, func(e entry, problem error) bool {
		failed = s.take(ctx, e, problem)
		if request.Progress != nil && (e.offset-told >= tellEvery || e.password != "") {
			told = e.offset
			request.Progress(told, request.Size)
		}
		return failed == nil
	})
	if err = errors.Join(failed, err); err == nil && request.Progress != nil {
		request.Progress(request.Size, request.Size)
	}
	return err
}

// take stages one line, or notes what is wrong with it. Its error is that of
// the database.
func (s *stage) take(ctx context.Context, e entry, problem error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if problem == nil {
		e.username, e.email, problem = s.table.names(e.username, e.email)
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

// reserve notes that a name is used by a line; taken says by whom it was.
func (s *stage) reserve(ctx context.Context, name string, line int) (taken, err error) {
	if name == "" {
		return nil, nil
	}
	var accounts int
	if err := s.taken.QueryRowContext(ctx, name).Scan(&accounts); err != nil {
		return nil, err
	}
	if accounts > 0 {
		return fmt.Errorf("%.60q is an account already", name), nil
	}
	result, err := s.reserved.ExecContext(ctx, name, line)
	if err != nil {
		return nil, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 1 {
		return nil, err
	}
	var first int
	err = s.conn.QueryRowContext(ctx, `SELECT line FROM import_names WHERE name = $1`, name).Scan(&first)
	return fmt.Errorf("%.60q is in line %d already", name, first), err
}

// keep hashes a plain password only while there is something to import at all.
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
	_, err = s.stored.ExecContext(ctx, rand.Text(), e.username, nullable(e.email), e.hash)
	return err
}

// commit moves everything in one transaction. A name that somebody took in the
// meantime undoes it.
func (s *stage) commit(ctx context.Context) error {
	return s.table.change(ctx, s.conn, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO accounts (id, username, email, password_hash, created_at, changed_at)
			SELECT id, username, email, hash, $1, $1 FROM import_accounts`, s.table.config.Now().UnixMilli())
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO account_names (name, account) SELECT username, id FROM import_accounts
			UNION ALL SELECT email, id FROM import_accounts WHERE email IS NOT NULL`)
		return err
	})
}
