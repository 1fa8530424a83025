// Package secrets keeps the keys of a data folder: one for the digests of the
// counters, one for challenges, and those of device cookies, the newest first.
//
// The file is made at the first start, readable by its owner only:
//
//	counters 4f3c…
//	challenges 81aa…
//	cookie 90d1…      (the first cookie key signs, all of them verify)
//
// Nodes that share a database need the same keys, but the keys do not belong in
// that database: a leaked backup would be enough to forge cookies. Make the file
// on one node and copy it to the others, or mount it; [Read] takes such a file,
// and [Agree] notices nodes whose files differ.
package secrets

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Keys are 32 random bytes each.
type Keys struct {
	Counters   []byte
	Challenges []byte
	Cookies    [][]byte // at least one
}

const keyBytes = 32

// Load reads the file, or makes it if there is none. A file that others can
// read, or that has a line which is no key, is an error: nothing is guessed.
func Load(path string) (Keys, error) {
	k, err := read(path, 0o077)
	if errors.Is(err, fs.ErrNotExist) {
		return create(path)
	}
	return k, err
}

// Read reads a file that was made elsewhere and may be read-only. It never makes
// one: a node with keys of its own would work against the others. The file's
// group may read it, as is usual for mounted files; nobody else may.
func Read(path string) (Keys, error) {
	k, err := read(path, 0o037)
	if errors.Is(err, fs.ErrNotExist) {
		return k, fmt.Errorf("%w; copy the file from a node that has it", err)
	}
	return k, err
}

func read(path string, forbidden fs.FileMode) (k Keys, err error) {
	f, err := os.Open(path)
	if err != nil {
		return k, fmt.Errorf("secrets: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return k, fmt.Errorf("secrets: %w", err)
	}
	if info.Mode().Perm()&forbidden != 0 {
		return k, fmt.Errorf("secrets: %s can be used by others (mode %v): chmod 600 it", path, info.Mode().Perm())
	}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		if err := k.line(lines.Text()); err != nil {
			return k, fmt.Errorf("secrets: %s:%d: %w", path, n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return k, fmt.Errorf("secrets: %s: %w", path, err)
	}
	if k.Counters == nil || k.Challenges == nil || len(k.Cookies) == 0 {
		return k, fmt.Errorf("secrets: %s: a counters, a challenges and a cookie key are needed", path)
	}
	return k, nil
}

// line reads one line; the error never repeats what may be a key.
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
	text := fmt.Sprintf("# Keys of this authguard. Whoever has them can forge device cookies and solve challenges.\n"+
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
		err = os.Link(temporary.Name(), path) // fails if somebody else was first
	}
	if errors.Is(err, fs.ErrExist) {
		return read(path, 0o077)
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
