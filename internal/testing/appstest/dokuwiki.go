package appstest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// DokuWiki starts a wiki whose accounts are in its own file, that everybody may
// read, with its remote API (XML-RPC and JSON-RPC) on.
func DokuWiki(t testing.TB) *App {
	t.Helper()
	a := newApp(t)
	port := a.listen(t)
	a.copyOf(t, "/usr/share/dokuwiki", "www")
	a.copyOf(t, "/etc/dokuwiki", "conf")
	a.copyOf(t, "/var/lib/dokuwiki/data", "data")
	a.write(t, "dokuwiki/preload.php", "www/inc/preload.php")
	a.write(t, "dokuwiki/local.php", "conf/local.php")
	a.write(t, "dokuwiki/auth.php", "www/lib/plugins/authcount/auth.php")
	a.write(t, "dokuwiki/plugin.info.txt", "www/lib/plugins/authcount/plugin.info.txt")
	a.write(t, "dokuwiki/acl.auth.php", "conf/acl.auth.php")
	a.write(t, "dokuwiki/users.auth.php", "conf/users.auth.php", "{{user}}", User, "{{hash}}", hash(t))
	a.apache(t, port)
	return a
}

// hash is Password's as PHP makes it.
func hash(t testing.TB) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/php", "-r", `echo password_hash(getenv("PASSWORD"), PASSWORD_BCRYPT);`)
	cmd.Env = append(os.Environ(), "PASSWORD="+Password)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("php: %v", err)
	}
	return strings.TrimSpace(string(out))
}
