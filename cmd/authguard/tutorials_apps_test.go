//go:build apps

package main

import (
	"testing"

	"authguard/internal/testing/doctest"
)

// MariaDB as Debian's package starts it. The packages themselves are installed by make test-apps.
const aDatabaseServer = `apt-get() { :; }
mount -t tmpfs tmpfs /run
mkdir /run/mysqld
mariadb-install-db --no-defaults --datadir=/srv/mysql --auth-root-authentication-method=normal --user=root --tmpdir=/run/mysqld >/dev/null
mariadbd --no-defaults --user=root --datadir=/srv/mysql --socket=/run/mysqld/mysqld.sock --skip-networking --tmpdir=/run/mysqld 2>/mnt/mariadb &
until [ -S /run/mysqld/mysqld.sock ]; do
	kill -0 $!
	sleep 0.05
done
`

func TestAppsWordPressTutorial(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, product)
	types(t, s, aDatabaseServer)
	followed(t, s, doctest.Claimed(t, "docs/tutorials/wordpress.md"))
}
