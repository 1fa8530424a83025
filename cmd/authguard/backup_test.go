package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"authguard/internal/testing/doctest"
)

// A copy that was made under attack, in an empty folder: accounts, known clients and counters.
func TestABackupOfARunningServerIsRestoredIntoAnEmptyFolder(t *testing.T) {
	t.Parallel()
	const policy = quiet + "limits: {pair_delay: off, address: [], network: []}\n"
	s := newServer(t, policy, "alice", "bob")
	if got := from("127.5.5.5").login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Fatalf("%d %s", got.status, got.body)
	}
	for i := range 3 {
		from(loopback(60, i)).login(t, s, "alice", fmt.Sprint("wrong", i))
	}
	var others sync.WaitGroup
	stop := make(chan struct{})
	others.Go(func() { // the files change while they are copied
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				from(loopback(61, i%200)).login(t, s, fmt.Sprint("invented", i), "wrong")
			}
		}
	})
	folder := filepath.Join(s.dir, "copy")
	typed := strings.Fields(doctest.Claimed(t, "docs/how-to/backup-and-restore.md")[0].Text)
	said := s.must(append(typed[1:len(typed)-1], folder)...)
	close(stop)
	others.Wait()
	if !strings.Contains(said, "keys, counters, counters-administration, authguard.db") {
		t.Error(said)
	}
	private(t, folder)
	s.fails("new folder", "backup", folder)
	s.stop()

	restored := newServerIn(t, func(data string) {
		if err := os.CopyFS(data, os.DirFS(folder)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(filepath.Join(data, "keys"), 0o600); err != nil {
			t.Fatal(err)
		}
	}, policy)
	for i, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusForbidden} {
		if got := from(loopback(62, i)).login(t, restored, "alice", fmt.Sprint("other", i)); got.status != want {
			t.Errorf("guess %d after three: %d, want %d", i+1, got.status, want)
		}
	}
	if got := from("127.5.5.5").login(t, restored, "alice", rightPassword); got.status != http.StatusOK {
		t.Errorf("alice at her known client: %d %s", got.status, got.body)
	}
	if got := from("127.63.0.1").login(t, restored, "bob", rightPassword); got.status != http.StatusOK {
		t.Errorf("bob: %d %s", got.status, got.body)
	}
}

// private is about files with passwords' hashes and keys.
func private(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
