package secrets_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/internal/secrets"
)

func TestSecondStartFindsTheSameKeys(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	first, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := secrets.Load(path)
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
		_, err := secrets.Load(path)
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
	if _, err := secrets.Load(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := secrets.Load(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("%v", err)
	}
}
