package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/internal/database"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/ldaptest"
	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
)

// recipe is the configuration below a heading of docs/how-to/accounts.md, with a setting of
// the test's.
func recipe(t *testing.T, heading, key, value string) string {
	t.Helper()
	for _, b := range doctest.Read(t, "docs/how-to/accounts.md").Blocks {
		if b.Heading == heading && b.Language == "yaml" {
			line := regexp.MustCompile(`(?m)^  ` + key + `: .*$`)
			if !line.MatchString(b.Text) {
				t.Fatalf("%s has no %s", heading, key)
			}
			return line.ReplaceAllString(b.Text, fmt.Sprintf("  %s: %q", key, value))
		}
	}
	t.Fatalf("docs/how-to/accounts.md has no configuration under %s", heading)
	return ""
}

// toRun is a command or statement under a heading of docs/how-to/accounts.md.
func toRun(t *testing.T, heading string) string {
	t.Helper()
	for _, b := range doctest.Claimed(t, "docs/how-to/accounts.md") {
		if b.Heading == heading {
			return b.Text
		}
	}
	t.Fatalf("docs/how-to/accounts.md has nothing to run under %s", heading)
	return ""
}

// foreignHashes are hashes of rightPassword that other programs made, by who made them.
func foreignHashes(t *testing.T, of string) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../internal/passwords/testdata/hashes.txt")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if tool, hash, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && regexp.MustCompile(of).MatchString(tool) {
			found[tool] = hash
		}
	}
	return found
}

// allIn wants everybody let in with the right password and nobody with another.
func allIn(t *testing.T, s *server, block int, users ...string) {
	t.Helper()
	for i, user := range users {
		if a := from(loopback(block, 2*i)).login(t, s, user, fmt.Sprint(rightPassword, i)); a.status != http.StatusUnauthorized {
			t.Errorf("%s, wrong password: %d %s", user, a.status, a.body)
		}
		if a := from(loopback(block, 2*i+1)).login(t, s, user, rightPassword); a.status != http.StatusOK && a.status != http.StatusSeeOther {
			t.Errorf("%s: %d %s", user, a.status, a.body)
		}
	}
}

func userOf(tool string) string { return strings.ToLower(strings.ReplaceAll(tool, " ", ".")) }

// A table as Django 3.2 makes it, in PostgreSQL, with the hashes of all its hashers;
// the role can read no more than the document grants.
func TestADjangoTableLogsInAsTheDocsSay(t *testing.T) {
	t.Parallel()
	dsn := postgrestest.Shared(t).Database(t)
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	statements := []string{`CREATE TABLE auth_user (id serial PRIMARY KEY, password varchar(128) NOT NULL, last_login timestamptz, is_superuser boolean NOT NULL,
		username varchar(150) NOT NULL UNIQUE, first_name varchar(150) NOT NULL, last_name varchar(150) NOT NULL, email varchar(254) NOT NULL,
		is_staff boolean NOT NULL, is_active boolean NOT NULL, date_joined timestamptz NOT NULL)`}
	var users []string
	insert := func(user, hash string, active bool) {
		statements = append(statements, fmt.Sprintf(`INSERT INTO auth_user (password, is_superuser, username, first_name, last_name, email, is_staff, is_active, date_joined)
			VALUES ('%s', false, '%s', '', '', '%[2]s@example.org', false, %t, now())`, hash, user, active))
	}
	for tool, hash := range foreignHashes(t, "Django") {
		users = append(users, userOf(tool))
		insert(userOf(tool), hash, true)
	}
	insert("unusable", "!uq21gHW7GeOlIqAhNVJL6MNoPRfO0SukyRphijmU", true)
	insert("gone", foreignHashes(t, "Django PBKDF2$")["Django PBKDF2"], false)
	insert("crypt", "crypt$$ab01FAX.bQRSU", true)
	role := fmt.Sprintf("reader%d", os.Getpid())
	for _, s := range append(statements, strings.ReplaceAll(toRun(t, "Django"), "authguard", role)) {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	as, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	as.User = url.UserPassword(role, "change-me")
	s := newServer(t, recipe(t, "Django", "database", as.String()))
	if len(users) != 10 {
		t.Errorf("%d users", len(users))
	}
	allIn(t, s, 110, users...)
	for i, user := range []string{"unusable", "gone", "crypt", strings.ToUpper(users[0])} {
		if a := from(loopback(111, i)).login(t, s, user, rightPassword); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", user, a.status, a.body)
		}
	}
	if log := s.log.String(); strings.Count(log, "Password hashes of an unsupported kind") != 1 || !strings.Contains(log, "it is Django crypt") {
		t.Errorf("nobody is told:\n%s", log)
	}
}

