package accounts

import (
	"context"
	"fmt"
	"sync"
)

// overlapMS is how far back Refresh looks again: a row carries the time at which
// its change began and becomes visible when it is committed. An import of a
// large file takes that long.
const overlapMS = 60_000

type aliases struct {
	mu    sync.RWMutex
	names map[string]string // e-mail address to user name
	seen  int64             // up to when the table was read, ms
}

func (a *aliases) set(email, username string) {
	if email == "" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[email] = username
}

// Canonical is the one name of the account that a normalised name belongs to:
// its user name. A name that is nobody's is its own. It asks memory only.
func (t *Table) Canonical(name string) string {
	t.aliases.mu.RLock()
	defer t.aliases.mu.RUnlock()
	if username, ok := t.aliases.names[name]; ok {
		return username
	}
	return name
}

// Refresh makes Canonical know the accounts that other processes added since the
// last time. It is cheap when there are none: call it every second.
func (t *Table) Refresh(ctx context.Context) error {
	now := t.config.Now().UnixMilli()
	t.aliases.mu.RLock()
	since := min(t.aliases.seen, now) - overlapMS
	t.aliases.mu.RUnlock()
	rows, err := t.config.DB.QueryContext(ctx,
		`SELECT email, username FROM accounts WHERE changed_at >= $1 AND email IS NOT NULL`, since)
	if err != nil {
		return fmt.Errorf("accounts: read names: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var email, username string
		if err := rows.Scan(&email, &username); err != nil {
			return fmt.Errorf("accounts: read names: %w", err)
		}
		t.aliases.set(email, username)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("accounts: read names: %w", err)
	}
	t.aliases.mu.Lock()
	defer t.aliases.mu.Unlock()
	t.aliases.seen = now
	return nil
}
