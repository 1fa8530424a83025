package appstest

import (
	"os"
	"testing"
)

// apache serves the folder www with PHP.
func (a *App) apache(t testing.TB, port string) {
	t.Helper()
	as := ""
	if os.Getuid() == 0 {
		as = "User www-data\nGroup www-data"
	}
	a.write(t, "apache2.conf", "apache2.conf", "{{port}}", port, "{{as}}", as)
	a.own(t)
	a.start(t, a.answers, "/usr/sbin/apache2", "-d", a.folder, "-f", a.path("apache2.conf"), "-DFOREGROUND")
}

// copyOf copies a folder of the system's, so that the application writes
// nothing there.
func (a *App) copyOf(t testing.TB, from, to string) {
	t.Helper()
	a.run(t, "cp", "-rLT", from, a.path(to))
}
