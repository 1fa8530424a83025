package secrets

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"authguard/internal/sqltx"
)

// ErrDiffer says that this node's keys are not those of the others.
var ErrDiffer = errors.New("secrets: the keys files of the nodes differ")

const setting = "keys" // the row in the table settings

// Agree compares the fingerprint of this node's keys with the one in the
// database, which the first node to start has set. A file that only differs by
// newer cookie keys becomes the one to compare with. The error is ErrDiffer, with
// what to do; path names the file that the keys were read from.
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

// Compare is a read-only Agree: a database that no node has used yet agrees with
// any keys.
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

// Fingerprint is a short text by which nodes compare their keys; it reveals none
// of them. The first part stands for the keys of counters and challenges; then
// comes one part for each cookie key, the newest first:
//
//	5f0c2b6e9d1a7734-c41fe02a
func (k Keys) Fingerprint() string {
	both := hmac.New(sha256.New, k.Counters)
	both.Write([]byte("authguard: fingerprint of counters and challenges\n"))
	both.Write(digest(k.Challenges, "authguard: fingerprint of challenges"))
	parts := []string{fmt.Sprintf("%x", both.Sum(nil)[:8])}
	for _, cookie := range k.Cookies {
		parts = append(parts, fmt.Sprintf("%x", digest(cookie, "authguard: fingerprint of a cookie key")[:4]))
	}
	return strings.Join(parts, "-")
}

func digest(key []byte, of string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(of))
	return h.Sum(nil)
}

// Agrees reports whether nodes with these fingerprints can work together: while
// cookie keys are rotated node by node, one in common is enough; the other keys
// must be the same.
func Agrees(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	return x[0] == y[0] && slices.ContainsFunc(x[1:], func(part string) bool { return slices.Contains(y[1:], part) })
}
