package appstest

import (
	"strings"
	"testing"
)

// PHPMyAdmin starts phpMyAdmin with its login page (auth_type cookie). Its
// account is one of the database's, and the database counts: wrong passwords only,
// since who is logged in connects with each page.
func PHPMyAdmin(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	socket := a.mariadb(t, User, Password)
	a.copyOf(t, "/usr/share/phpmyadmin", "www")
	a.write(t, "phpmyadmin/config.inc.php", "config.inc.php", "{{socket}}", socket)
	a.write(t, "phpmyadmin/vendor_config.php", "www/libraries/vendor_config.php")
	a.apache(t, port)
	a.guesses = a.path("mysql/log")
	a.counts = func(line string) bool { return strings.Contains(line, "Access denied for user") }
	return a
}
