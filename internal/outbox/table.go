package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"authguard/internal/database"
)

const queryTimeout = 5 * time.Second

const columns = "id, subject, body, at, due_at, expires_at, attempts, lease_until, failed_at, error, reported_at, sent_at"

func selectRows(ctx context.Context, db database.Runner, where string, args ...any) (all []Message, err error) {
	err = database.Each(ctx, db, func(rows *sql.Rows) error {
		var m Message
		var at, due, expires, lease, failed, reported, sent int64
		err := rows.Scan(&m.ID, &m.Subject, &m.Body, &at, &due, &expires, &m.Attempts, &lease, &failed, &m.Error, &reported,
			&sent)
		m.At, m.Due, m.Expires, m.LeaseUntil = database.Time(at), database.Time(due), database.Time(expires), database.Time(lease)
		m.FailedAt, m.ReportedAt, m.SentAt = database.Time(failed), database.Time(reported), database.Time(sent)
		all = append(all, m)
		return err
	}, "SELECT "+columns+" FROM outbox WHERE "+where, args...)
	return all, err
}

func (c *Channel) insert(ctx context.Context, db database.Runner, m Message) error {
	_, err := db.ExecContext(ctx, `INSERT INTO outbox (channel, `+columns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT (id) DO NOTHING`,
		c.Name, m.ID, database.Clean(m.Subject), database.Clean(m.Body), database.Milliseconds(m.At), database.Milliseconds(m.Due),
		database.Milliseconds(m.Expires), m.Attempts, database.Milliseconds(m.LeaseUntil), database.Milliseconds(m.FailedAt), database.Clean(m.Error),
		database.Milliseconds(m.ReportedAt), database.Milliseconds(m.SentAt))
	return err
}

// save moves the messages in memory to the database, and reads what is due.
func (c *Channel) save(ctx context.Context) {
	c.saving.Lock()
	defer c.saving.Unlock()
	c.mu.Lock()
	now := c.Now()
	c.prune(now)
	if c.DB == nil || c.away != nil && now.Sub(c.triedAt) < lookEvery/2 {
		c.mu.Unlock()
		return
	}
	retry, n := c.retry, len(c.unsaved)
	c.retry, c.triedAt = false, now
	c.mu.Unlock()
	var err error
	if retry {
		err = c.retryNow(ctx)
	}
	for ; err == nil && n > 0; n-- {
		err = c.saveFirst(ctx)
	}
	if err != nil {
		c.note(err)
		return
	}
	c.look(ctx)
}

// saveFirst moves the first message in memory to the database. The others stay, and count for the bounds.
func (c *Channel) saveFirst(ctx context.Context) error {
	c.mu.Lock()
	m := c.unsaved[0]
	c.unsaved = slices.Delete(c.unsaved, 0, 1)
	c.mu.Unlock()
	err := c.put(ctx, m)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		added := c.unsaved
		c.unsaved = []Message{m}
		for _, m := range added {
			c.unsaved = c.with(c.unsaved, m)
		}
	}
	return err
}

// prune forgets expired messages, and those sent from memory long ago. The caller holds the lock.
func (c *Channel) prune(now time.Time) {
	c.unsaved = slices.DeleteFunc(c.unsaved, func(m Message) bool {
		return !m.waits() && now.Sub(m.SentAt) > recent || !m.Expires.IsZero() && !now.Before(m.Expires)
	})
}

// note logs when the database becomes unavailable, and available again.
func (c *Channel) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err != nil && c.away == nil:
		c.Log.Error("messages cannot be saved to the database: they wait in memory", "channel", c.Name, "error", err)
	case err == nil && c.away != nil:
		c.Log.Info("messages are saved to the database again", "channel", c.Name)
	}
	c.away = err
}

// look reads what this channel has in the database.
func (c *Channel) look(ctx context.Context) {
	if c.DB == nil {
		return
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	now := c.Now().UnixMilli()
	where, args := `channel = $1 AND expires_at > $2 AND sent_at = 0 AND lease_until <= $2
		ORDER BY due_at LIMIT 1`, []any{c.Name, now}
	if c.Merge != nil {
		where, args = `channel = $1 AND expires_at > $2 AND (sent_at = 0 OR sent_at >= $3
			OR sent_at = (SELECT MAX(sent_at) FROM outbox WHERE channel = $1)) ORDER BY at, id`,
			append(args, now-recent.Milliseconds())
	}
	rows, err := selectRows(ctx, c.DB, where, args...)
	if err == nil {
		c.mu.Lock()
		c.saved = rows
		for _, m := range rows { // other nodes' reports and successes
			c.reported = latest(c.reported, m.ReportedAt)
			c.failing = c.failing && !m.SentAt.After(c.reported)
		}
		c.mu.Unlock()
	}
	c.note(err)
}

// detached lets a statement finish although the process ends.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
}

// put saves one message, unless it is unwanted or exceeds the limits.
func (c *Channel) put(ctx context.Context, m Message) error {
	if c.Wanted != nil {
		limited, cancel := detached(ctx)
		wanted, err := c.Wanted(limited, m)
		cancel()
		if err == nil && !wanted {
			return nil
		}
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	return database.InTx(ctx, c.DB, func(tx *sql.Tx) error {
		var done bool
		var err error
		switch {
		case c.Merge == nil:
			done, err = c.full(ctx, tx, m)
		case m.fresh():
			done, err = c.merge(ctx, tx, m)
		}
		if err != nil || done {
			return err
		}
		return c.insert(ctx, tx, m)
	})
}

// full reports whether a message exceeds the limits.
func (c *Channel) full(ctx context.Context, tx *sql.Tx, m Message) (bool, error) {
	var waiting, same int
	now := c.Now()
	err := tx.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM outbox WHERE channel = $1 AND sent_at = 0 AND expires_at > $2),
		(SELECT COUNT(*) FROM outbox WHERE channel = $1 AND subject = $3 AND expires_at > $2 AND (sent_at = 0 OR at > $4))`,
		c.Name, now.UnixMilli(), database.Clean(m.Subject), now.Add(-c.Limits.Window).UnixMilli()).Scan(&waiting, &same)
	if waiting >= c.Limits.Waiting {
		c.Log.Warn("too many messages wait: one was dropped", "channel", c.Name)
	}
	return waiting >= c.Limits.Waiting || same >= c.Limits.PerSubject, err
}

