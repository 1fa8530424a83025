package appstest

import (
	"os"
	"strings"
	"testing"
)

// PHPMyAdmin starts phpMyAdmin with its login page (auth_type cookie). Its
// account is one of the database's, and the database counts: wrong passwords only,
// since who is logged in connects with each page.
func PHPMyAdmin(t testing.TB) *App { t.Helper(); return phpMyAdmin(t, newApp(t)) }

// PHPMyAdminWithTOTP is PHPMyAdmin that asks the account for a code. Debian has no package of the library that it takes
// for this, so that a stand-in checks the code, by RFC 6238.
func PHPMyAdminWithTOTP(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	a.write(t, "phpmyadmin/google2fa.php", "google2fa.php")
	phpMyAdmin(t, a)
	tables, err := os.ReadFile("/usr/share/phpmyadmin/sql/create_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	a.sql(t, string(tables)+`;INSERT INTO pma__userconfig (username, config_data)
		VALUES ('`+User+`', '{"2fa": {"backend": "application", "settings": {"secret": "`+TOTPSecret+`"}}}')`)
	return a
}

func phpMyAdmin(t testing.TB, a *App) *App {
	t.Helper()
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
