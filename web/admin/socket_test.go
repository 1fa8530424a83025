package admin_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"authguard/web/admin"
)

func TestTheSocketIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "a.sock")
	l, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("closing left the file: %v", err)
	}
}

func TestASocketLeftBehindIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "a.sock")
	first, err := admin.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	second, err := admin.Listen(path) // as after kill -9
	if err != nil {
		t.Fatal(err)
	}
	_ = second.Close()
	_ = first.Close()
}

func TestNothingButASocketIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(shortDir(t), "a.sock")
	if err := os.WriteFile(path, []byte("dear diary"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen(path); err == nil || !strings.Contains(err.Error(), "in the way") {
		t.Errorf("got %v", err)
	}
	if text, err := os.ReadFile(path); string(text) != "dear diary" {
		t.Errorf("%q, %v", text, err)
	}
}

func TestASocketPathThatIsTooLongSaysWhatToDo(t *testing.T) {
	t.Parallel()
	path := "/tmp/" + strings.Repeat("x", admin.MaxSocketPath)
	_, err := admin.Listen(path)
	if !errors.Is(err, admin.ErrSocketPath) || !strings.Contains(err.Error(), "shorter path") {
		t.Errorf("got %v", err)
	}
}
