package seal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/seal"
)

func TestSecondStartFindsTheSameKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	first, err := seal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := seal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Counters, second.Counters) || !bytes.Equal(first.Cookies[0], second.Cookies[0]) {
		t.Error("the keys changed")
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestBadFileIsRefusedWithoutRepeatingIt(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"short":   "counters abcd1234secret\n",
		"unknown": "password " + strings.Repeat("ab", 32) + "\n",
		"missing": "counters " + strings.Repeat("ab", 32) + "\n",
		"empty":   "",
	} {
		path := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := seal.Load(path)
		if err == nil || strings.Contains(err.Error(), "abab") || strings.Contains(err.Error(), "secret\n") {
			t.Errorf("%s: %v", name, err)
		}
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("%s: the file was changed", name)
		}
	}
}

func TestFileThatOthersCanReadIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if _, err := seal.Load(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := seal.Load(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
}

func key(n byte) []byte { return bytes.Repeat([]byte{n}, 32) }

func keys(counters, challenges byte, cookies ...byte) (k seal.Keys) {
	k.Counters, k.Challenges = key(counters), key(challenges)
	for _, c := range cookies {
		k.Cookies = append(k.Cookies, key(c))
	}
	return k
}

func TestAFingerprintTellsKeysApartAndTellsNoKey(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, k := range []seal.Keys{keys(1, 2, 3), keys(2, 1, 3), keys(1, 1, 3), keys(1, 2, 4), keys(1, 2, 4, 3), keys(9, 2, 3)} {
		f := k.Fingerprint()
		if seen[f] || f != k.Fingerprint() {
			t.Errorf("%s is not one file's", f)
		}
		seen[f] = true
		for _, secret := range append(k.Cookies, k.Counters, k.Challenges) {
			if strings.Contains(f, hex.EncodeToString(secret)[:8]) {
				t.Errorf("%s tells of a key", f)
			}
		}
	}
	if f := keys(1, 2, 3).Fingerprint(); len(f) != 25 {
		t.Errorf("%s is not short", f)
	}
}

func TestAFileFromElsewhereIsReadAndNeverMade(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "keys")
	if _, err := seal.Read(path); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "copy the file") {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 0 {
		t.Error("a file was made")
	}
	made, err := seal.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	for mode, readable := range map[os.FileMode]bool{
		0o400: true, 0o440: true, 0o600: true, 0o640: true, 0o444: false, 0o460: false, 0o604: false, 0o620: false,
	} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		k, err := seal.Read(path)
		if readable != (err == nil) || readable && k.Fingerprint() != made.Fingerprint() {
			t.Errorf("%v: %v", mode, err)
		}
	}
}
