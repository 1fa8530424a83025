package appstest

import (
	"os"
	"testing"
)

// apache serves the folder www with PHP, and variables of its environment.
func (a *App) apache(t testing.TB, port string, environment ...string) {
	t.Helper()
	as := ""
	if os.Getuid() == 0 {
		as = "User www-data\nGroup www-data"
	}
	a.write(t, "apache2.conf", "apache2.conf", "{{port}}", port, "{{as}}", as)
	a.own(t)
	a.start(t, a.answers, "/usr/bin/env", append(environment, "/usr/sbin/apache2", "-d", a.folder, "-f", a.path("apache2.conf"), "-DFOREGROUND")...)
}

// link puts a file or folder of the system's where the application looks for it.
func (a *App) link(t testing.TB, from, to string) {
	t.Helper()
	_ = os.Remove(a.path(to))
	if err := os.Symlink(from, a.path(to)); err != nil {
		t.Fatal(err)
	}
}

// copyOf copies a folder of the system's, so that the application writes
// nothing there.
func (a *App) copyOf(t testing.TB, from, to string) {
	t.Helper()
	a.run(t, "cp", "-rLT", from, a.path(to))
}