// merge adds a message to the one that waits for its first attempt. It reports false if there is none.
func (c *Channel) merge(ctx context.Context, tx *sql.Tx, m Message) (bool, error) {
	for {
		rows, err := selectRows(ctx, tx, `channel = $1 AND sent_at = 0 AND attempts = 0 ORDER BY at, id LIMIT 1`, c.Name)
		if err != nil || len(rows) == 0 {
			return false, err
		}
		merged := c.Merge(rows[0], m)
		n, err := database.Exec(ctx, tx, `UPDATE outbox SET body = $1, due_at = $2
			WHERE id = $3 AND attempts = 0 AND body = $4`,
			database.Clean(merged.Body), database.Milliseconds(merged.Due), merged.ID, rows[0].Body)
		if err != nil || n == 1 {
			return n == 1, err
		} // another node has just changed or claimed it
	}
}

// retryNow makes waiting messages due, once. A lone process also ends the leases of the process before it.
func (c *Channel) retryNow(ctx context.Context) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	set := "due_at = 0"
	if c.Alone {
		set += ", lease_until = 0"
	}
	_, err := c.DB.ExecContext(ctx, `UPDATE outbox SET `+set+` WHERE channel = $1 AND sent_at = 0`, c.Name)
	if err != nil {
		c.mu.Lock()
		c.retry = true
		c.mu.Unlock()
	}
	return err
}

// update replaces a message where it is, in memory or in the database. It reports false if the message is not the given
// one any more: another node has claimed it, or another message was merged into it.
func (c *Channel) update(ctx context.Context, before, m Message) (bool, error) {
	c.mu.Lock()
	i := slices.IndexFunc(c.unsaved, func(one Message) bool { return one.ID == m.ID })
	if i >= 0 {
		same := c.unsaved[i].Attempts == before.Attempts && c.unsaved[i].Body == before.Body
		if same {
			c.unsaved[i] = m
		}
		c.mu.Unlock()
		return same, nil
	}
	c.mu.Unlock()
	ctx, cancel := detached(ctx)
	defer cancel()
	n, err := database.Exec(ctx, c.DB, `UPDATE outbox SET body = $1, due_at = $2, attempts = $3, lease_until = $4,
		failed_at = $5, error = $6, reported_at = $7, sent_at = $8
		WHERE id = $9 AND sent_at = 0 AND attempts = $10 AND body = $11`,
		database.Clean(m.Body), database.Milliseconds(m.Due), m.Attempts, database.Milliseconds(m.LeaseUntil), database.Milliseconds(m.FailedAt),
		database.Clean(m.Error), database.Milliseconds(m.ReportedAt), database.Milliseconds(m.SentAt), m.ID, before.Attempts, before.Body)
	if err != nil {
		c.note(err)
	}
	return n == 1, err
}

// Find returns a message of the channel that has not expired; an empty ID if there is none.
func (c *Channel) Find(ctx context.Context, id string) (m Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := selectRows(ctx, c.DB, `channel = $1 AND id = $2 AND expires_at > $3`, c.Name, id, c.Now().UnixMilli())
	if len(rows) > 0 {
		m = rows[0]
	}
	return m, err
}

// Newest returns the ID of the newest sent message of a subject that has not expired; empty if there is none.
func (c *Channel) Newest(ctx context.Context, subject string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err = c.DB.QueryRowContext(ctx, `SELECT id FROM outbox WHERE channel = $1 AND subject = $2 AND expires_at > $3
		AND sent_at > 0 ORDER BY at DESC, id LIMIT 1`, c.Name, database.Clean(subject), c.Now().UnixMilli()).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return id, err
}

// Remove deletes a message. Of concurrent callers, one gets true.
func (c *Channel) Remove(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	n, err := database.Exec(ctx, c.DB, `DELETE FROM outbox WHERE channel = $1 AND id = $2`, c.Name, id)
	return n == 1, err
}

// Restore puts a removed message back.
func (c *Channel) Restore(ctx context.Context, m Message) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	return c.insert(ctx, c.DB, m)
}

// Adopt takes over the unsent messages of all channels whose name begins with prefix, except the named ones.
func (c *Channel) Adopt(ctx context.Context, prefix string, except []string) error {
	if c.DB == nil {
		return nil
	}
	args, marks := []any{c.Name, prefix + "%"}, []string{"$1"}
	for _, name := range except {
		args = append(args, name)
		marks = append(marks, fmt.Sprintf("$%d", len(args)))
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	n, err := database.Exec(ctx, c.DB, `UPDATE outbox SET channel = $1, due_at = 0
		WHERE channel LIKE $2 AND sent_at = 0 AND channel NOT IN (`+strings.Join(marks, ", ")+`)`, args...)
	if n > 0 {
		c.look(ctx)
		c.poke()
	}
	return err
}

// Purge deletes the expired messages of all channels and returns their number.
func Purge(ctx context.Context, db *sql.DB, now time.Time) (int64, error) {
	n, err := database.Exec(ctx, db, `DELETE FROM outbox WHERE expires_at <= $1`, now.UnixMilli())
	if err != nil {
		return 0, fmt.Errorf("outbox: purge: %w", err)
	}
	return n, nil
}
