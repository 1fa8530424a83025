package main

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authguard/internal/database"
	"authguard/internal/database/databasetest"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// What serve refuses, doctor and config validate refuse with the same sentence.
func TestWhatServeRefusesIsFoundBeforeTheStart(t *testing.T) {
	t.Parallel()
	file := func(name, text string) func(*testing.T, string) error {
		return func(_ *testing.T, dir string) error {
			path := filepath.Join(dir, name)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
		}
	}
	folder := func(name string) func(*testing.T, string) error {
		return func(_ *testing.T, dir string) error { return os.MkdirAll(filepath.Join(dir, name), 0o700) }
	}
	nothing := func(*testing.T, string) error { return nil }
	for name, c := range map[string]struct {
		yaml    string // DIR is the folder that prepare gets, and data: DIR/data
		prepare func(t *testing.T, dir string) error
		says    string
	}{
		"the data folder is a file":       {"", file("data", ""), "the data folder cannot be used: open DIR/data: not a directory"},
		"the data folder is below a file": {"data: DIR/file/data\n", file("file", ""), "the data folder cannot be used: stat DIR/file/data: not a directory"},
		"the lock is a folder":            {"", folder("data/lock"), "data/lock is a folder: remove it"},
		"the socket is a file":            {"", file("data/authguard.sock", ""), "data/authguard.sock is in the way and is no socket"},
		"the path is too long":            {"data: DIR/" + strings.Repeat("long", 30) + "\n", nothing, "the path of the data folder is too long for a socket"},
		"no folder for the keys":          {"keys_file: DIR/none/keys\n", nothing, "the keys file cannot be created: stat DIR/none: no such file or directory"},
		"no CA of Redis":                  {"redis: {addresses: ['127.0.0.1:1'], tls: true, tls_ca: DIR/none.pem}\n", nothing, "redis: tls_ca: open DIR/none.pem"},
		"no CA of the directory": {"accounts: {source: ldap, ldap: {url: 'ldaps://127.0.0.1:1', base: 'dc=x', user: '(uid={name})', tls_ca: DIR/none.pem}}\n",
			nothing, "accounts.ldap.tls_ca: open DIR/none.pem"},
		"a bad line in the htpasswd file": {"accounts: {source: htpasswd, htpasswd: DIR/h}\n", file("h", "alice\n"), "htpasswd: DIR/h: accounts: nothing was imported"},
		"no htpasswd file":                {"accounts: {source: htpasswd, htpasswd: DIR/h}\n", nothing, "Create it with: htpasswd -cB DIR/h USER"},
		"no htpasswd file of a realm": {"realms: [{name: shop, hosts: [shop.example.org], accounts: {source: htpasswd, htpasswd: DIR/h}}]\n",
			nothing, "realm shop: accounts.htpasswd: stat DIR/h: no such file or directory"},
		"no database of the accounts": {"accounts: {source: query, database: DIR/none.db, query: 'SELECT a, b FROM c WHERE d = $1'}\n",
			nothing, "accounts.database: database: open DIR/none.db: no such file or directory"},
		"no logo":              {"pages: {name: X, logo: DIR/none.png}\n", nothing, "pages.logo: open DIR/none.png"},
		"a disk without write": {"", readOnlyDisk, "the data folder cannot be used: write DIR/data: read-only file system"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "ag")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			if err := c.prepare(t, dir); err != nil {
				t.Fatal(err)
			}
			yaml := "listen: 127.0.0.1:0\nadmin: {listen: '127.0.0.1:0'}\n" + c.yaml
			if !strings.Contains(yaml, "data:") {
				yaml += "data: DIR/data\n"
			}
			yaml = strings.ReplaceAll(yaml, "DIR", dir)
			if err := os.WriteFile(filepath.Join(dir, "authguard.yaml"), []byte(yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			s, says := &server{t: t, dir: dir}, strings.ReplaceAll(c.says, "DIR", dir)
			for _, args := range [][]string{{"config", "validate"}, {"doctor"}} {
				if found := say(t, s.command(args...), ""); found.status == 0 || !strings.Contains(found.out+found.complaints, says) {
					t.Errorf("%v: %+v", args, found)
				}
			}
			s.refuses(t, says)
		})
	}
}

// readOnlyDisk makes the data folder a file system that is mounted read-only.
func readOnlyDisk(t *testing.T, dir string) error {
	data := filepath.Join(dir, "data")
	err := errors.Join(os.Mkdir(data, 0o700), syscall.Mount("tmpfs", data, "tmpfs", syscall.MS_RDONLY, "size=1m"))
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	return err
}

// What another node has written refuses a node in all commands alike.
func TestWhatServeRefusesInSharedServersIsFoundBeforeTheStart(t *testing.T) {
	t.Parallel()
	dsn, r := databasetest.PostgresURL(t), redistest.Standalone(t)
	s := newNodesOn(t, dsn, 1, redisAt(r, ""), quiet)[0]
	s.stop()
	signed := redisstore.SignKey(redisstore.DefaultPrefix)
	ours := r.Do(t, "GET", signed)
	for theirs, says := range map[string]string{
		"1 0123456789abcdef-01234567": "the keys files of the nodes differ",
		"99 x":                        "another version of authguard uses prefix",
	} {
		r.Do(t, "SET", signed, theirs)
		s.refusesAndSays(t, says)
	}
	r.Do(t, "SET", signed, ours)
	do := func(statement string) {
		t.Helper()
		db, err := database.Open(t.Context(), dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	var name string
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(db.QueryRowContext(t.Context(), "SELECT current_database()").Scan(&name), db.Close())
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	do("ALTER DATABASE " + name + " SET default_transaction_read_only = on")
	s.refusesAndSays(t, "PostgreSQL is read-only")
}
