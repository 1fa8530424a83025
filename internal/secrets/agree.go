package secrets

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"authguard/internal/sqltx"
)

// ErrDiffer says that this node's keys are not those of the others.
var ErrDiffer = errors.New("secrets: the keys files of the nodes differ")

const setting = "keys" // the row in the table settings

// Agree compares this node's keys with those of the other nodes that share the
// database, by their fingerprints. The first node to start sets it. A file that
// has only got newer cookie keys becomes the one to compare with. The error is
// ErrDiffer, with what to do; path is where the keys were read, to name it.
func Agree(ctx context.Context, db *sql.DB, keys Keys, path string) error {
	own, theirs := keys.Fingerprint(), ""
	err := sqltx.Run(ctx, db, func(tx *sql.Tx) error {
		now := time.Now().UnixMilli()
		_, err := tx.ExecContext(ctx, `INSERT INTO settings (name, value, changed_at) VALUES ($1, $2, $3)
			ON CONFLICT (name) DO NOTHING`, setting, own, now)
		if err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = $1`, setting).Scan(&theirs); err != nil {
			return err
		}
		if own == theirs || !Agrees(own, theirs) {
			return nil
		}
		_, err = tx.ExecContext(ctx, `UPDATE settings SET value = $1, changed_at = $2 WHERE name = $3`, own, now, setting)
		return err
	})
	if err != nil {
		return fmt.Errorf("secrets: compare the keys with other nodes: %w", err)
	}
	return differ(own, theirs, path)
}

// Compare is Agree for somebody who only looks: nothing is written, and a
// database that no node has used yet agrees with any keys.
func Compare(ctx context.Context, db *sql.DB, keys Keys, path string) error {
	own, theirs := keys.Fingerprint(), ""
	err := db.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = $1`, setting).Scan(&theirs)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("secrets: compare the keys with other nodes: %w", err)
	}
	return differ(own, theirs, path)
}

// differ is ErrDiffer, with what to do, unless the fingerprints agree.
func differ(own, theirs, path string) error {
	if Agrees(own, theirs) {
		return nil
	}
	return fmt.Errorf("%w: this node's, %s, has the fingerprint %s, but the database was first used with %s. "+
		"With other keys this node would count by itself and refuse the challenges and device cookies of the others. "+
		"Stop it, copy the keys file of a node that serves this database over %s, and start it again. "+
		"If that file is lost for good: stop all nodes, give all of them this one, and run "+
		"DELETE FROM settings WHERE name = 'keys' (counters and device cookies start anew)",
		ErrDiffer, path, own, theirs, path)
}
