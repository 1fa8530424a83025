package appstest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// mariadb starts a database server that listens on a socket in the
// application's folder, writes down who connects, and has the user who with the
// password password and every privilege. Its temporary tables lie there too: a
// server that starts removes what others have in the folder they share.
func (a *App) mariadb(t testing.TB, who, password string) (socket string) {
	t.Helper()
	if err := os.MkdirAll(a.path("mysql/tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	a.own(t)
	data, as := a.path("mysql/data"), []string{}
	if os.Getuid() == 0 {
		as = []string{"--user=www-data"}
	}
	a.run(
		t,
		"/usr/bin/mariadb-install-db",
		append(as, "--no-defaults", "--datadir="+data, "--tmpdir="+a.path("mysql/tmp"),
			"--auth-root-authentication-method=normal", "--skip-test-db")...)
	socket = a.path("mysql/socket")
	a.start(t, func() bool {
		c, err := net.Dial("unix", socket)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, "/usr/sbin/mariadbd", append([]string{"--no-defaults", "--datadir=" + data, "--socket=" + socket,
		"--skip-networking", "--tmpdir=" + a.path("mysql/tmp"),
		"--pid-file=" + a.path("mysql/pid"), "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M",
		"--innodb-log-file-size=16M", "--performance-schema=OFF", "--max-connections=300",
		"--general-log=1", "--general-log-file=" + a.path("mysql/log")}, as...)...)
	a.sql(
		t,
		fmt.Sprintf(
			"CREATE USER '%s'@'localhost' IDENTIFIED BY '%s'; GRANT ALL ON *.* TO '%[1]s'@'localhost'",
			who,
			password,
		),
	)
	return socket
}

// sql runs statements as the database's administrator.
func (a *App) sql(t testing.TB, statements string) {
	t.Helper()
	cmd := exec.Command("/usr/bin/mariadb", "--no-defaults", "--socket="+a.path("mysql/socket"), "-u", "root")
	cmd.Stdin = strings.NewReader(statements)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("mariadb: %v\n%s", err, out)
	}
}