// Rows of wp_users as WordPress of all times writes them. The document's export and
// import, with a mariadb that answers as that of make test-apps does.
func TestAWordPressTableLogsInAsTheDocsSay(t *testing.T) {
	t.Parallel()
	var users, rows []string
	for tool, hash := range foreignHashes(t, "WordPress|PHP md5|PHP password_hash") {
		user := strings.ToLower(strings.ReplaceAll(tool, " ", "-"))
		users = append(users, user)
		rows = append(rows, user+","+user+"@example.org,"+hash)
	}
	if len(users) != 4 {
		t.Fatalf("%q", users)
	}
	s := newServer(t, "")
	said := export(t, s, "#!/bin/sh\ncase \"$*\" in *'CONCAT_WS('*user_login*user_email*user_pass*wp_users*) cat <<'END'\n"+strings.Join(rows, "\n")+"\nEND\n;; esac\n")
	if !strings.Contains(said, "4 accounts imported") {
		t.Fatal(said)
	}
	allIn(t, s, 112, users...)
	// Each was upgraded by that login: the next one is as good, and doctor sees bcrypt alone.
	if said := s.must("doctor"); !strings.Contains(said, "contains the password hashes of 5 accounts: 5 with bcrypt.") {
		t.Errorf("doctor: %s", said)
	}
	allIn(t, s, 113, users...)
}

// export runs the document's export of WordPress's accounts, with a mariadb of the test's.
func export(t *testing.T, s *server, mariadb string) string {
	t.Helper()
	bin := filepath.Join(s.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{
		"mariadb":   mariadb,
		"authguard": "#!/bin/sh\nexec " + product + " --config " + filepath.Join(s.dir, "authguard.yaml") + " \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-ec", wordPressExport(t))
	cmd.Dir, cmd.Env = s.dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	said := say(t, cmd, "")
	if said.status != 0 {
		t.Fatalf("%+v", said)
	}
	return said.out
}

// wordPressExport is the command of docs/how-to/accounts.md.
func wordPressExport(t *testing.T) string {
	t.Helper()
	for _, b := range doctest.Read(t, "docs/how-to/accounts.md").Blocks {
		if b.Heading == "WordPress" && b.Language == "sh" {
			return b.Text
		}
	}
	t.Fatal("docs/how-to/accounts.md does not export WordPress's accounts")
	return ""
}

// settled makes a changed htpasswd file old enough to be read.
func settled(t *testing.T, file string) {
	t.Helper()
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(file, old, old); err != nil {
		t.Fatal(err)
	}
}

// Apache's htpasswd makes the file, with SHA-512 crypt.
func TestAnHtpasswdFileLogsInAsTheDocsSay(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "htpasswd")
	add := func(line string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", line)
		cmd.Stdin = strings.NewReader(rightPassword)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %s", line, out)
		}
		settled(t, file)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	line := strings.Replace(strings.Replace(toRun(t, "htpasswd"), "/etc/nginx/htpasswd", file, 1), "htpasswd -5", "htpasswd -i -5", 1)
	add(line)
	s := newServer(t, recipe(t, "htpasswd", "htpasswd", file))
	allIn(t, s, 114, "alice")
	for kind, user := range map[string]string{"-m": "apr1", "-B -C 5": "bcrypt", "-s": "sha", "-2": "sha256", "-d": "des"} {
		add(strings.Replace(strings.Replace(line, "-5", kind, 1), "alice", user, 1))
	}
	allIn(t, s, 115, "apr1", "bcrypt", "sha", "sha256", "alice")
	if a := from(loopback(116, 1)).login(t, s, "des", rightPassword); a.status != http.StatusUnauthorized {
		t.Errorf("DES crypt: %d", a.status)
	}
	said := say(t, s.command("doctor"), "")
	if want := "so 1 of 6 accounts cannot log in: 1 with DES crypt."; said.status != 1 || !strings.Contains(said.out, want) {
		t.Errorf("doctor: %s", said.out)
	}
}

