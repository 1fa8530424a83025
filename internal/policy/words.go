// Package policy keeps what administrators say of a realm's policy while the server runs,
// whether its limits are enforced or only watched, and counts whom each limit met.
//
// What the configuration says is the base. A word on a ladder overrules it for all of the
// ladder's limits, and one on the whole overrules the setting enforce.
package policy

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/changes"
	"authguard/internal/sqltx"
)

// Whole is the ladder of a word on the whole policy.
const Whole = "all"

// A Word is what an administrator said of a ladder.
type Word struct {
	Ladder  string    `json:"limit"` // one of guard.Policy.Ladders, or Whole
	Enforce bool      `json:"enforce"`
	Who     string    `json:"who"`
	Why     string    `json:"why"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until,omitzero"` // zero: until somebody takes it back
}

// A Written is a policy as the configuration has it.
type Written struct {
	Policy  guard.Policy
	Mode    captchamode.Config
	Enforce bool
}

// Enforced reports whether the whole is enforced, where no ladder says otherwise.
func (w Written) Enforced(words []Word) bool {
	for _, one := range words {
		if one.Ladder == Whole {
			return one.Enforce
		}
	}
	return w.Enforce
}

// With is what is in force while these words hold: none of them has run out. Whatever is
// only watched, attempts in the guard's other directories, which are the administrators',
// are enforced as the configuration says. The error is that of a policy that cannot be
// (R8).
func (w Written) With(words []Word) (guard.Policy, captchamode.Config, error) {
	said, whole := map[string]guard.Word{}, guard.AsWritten
	if !w.Enforced(words) {
		whole = guard.Watched
	}
	for _, one := range words {
		said[one.Ladder] = guard.Watched
		if one.Enforce {
			said[one.Ladder] = guard.Enforced
		}
	}
	delete(said, Whole)
	say := func(ladder string) guard.Word {
		if word, ok := said[ladder]; ok {
			return word
		}
		return whole
	}
	p, mode := w.Policy.Switched(say), w.Mode
	mode.Monitor = say(guard.ModeLadder).On(mode.Monitor)
	if whole == guard.Watched || mode.Monitor || len(said) > 0 {
		strict := w.Policy
		strict.Events = nil
		p.Directories = &strict
	}
	return p, mode, p.Validate()
}

// Enforceable leaves out the words that enforce a ladder, if the policy could not be so:
// the configuration may have changed since they were said.
func (w Written) Enforceable(words []Word) []Word {
	if _, _, err := w.With(words); err == nil {
		return words
	}
	return slices.DeleteFunc(slices.Clone(words), func(w Word) bool { return w.Enforce && w.Ladder != Whole })
}

// A Table keeps the words of all realms. It is safe for concurrent use.
type Table struct{ db *sql.DB }

// NewTable returns a table over a migrated database.
func NewTable(db *sql.DB) *Table { return &Table{db} }

// Words are those that were said of a realm and not taken back, those that have run out
// among them, in the order of their ladders.
func (t *Table) Words(ctx context.Context, realm string) (all []Word, err error) {
	err = sqltx.Each(ctx, t.db, func(rows *sql.Rows) error {
		var w Word
		var enforce, since, until int64
		err := rows.Scan(&w.Ladder, &enforce, &w.Who, &w.Why, &since, &until)
		w.Enforce, w.Since = enforce != 0, time.UnixMilli(since)
		if until != 0 {
			w.Until = time.UnixMilli(until)
		}
		all = append(all, w)
		return err
	}, `SELECT ladder, enforce, who, why, since, until FROM policy_words WHERE realm = $1 ORDER BY ladder`, realm)
	if err != nil {
		return nil, fmt.Errorf("policy: words: %w", err)
	}
	return all, nil
}

// Say makes a word the one on its ladder, for all nodes.
func (t *Table) Say(ctx context.Context, realm string, w Word) error {
	enforce, until := 0, int64(0)
	if w.Enforce {
		enforce = 1
	}
	if !w.Until.IsZero() {
		until = w.Until.UnixMilli()
	}
	_, err := t.change(ctx, realm, `INSERT INTO policy_words (realm, ladder, enforce, who, why, since, until) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (realm, ladder) DO UPDATE SET enforce = excluded.enforce, who = excluded.who, why = excluded.why, since = excluded.since, until = excluded.until`,
		realm, w.Ladder, enforce, sqltx.Clean(w.Who), sqltx.Clean(w.Why), w.Since.UnixMilli(), until)
	return err
}

// TakeBack ends the word on a ladder; with Whole, all words of the realm.
func (t *Table) TakeBack(ctx context.Context, realm, ladder string) (was bool, err error) {
	query, args := `DELETE FROM policy_words WHERE realm = $1 AND ladder = $2`, []any{realm, ladder}
	if ladder == Whole {
		query, args = `DELETE FROM policy_words WHERE realm = $1`, args[:1]
	}
	rows, err := t.change(ctx, realm, query, args...)
	return rows > 0, err
}

// End deletes a word that has run out, and reports whether this node was the first to.
func (t *Table) End(ctx context.Context, realm string, w Word) (first bool, err error) {
	rows, err := t.change(ctx, realm, `DELETE FROM policy_words WHERE realm = $1 AND ladder = $2 AND since = $3 AND until = $4`,
		realm, w.Ladder, w.Since.UnixMilli(), w.Until.UnixMilli())
	return rows > 0, err
}

func (t *Table) change(ctx context.Context, realm, query string, args ...any) (rows int64, err error) {
	err = sqltx.Run(ctx, t.db, func(tx *sql.Tx) error {
		if rows, err = sqltx.Exec(ctx, tx, query, args...); err != nil {
			return err
		}
		return changes.Bump(ctx, tx, changes.Policy(realm))
	})
	if err != nil {
		return 0, fmt.Errorf("policy: %w", err)
	}
	return rows, nil
}
