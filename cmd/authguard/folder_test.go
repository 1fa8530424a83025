package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A server whose lock file was deleted still has its folder to itself.
func TestR1ADeletedLockFileLetsNoSecondServerCountApart(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"limits: {pair_delay: {first: 0s}}\n", "alice")
	for _, name := range []string{lockName, socketName} {
		if err := os.Remove(filepath.Join(s.dir, "data", name)); err != nil {
			t.Fatal(err)
		}
		s.refuses(t, "another server is running from "+filepath.Join(s.dir, "data"))
	}
	s.stop()
	s.start()
}
