package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/internal/database"
)

// lookedUpWithin is how long a page may take on a month of audit.
const lookedUpWithin = 200 * time.Millisecond

// TestAMonthOfAuditIsLookedUpInTime asks a real server for its pages, on the database that
// TestAMonthOfFailedLoginsFitsItsBound of internal/audit has left: see docs/benchmarks.md.
func TestAMonthOfAuditIsLookedUpInTime(t *testing.T) {
	dsn := os.Getenv("AUDIT_MONTH")
	if dsn == "" {
		t.Skip("AUDIT_MONTH names no database: see docs/benchmarks.md")
	}
	yaml, prepare := quiet+"audit: {retention: 7320d}\n", func(data string) {
		if err := os.MkdirAll(data, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(dsn, filepath.Join(data, "authguard.db")); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasPrefix(dsn, "postgres") {
		yaml, prepare = yaml+"database: "+dsn+"\n", func(string) {}
	}
	db, err := database.Open(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	boss := fmt.Sprintf("boss%d", time.Now().UnixNano()) // it may have been here before
	(&server{t: t}).addUsers(dsn, []string{boss})
	if _, err := db.Exec("DELETE FROM known_clients"); err != nil { // the keys of the last time are gone
		t.Fatal(err)
	}
	if _, err := db.Exec("DELETE FROM settings"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("UPDATE accounts SET role = 'admin' WHERE username = $1", boss); err != nil {
		t.Fatal(err)
	}
	s := newServerIn(t, prepare, yaml)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	if answer, err := browser.PostForm(s.admin+"/login", url.Values{"username": {boss}, "password": {rightPassword}}); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("not signed in: %v %v", answer, err)
	}
	one := func(query string) (account, address string) {
		t.Helper()
		if err := db.QueryRow("SELECT account, address FROM audit WHERE "+query+" LIMIT 1").Scan(&account, &address); err != nil {
			t.Fatal(err)
		}
		return url.QueryEscape(account), url.QueryEscape(address)
	}
	account, address := one("part = 1")
	_, network := one("part = 2")
	for _, path := range []string{
		"/lookup?account=" + account, "/lookup?address=" + address, "/lookup?account=" + account + "&address=" + address, "/lookup?account=nobody", "/lookup?address=192.0.2.1",
		"/lookup?account=person0001", "/lookup?address=198.51.100.1", "/lookup?account=person0001&address=198.51.100.1",
		"/audit", "/audit?kind=admin", "/audit?kind=failed", "/audit?kind=refused", "/audit?account=person0001", "/audit?address=" + network, "/audit?address=11.0.0.0/8", "/audit?address=198.51.100.0/24",
		"/audit?who=ann", "/audit?what=captcha-mode", "/audit?what=nothing-has-this", "/audit?until=10d&kind=failed", "/accounts", "/",
	} {
		var took []time.Duration
		for range 11 {
			began := time.Now()
			answer, err := browser.Get(s.admin + path)
			if err != nil || answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusNotFound {
				t.Fatalf("%s: %v %v", path, answer, err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			took = append(took, time.Since(began))
		}
		first := took[0]
		slices.Sort(took)
		fmt.Fprintf(os.Stderr, "%-60s first %v, median %v, worst %v\n", path[:min(60, len(path))], first.Round(time.Millisecond/10), took[5].Round(time.Millisecond/10), took[10].Round(time.Millisecond/10))
		if took[5] > lookedUpWithin {
			t.Errorf("%s takes %v", path, took[5])
		}
	}
}
