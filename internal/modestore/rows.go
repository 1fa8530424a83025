package modestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"authguard/captchamode"
	"authguard/internal/changes"
	"authguard/internal/sqltx"
)

// saveWithin bounds one write.
const saveWithin = 10 * time.Second

// Load reads what was saved; a fresh database gives the zero Memento.
func (s *Store) Load(ctx context.Context) (m captchamode.Snapshot, err error) {
	var learned string
	err = s.config.DB.QueryRowContext(ctx, `SELECT value FROM mode_state WHERE name = $1`, s.name()).Scan(&learned)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return m, fmt.Errorf("modestore: load: %w", err)
	}
	if learned != "" {
		if err := json.Unmarshal([]byte(learned), &m); err != nil {
			s.config.Log.Error("what was learned of this site cannot be read and is left out", "error", err)
			m = captchamode.Snapshot{}
		}
	}
	id, force, err := s.word(ctx)
	if err != nil {
		return m, fmt.Errorf("modestore: load: %w", err)
	}
	m.Force = force
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = id
	return m, nil
}

func (s *Store) name() string { return s.config.Realm + "/mode" }

// word is the last word that a person said, and its id; "" if nobody ever has.
func (s *Store) word(ctx context.Context) (id string, f captchamode.Force, err error) {
	var since, until int64
	err = s.config.DB.QueryRowContext(ctx, `SELECT id, state, who, why, since, until FROM mode_words WHERE realm = $1`, s.config.Realm).
		Scan(&id, &f.Word, &f.Who, &f.Why, &since, &until)
	if errors.Is(err, sql.ErrNoRows) {
		return "", captchamode.Force{}, nil
	}
	f.Since, f.Until = time.UnixMilli(since), time.UnixMilli(until)
	return id, f, err
}

func (s *Store) save(mode *captchamode.Mode) error {
	m := mode.Save()
	m.Force = captchamode.Force{} // has a table of its own
	learned, err := json.Marshal(m)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), saveWithin)
	defer cancel()
	_, err = s.config.DB.ExecContext(ctx, `INSERT INTO mode_state (name, value, changed_at) VALUES ($1, $2, $3)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at`,
		s.name(), sqltx.Clean(string(learned)), time.Now().UnixMilli())
	return err
}

// writeAll writes the switches that wait. One that cannot be written stays, and
// those after it, until it is too old.
func (s *Store) writeAll(ctx context.Context) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	for {
		s.mu.Lock()
		if len(s.queue) == 0 {
			s.mu.Unlock()
			return nil
		}
		first := s.queue[0]
		s.queue[0].tried = true
		s.mu.Unlock()
		err := s.write(ctx, first)
		if err != nil && time.Since(first.since) < keepFor {
			return fmt.Errorf("modestore: save a switch: %w", err)
		}
		s.report(err)
		s.mu.Lock()
		s.queue = s.queue[1:]
		s.mu.Unlock()
	}
}

// write writes the history's row and, after a person's word or its end, what is
// in force now.
func (s *Store) write(ctx context.Context, e entry) error {
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	err := sqltx.Run(ctx, s.config.DB, func(tx *sql.Tx) error {
		switch e.Cause {
		case captchamode.ByPerson:
			if err := s.writeWord(ctx, tx, e); err != nil {
				return err
			}
		case captchamode.ByExpiry:
			if first, err := s.writeEnd(ctx, tx, e); err != nil || !first {
				return err
			}
		}
		return s.writeHistory(ctx, tx, e)
	})
	if e.tried && sqltx.Taken(err) {
		return nil // it was committed, and the answer got lost
	}
	return err
}

// writeWord makes the word the last one. At the first try it is, whatever the
// clocks say; later on somebody may have said another one meanwhile.
func (s *Store) writeWord(ctx context.Context, tx *sql.Tx, e entry) error {
	query := `INSERT INTO mode_words (realm, id, state, who, why, since, until) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (realm) DO UPDATE SET id = excluded.id, state = excluded.state, who = excluded.who, why = excluded.why,
		since = excluded.since, until = excluded.until`
	if e.tried {
		query += ` WHERE mode_words.since <= excluded.since`
	}
	until := int64(0)
	if e.Force.Word != captchamode.Automatic {
		until = e.Force.Until.UnixMilli()
	}
	_, err := tx.ExecContext(ctx, query, s.config.Realm, e.id, string(e.Force.Word),
		sqltx.Clean(e.Force.Who), sqltx.Clean(e.Force.Why), e.Force.Since.UnixMilli(), until)
	if err != nil {
		return err
	}
	return changes.Bump(ctx, tx, changes.Mode(s.config.Realm))
}

// writeEnd notes that the word has run out. It does so on every node by itself;
// the first one to say so writes the history.
func (s *Store) writeEnd(ctx context.Context, tx *sql.Tx, e entry) (first bool, err error) {
	result, err := tx.ExecContext(ctx, `UPDATE mode_words SET state = '' WHERE realm = $1 AND state <> '' AND until <= $2`,
		s.config.Realm, e.At.UnixMilli())
	if err != nil {
		return false, err
	}
	rows, err := result.RowsAffected()
	return rows > 0, err
}

func (s *Store) writeHistory(ctx context.Context, tx *sql.Tx, e entry) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO mode_history (id, realm, at, from_state, to_state, cause, who, why, pressure, threshold)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		e.id, s.config.Realm, e.At.UnixMilli(), e.Was(), e.Now(), string(e.Cause),
		sqltx.Clean(e.Force.Who), sqltx.Clean(e.Force.Why), float64(e.Pressure), e.Threshold)
	return err
}
