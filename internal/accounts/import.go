package accounts

import (
	"context"
	"errors"
	"fmt"
	"io"

	"authguard/internal/database"
)

// A Format is how a file of accounts is written. The zero Format is none.
type Format uint8

// tellEvery is how many bytes pass between two words of progress; a line that
// must be hashed is worth one of its own.
const tellEvery = 1 << 16

// The formats. Both may have Windows line ends and a byte order mark.
const (
	NoFormat Format = iota
	// Htpasswd is Apache's: "name:hash" lines, bcrypt only (htpasswd -B).
	Htpasswd
	// CSV has a header naming, in any order, username, optionally email, and
	// either password_hash (bcrypt) or password (plain; each is hashed, which
	// takes a good fifth of a second per line).
	CSV
)

// An ImportRequest is a file to import.
type ImportRequest struct {
	File   io.Reader
	Format Format
	Size   int64 // of the file in bytes, for Progress; 0: not known
	// Progress, if set, is told now and then, and at the end, how many bytes of
	// Size are done. It is called from the importing goroutine.
	Progress func(done, total int64)
}

// Import adds the accounts of a file, all or none, and tells how many. The error
// is an *ImportError if lines are bad: unreadable, of another hash, or with a
// name that is taken in the file or in the table.
//
// The file is read once, into a temporary table beside the accounts, so that
// its size does not matter and logins are not held up until the last moment.
func (t *Table) Import(ctx context.Context, request ImportRequest) (imported int, err error) {
	slow, done, err := database.Unhurried(ctx, t.config.DB)
	if err != nil {
		return 0, fmt.Errorf("accounts: import: %w", err)
	}
	defer done()
	conn, err := slow.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("accounts: import: %w", err)
	}
	defer conn.Close()
	s := &stage{table: t, conn: conn}
	defer s.close()
	if err := s.open(ctx); err != nil {
		return 0, fmt.Errorf("accounts: import: %w", err)
	}
	if err := s.fill(ctx, request); err != nil {
		return 0, fmt.Errorf("accounts: import: %w", err)
	}
	if err := s.bad.err(); err != nil {
		return 0, err
	}
	if err := s.commit(ctx); err != nil {
		return 0, fmt.Errorf("accounts: import: %w", err)
	}
	return s.rows, errors.Join(t.Refresh(ctx), t.sawHighest(ctx))
}

func (t *Table) sawHighest(ctx context.Context) error {
	if t.config.Saw == nil {
		return nil
	}
	cost, err := t.HighestCost(ctx)
	if err == nil {
		t.config.Saw(cost)
	}
	return err
}
