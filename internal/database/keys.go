package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"authguard/internal/seal"
)

// setting is the row in the table settings that has the fingerprint of the nodes' keys.
const setting = "keys"

// ErrKeysDiffer means that this node's keys differ from the other nodes'.
var ErrKeysDiffer = errors.New("database: the keys files of the nodes differ")

// AgreeOnKeys compares the fingerprint of this node's keys with the one that the first node stored in the database. If
// only cookie keys were rotated, it stores this node's fingerprint. Otherwise it returns ErrKeysDiffer with a remedy.
// path is the keys file.
func AgreeOnKeys(ctx context.Context, db *sql.DB, keys seal.Keys, path string) error {
	own, theirs := keys.Fingerprint(), ""
	err := InTx(ctx, db, func(tx *sql.Tx) error {
		now := time.Now().UnixMilli()
		_, err := tx.ExecContext(ctx, `INSERT INTO settings (name, value, changed_at) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO NOTHING`, setting, own, now)
		if err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = $1`, setting).Scan(&theirs); err != nil {
			return err
		}
		if own == theirs || !seal.Agrees(own, theirs) {
			return nil
		}
		_, err = tx.ExecContext(ctx, `UPDATE settings SET value = $1, changed_at = $2 WHERE name = $3`, own, now, setting)
		return err
	})
	if err != nil {
		return fmt.Errorf("database: compare the keys with other nodes: %w", err)
	}
	return differ(own, theirs, path)
}

// ErrKeysMissing means that the keys file is missing although data depends on it.
var ErrKeysMissing = errors.New("database: the keys file is missing")

// UsesKeys reports whether a database depends on keys: it has their fingerprint, or known clients, which are digests.
func UsesKeys(ctx context.Context, db *sql.DB) (bool, error) {
	var rows int
	err := db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM settings WHERE name = $1) +
		(SELECT count(*) FROM (SELECT 1 FROM known_clients LIMIT 1) AS p)`, setting).Scan(&rows)
	if err != nil {
		return false, fmt.Errorf("database: look for data of other keys: %w", err)
	}
	return rows > 0, nil
}

// AbandonKeys deletes data of other keys, so that AgreeOnKeys accepts any keys: the fingerprint, and the known clients,
// which could never be found again.
func AbandonKeys(ctx context.Context, db *sql.DB) error {
	err := InTx(ctx, db, func(tx *sql.Tx) error {
		for _, statement := range []string{`DELETE FROM settings WHERE name = 'keys'`, `DELETE FROM known_clients`} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("database: delete data of other keys: %w", err)
	}
	return nil
}

// CompareKeys is a read-only AgreeOnKeys. An unused database agrees with any keys.
func CompareKeys(ctx context.Context, db *sql.DB, keys seal.Keys, path string) error {
	own := keys.Fingerprint()
	theirs := own
	err := db.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = $1`, setting).Scan(&theirs)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("database: compare the keys with other nodes: %w", err)
	}
	return differ(own, theirs, path)
}

// differ returns ErrKeysDiffer with a remedy unless the fingerprints agree.
func differ(own, theirs, path string) error {
	if seal.Agrees(own, theirs) {
		return nil
	}
	return fmt.Errorf("%w: this node's, %s, has the fingerprint %s, but the database was first used with %s. "+
		"With other keys this node would count separately and reject the challenges and device cookies of the others. "+
		"Stop it, copy the keys file of a running node over %s, and start it again. "+
		"If that file is lost for good: stop all nodes, give all of them this one, and run "+
		"DELETE FROM settings WHERE name = 'keys' (counters and device cookies start anew)",
		ErrKeysDiffer, path, own, theirs, path)
}
