package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const lockRetry = 20 * time.Millisecond

// A folderLock lets one process at a time migrate the databases of a folder.
// goose locks PostgreSQL only, and a SQLite transaction cannot cover its steps,
// each of which is one. The kernel drops the lock of a process that dies, and
// locking the folder leaves no lock file behind.
type folderLock struct {
	folder string
	held   *os.File
}

// Lock waits for the folder until ctx ends.
func (l *folderLock) Lock(ctx context.Context, _ *sql.DB) error {
	dir, err := os.Open(l.folder)
	if err != nil {
		return err
	}
	if err := lockFile(ctx, dir); err != nil {
		dir.Close()
		return fmt.Errorf("lock %s: %w", l.folder, err)
	}
	l.held = dir
	return nil
}

// Unlock lets the next one in.
func (l *folderLock) Unlock(context.Context, *sql.DB) error {
	return l.held.Close()
}

func lockFile(ctx context.Context, file *os.File) error {
	retry := time.NewTicker(lockRetry)
	defer retry.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-retry.C:
		}
	}
}
