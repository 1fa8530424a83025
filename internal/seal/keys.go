package seal

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Keys are the keys file of a data folder, 32 random bytes each: one key for the digests of the counters, one for
// challenges, and those for device cookies, newest first. The first start creates the file, readable by its owner only:
//
//	counters 4f3c…
//	challenges 81aa…
//	cookie 90d1…      (the first cookie key signs, all of them verify)
//
// Nodes that share a database need the same keys, but the keys must not be in it: a leaked backup would be enough to
// forge cookies. Create the file on one node and copy it to the others, or mount it; [Read] reads such a file.
type Keys struct {
	Counters   []byte
	Challenges []byte
	Cookies    [][]byte // at least one
}

const keyBytes = 32

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
		return k, fmt.Errorf("keys file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return k, fmt.Errorf("keys file: %w", err)
	}
	if info.Mode().Perm()&0o037 != 0 {
		return k, fmt.Errorf("keys file: %s is readable by other users (mode %v): run chmod 600 on it", path,
			info.Mode().Perm())
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return k, fmt.Errorf("keys file: %s: %w", path, err)
	}
	for n, line := range strings.Split(string(text), "\n") {
		if err := k.line(line); err != nil {
			return k, fmt.Errorf("keys file: %s:%d: %w", path, n+1, err)
		}
	}
	if k.Counters == nil || k.Challenges == nil || len(k.Cookies) == 0 {
		return k, fmt.Errorf("keys file: %s: a counters, a challenges and a cookie key are needed", path)
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
		return k, fmt.Errorf("keys file: %w", err)
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
		return k, fmt.Errorf("keys file: %w", err)
	}
	return k, nil
}

func fresh() []byte {
	key := make([]byte, keyBytes)
	rand.Read(key) // never fails: it ends the program instead
	return key
}

// Counted identifies the counters' key and the file without revealing the key: counters of another key are useless, and
// the counters of the admin console are not those of the public login.
func (k Keys) Counted(file string) (name [16]byte) {
	return [16]byte(MAC(k.Counters, "authguard: whose saved counters these are: "+file))
}

// Fingerprint lets nodes compare their keys without revealing them. The first part identifies the keys of counters and
// challenges. One part per cookie key follows, newest first:
//
//	5f0c2b6e9d1a7734-c41fe02a
func (k Keys) Fingerprint() string {
	both := MAC(k.Counters, "authguard: fingerprint of counters and challenges\n",
		string(MAC(k.Challenges, "authguard: fingerprint of challenges")))
	parts := []string{fmt.Sprintf("%x", both[:8])}
	for _, cookie := range k.Cookies {
		parts = append(parts, fmt.Sprintf("%x", MAC(cookie, "authguard: fingerprint of a cookie key")[:4]))
	}
	return strings.Join(parts, "-")
}

// Agrees reports whether nodes with these fingerprints can work together. One common cookie key is enough because
// cookie keys are rotated node by node; the other keys must be equal.
func Agrees(a, b string) bool {
	x, y := strings.Split(a, "-"), strings.Split(b, "-")
	return x[0] == y[0] && slices.ContainsFunc(x[1:], func(part string) bool { return slices.Contains(y[1:], part) })
}