// Any table: people are one account by both of their names.
func TestAnySQLTableLogsInAsTheDocsSay(t *testing.T) {
	t.Parallel()
	theirs := filepath.Join(t.TempDir(), "app.db")
	db, err := database.Open(t.Context(), theirs)
	if err != nil {
		t.Fatal(err)
	}
	hash := foreignHashes(t, "as Werkzeug")
	for _, s := range []string{
		"CREATE TABLE users (email TEXT, nickname TEXT, password_hash TEXT, active BOOLEAN)",
		fmt.Sprintf("INSERT INTO users VALUES ('Kim@Example.org', 'Kim', '%s', TRUE), ('lee@example.org', 'Lee', '%s', TRUE), ('ann@example.org', 'Ann', '%[2]s', FALSE)",
			hash["hashlib.scrypt as Werkzeug"], hash["hashlib.pbkdf2_hmac as Werkzeug"]),
	} {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, recipe(t, "SQL queries", "database", theirs))
	allIn(t, s, 117, "kim", "KIM@example.org", "LEE", "lee@example.org")
	if told := s.must("explain", "--account", "Kim"); !strings.Contains(told, "account: 2 of 5 failures") {
		t.Errorf("two wrong passwords by two names are no two failures of one account:\n%s", told)
	}
	if a := from(loopback(118, 1)).login(t, s, "ann", rightPassword); a.status != http.StatusUnauthorized {
		t.Errorf("ann: %d", a.status)
	}
}

// A directory by slapd, with hashes of its own and of others. It goes away and comes
// back.
func TestALDAPDirectoryLogsInAsTheDocsSay(t *testing.T) {
	long(t)
	t.Parallel()
	d := ldaptest.New(t)
	kim := d.Person(t, "Kim", "{SSHA}B78Gg/25oeE+NpWLtzBhZIFYKJilVIqR", "mail: kim@example.org")
	d.Person(t, "lee", "{CRYPT}"+foreignHashes(t, "openssl passwd -6")["openssl passwd -6"])
	d.Person(t, "ann", rightPassword)
	d.Add(t, "cn=editors,ou=groups,"+ldaptest.Base, "objectClass: groupOfNames", "cn: editors", "member: "+kim)
	yaml := recipe(t, "LDAP", "  url", d.TLSURL)
	for printed, mine := range map[string]string{"password: change-me": "password: " + ldaptest.Password + "\n    tls_ca: " + d.CA} {
		if !strings.Contains(yaml, printed) {
			t.Fatalf("the recipe has no %s:\n%s", printed, yaml)
		}
		yaml = strings.Replace(yaml, printed, mine, 1)
	}
	s := newServer(t, yaml)
	allIn(t, s, 120, "kim", "KIM@Example.org", "lee", "ann")
	if told := s.must("explain", "--account", "Kim@example.org"); !strings.Contains(told, "account: 2 of 5 failures") {
		t.Errorf("two wrong passwords by two names are no two failures of one account:\n%s", told)
	}
	p := from("127.121.0.1")
	p.login(t, s, "Kim@example.org", rightPassword)
	if a := p.get(t, s.base+"/auth/verify"); a.status != http.StatusOK || a.header.Get("Remote-User") != "kim" || a.header.Get("Remote-Groups") != "editors" || a.header.Get("Remote-Email") != "kim@example.org" {
		t.Errorf("%d %v", a.status, a.header)
	}
	for i, name := range []string{"*", "kim)(uid=*", "nobody"} {
		if a := from(loopback(122, i)).login(t, s, name, rightPassword); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	if said := say(t, s.command("doctor"), ""); !strings.Contains(said.out, "The directory "+d.TLSURL+" answers a search.") {
		t.Errorf("doctor: %+v", said)
	}

	d.Kill()
	redistest.Until(t, "the directory to be missed", func() bool {
		return from("127.123.0.1").login(t, s, "ann", "wrong").status == http.StatusServiceUnavailable && s.log.has("Accounts cannot be looked up")
	})
	before := s.must("explain", "--account", "lee", "--address", "127.123.0.2")
	for name, password := range map[string]string{"lee": rightPassword, "ann": "wrong", "nobody": "x"} {
		if a := from("127.123.0.2").login(t, s, name, password); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s while it is away: %d %v", name, a.status, a.header)
		}
	}
	if after := s.must("explain", "--account", "lee", "--address", "127.123.0.2"); after != before {
		t.Errorf("it is charged to somebody:\n%s\nand before\n%s", after, before)
	}
	if a := from("127.123.0.3").get(t, s.admin+"/readyz"); a.status != http.StatusServiceUnavailable {
		t.Errorf("ready: %d", a.status)
	}
	if said := say(t, s.command("doctor"), ""); said.status != 1 || !strings.Contains(said.out, "does not answer a search: ") || !strings.Contains(said.out, "Warning of the running server: Accounts cannot be looked up") {
		t.Errorf("doctor: %+v", said)
	}
	d.Start(t)
	redistest.Until(t, "the directory to be found again", func() bool {
		return from("127.123.0.4").login(t, s, "lee", rightPassword).status != http.StatusServiceUnavailable
	})
	allIn(t, s, 124, "lee")
	if a := from("127.123.0.3").get(t, s.admin+"/readyz"); a.status != http.StatusOK || !s.log.has("Accounts can be looked up again") {
		t.Errorf("ready again: %d", a.status)
	}
}
