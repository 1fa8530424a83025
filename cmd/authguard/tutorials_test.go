package main

import (
	"testing"

	"authguard/internal/testing/doctest"
)

// A program that a tutorial leaves running in another terminal goes to the background here.
const inTheBackground = `ln -s "$ROOT" /srv/authguard
export XDG_DATA_HOME=/srv/caddy XDG_CONFIG_HOME=/srv/caddy
listening() {
	until (exec 3<>/dev/tcp/127.0.0.1/8000) 2>/dev/null; do
		kill -0 $! || return 1
		sleep 0.05
	done
}
python3() { command python3 "$@" 2>/mnt/python & listening; }
php() { command php "$@" >/mnt/php 2>&1 & listening; }
`

// followed types in the blocks of a tutorial in their order. A file is saved where the next command expects it.
func followed(t *testing.T, s *doctest.Shell, blocks []doctest.Block) {
	t.Helper()
	types(t, s, inTheBackground)
	saved := map[string]string{"yaml": "authguard.yaml", "caddyfile": "Caddyfile", "python": "shop.py"}
	for _, b := range blocks {
		if b.Language == "console" {
			dialogue(t, s, b)
		} else if name := saved[b.Language]; name != "" {
			s.Write(name, b.Text)
		} else if said, ok := s.Run(b.Text); !ok {
			t.Fatalf("%s:%d:\n%s\n%s", b.Doc, b.Line, b.Text, said)
		}
	}
}

func TestOwnLoginTutorial(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	followed(t, doctest.NewShell(t, product), doctest.Claimed(t, "docs/tutorials/own-login.md"))
}

func TestSeveralAppsTutorial(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	followed(t, doctest.NewShell(t, product), doctest.Claimed(t, "docs/tutorials/several-apps.md"))
}
