package appstest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The applications here log in by a script, with JSON.

// Verdaccio starts an npm registry without packages. Nobody registers, and its tokens are JWTs, as
// docs/how-to/verdaccio.md says.
func Verdaccio(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.write(t, "verdaccio/config.yaml", "config.yaml")
	a.write(t, "verdaccio/count.js", "plugins/verdaccio-count/index.js")
	a.put(t, "htpasswd", User+":"+hash(t)+"\n")
	a.start(t, a.answers, "/usr/bin/env", "node", filepath.Join(cached(t, "verdaccio"), "node_modules/verdaccio/bin/verdaccio"),
		"-c", a.path("config.yaml"), "-l", "127.0.0.1:"+port)
	return a
}

// SyncthingKey is the key of Syncthing's REST API.
const SyncthingKey = "key-for-tests"

// Syncthing starts one device, which meets no other.
func Syncthing(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.write(t, "syncthing/config.xml", "config.xml", "{{port}}", port, "{{user}}", User, "{{hash}}", hash(t), "{{key}}", SyncthingKey)
	from := cached(t, "syncthing")
	a.start(t, a.answers, "/usr/bin/env", "STGUIASSETS="+from+"/gui", "HOME="+a.folder, from+"/syncthing", "serve", "--home="+a.folder,
		"--no-browser", "--no-restart", "--no-upgrade", "--no-default-folder", "--audit", "--auditfile="+a.guesses)
	a.counts = func(line string) bool { return strings.Contains(line, `"LoginAttempt"`) }
	return a
}

// cached is the folder of an application that .ci/need-apps has installed.
func cached(t testing.TB, name string) string {
	t.Helper()
	all, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(all, "authguard-apps", name)
}

func (a *App) put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(a.path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
