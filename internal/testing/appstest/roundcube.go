package appstest

import (
	"net"
	"os"
	"strings"
	"testing"

	"authguard/internal/testing/redistest"
)

// Roundcube starts a webmail with Dovecot, which checks the passwords, and counts the wrong ones only: each page of a
// signed-in user logs in there.
func Roundcube(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	_, imap, _ := net.SplitHostPort(redistest.FreeAddress(t))
	a.dovecot(t, imap)
	a.write(t, "roundcube/config.inc.php", "config/config.inc.php", "{{imap}}", imap)
	a.link(t, "/etc/roundcube/defaults.inc.php", "config/defaults.inc.php")
	a.link(t, "/var/lib/roundcube/public_html", "www")
	a.apache(t, port, "ROUNDCUBE_CONFIG_DIR="+a.path("config"))
	a.guesses = a.path("imap.log")
	a.counts = func(line string) bool { return strings.Contains(line, "passwd-file(") }
	return a
}

// dovecot starts an IMAP server with one account.
func (a *App) dovecot(t testing.TB, port string) {
	t.Helper()
	as := "www-data"
	if os.Getuid() != 0 {
		as = os.Getenv("USER")
	}
	a.write(t, "roundcube/dovecot.conf", "dovecot.conf", "{{port}}", port, "{{as}}", as)
	a.put(t, "users", User+":{BLF-CRYPT}"+hash(t)+"\n")
	a.own(t)
	a.start(t, func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, "/usr/sbin/dovecot", "-F", "-c", a.path("dovecot.conf"))
}
