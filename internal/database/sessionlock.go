package database

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3/lock"
)

// lockSeconds is how long a node waits for another one's migrations, asking
// every second.
const lockSeconds = 300

// A sessionLock is goose's advisory lock of PostgreSQL, which the server drops
// when its holder dies. Whoever holds it is not hurried: a migration of a large
// table takes its time.
type sessionLock struct {
	advisory lock.SessionLocker
	restore  func()
}

func newSessionLock() (*sessionLock, error) {
	advisory, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockSeconds))
	return &sessionLock{advisory: advisory}, err
}

// SessionLock waits for its turn until ctx ends.
func (l *sessionLock) SessionLock(ctx context.Context, conn *sql.Conn) (err error) {
	if err := l.advisory.SessionLock(ctx, conn); err != nil {
		return err
	}
	l.restore, err = Unhurried(ctx, conn)
	return err
}

// SessionUnlock lets the next one in.
func (l *sessionLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	if l.restore != nil {
		l.restore()
	}
	return l.advisory.SessionUnlock(ctx, conn)
}
