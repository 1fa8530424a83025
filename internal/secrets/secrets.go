// Package secrets reads and creates the keys file of a data folder: one key for the digests of the counters, one for
// challenges, and those for device cookies, newest first. The first start creates it, readable by its owner only:
//
//	counters 4f3c…
//	challenges 81aa…
//	cookie 90d1…      (the first cookie key signs, all of them verify)
//
// Nodes that share a database need the same keys, but the keys must not be in it: a leaked backup would be enough to
// forge cookies. Create the file on one node and copy it to the others, or mount it. [Read] reads such a file, and
// [Agree] detects nodes whose files differ.
package secrets

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"authguard/internal/sqltx"
)

// Keys are 32 random bytes each.
type Keys struct {
	Counters   []byte
	Challenges []byte
	Cookies    [][]byte // at least one
}

const (
	keyBytes = 32
	setting  = "keys" // the fingerprint's row in the table settings
)

// ErrDiffer means that this node's keys differ from the other nodes'.
var ErrDiffer = errors.New("secrets: the keys files of the nodes differ")

// Load reads the file, or creates it if it is missing; among nodes that share it, the first one does. A file that other
// users can read, or a line that is not a key, is an error. The file's group may read it, as is usual for mounted
// files.
func Load(path string) (Keys, error) {
	k, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return create(path)
	}
	return k, err
}

// Read is Load for a file created elsewhere. It never creates one: a node with different keys would work against the
// others.
func Read(path string) (Keys, error) {
	k, err := read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, fmt.Errorf("%w: copy the file from another node", err)
	}
	return k, err
}

func read(path string) (k Keys, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, fmt.Errorf("secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return k, fmt.Errorf("secrets: %w", err)
	}
	if info.Mode().Perm()&0o037 != 0 {
		return k, fmt.Errorf("secrets: %s is readable by other users (mode %v): run chmod 600 on it", path,
			info.Mode().Perm())
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return k, fmt.Errorf("secrets: %s: %w", path, err)
	}
	for n, line := range strings.Split(string(text), "\n") {
		if err := k.line(line); err != nil {
			return k, fmt.Errorf("secrets: %s:%d: %w", path, n+1, err)
		}
	}
	if k.Counters == nil || k.Challenges == nil || len(k.Cookies) == 0 {
		return k, fmt.Errorf("secrets: %s: a counters, a challenges and a cookie key are needed", path)
	}
	return k, nil
}

// line parses one line; its error never contains a key.
func (k *Keys) line(text string) error {
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "#") {
		return nil
	}
	name, value, _ := strings.Cut(text, " ")
	key, err := hex.DecodeString(strings.TrimSpace(value))
	if err != nil || len(key) != keyBytes {
		return fmt.Errorf("a key is %d hexadecimal digits", 2*keyBytes)
	}
	switch name {
	case "counters":
		k.Counters = key
	case "challenges":
		k.Challenges = key
	case "cookie":
		k.Cookies = append(k.Cookies, key)
	default:
		return errors.New("a line begins with counters, challenges or cookie")
	}
	return nil
}

func create(path string) (Keys, error) {
	k := Keys{Counters: fresh(), Challenges: fresh(), Cookies: [][]byte{fresh()}}
	text := fmt.Sprintf("# Keys of this authguard. They allow to forge device cookies and solutions: keep them secret.\n"+
		"counters %x\nchallenges %x\n# To rotate: put a new cookie line first; the old ones go on verifying.\ncookie %x\n",
		k.Counters, k.Challenges, k.Cookies[0])
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return k, fmt.Errorf("secrets: %w", err)
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.WriteString(text)
	err = errors.Join(err, temporary.Chmod(0o600), temporary.Sync(), temporary.Close())
	if err == nil {
		err = os.Link(temporary.Name(), path) // fails if another process was first
	}
	if errors.Is(err, fs.ErrExist) {
		return read(path)
	}
	if err != nil {
		return k, fmt.Errorf("secrets: %w", err)
	}
	return k, nil
}

func fresh() []byte {
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails: it ends the program instead
	return key
}

// Agree compares the fingerprint of this node's keys with the one that the first node stored in the database. If only
// cookie keys were rotated, it stores this node's fingerprint. Otherwise it returns ErrDiffer with a remedy. path is
// the keys file.
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

// ErrMissing means that the keys file is missing although data depends on it.
var ErrMissing = errors.New("secrets: the keys file is missing")

// Used reports whether a database depends on keys: it has their fingerprint, or known clients, which are digests.
func Used(ctx context.Context, db *sql.DB) (bool, error) {
	var rows int
	err := db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM settings WHERE name = $1) +
		(SELECT count(*) FROM (SELECT 1 FROM known_clients LIMIT 1) AS p)`, setting).Scan(&rows)
	if err != nil {
		return false, fmt.Errorf("secrets: look for data of other keys: %w", err)
	}
	return rows > 0, nil
}

// Abandon deletes data of other keys, so that Agree accepts any keys: the fingerprint, and the known clients, which
// could never be found again.
func Abandon(ctx context.Context, db *sql.DB) error {
	err := sqltx.Run(ctx, db, func(tx *sql.Tx) error {
		for _, statement := range []string{`DELETE FROM settings WHERE name = 'keys'`, `DELETE FROM known_clients`} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("secrets: delete data of other keys: %w", err)
	}
	return nil
}

// Counted identifies the counters' key and the file without revealing the key: counters of another key are useless, and
// the counters of the admin console are not those of the public login.
func (k Keys) Counted(file string) (name [16]byte) {
	return [16]byte(digest(k.Counters, "authguard: whose saved counters these are: "+file))
}

// Compare is a read-only Agree. An unused database agrees with any keys.
func Compare(ctx context.Context, db *sql.DB, keys Keys, path string) error {
	own := keys.Fingerprint()
	theirs := own
	err := db.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = $1`, setting).Scan(&theirs)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("secrets: compare the keys with other nodes: %w", err)
	}
	return differ(own, theirs, path)
}

// differ returns ErrDiffer with a remedy unless the fingerprints agree.
func differ(own, theirs, path string) error {
	if Agrees(own, theirs) {
		return nil
	}
	return fmt.Errorf("%w: this node's, %s, has the fingerprint %s, but the database was first used with %s. "+
		"With other keys this node would count separately and reject the challenges and device cookies of the others. "+
		"Stop it, copy the keys file of a running node over %s, and start it again. "+
		"If that file is lost for good: stop all nodes, give all of them this one, and run "+
		"DELETE FROM settings WHERE name = 'keys' (counters and device cookies start anew)",
		ErrDiffer, path, own, theirs, path)
}

// Fingerprint lets nodes compare their keys without revealing them. The first part identifies the keys of counters and
// challenges. One part per cookie key follows, newest first:
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

// Agrees reports whether nodes with these fingerprints can work together. One common cookie key is enough because
// cookie keys are rotated node by node; the other keys must be equal.
func Agrees(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	return x[0] == y[0] && slices.ContainsFunc(x[1:], func(part string) bool { return slices.Contains(y[1:], part) })
}
