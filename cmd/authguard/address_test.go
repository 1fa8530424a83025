package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The doors' proxies are not the administration's: they may say for whom they
// speak at the doors, and neither lift the check of the Host nor speak for
// administrators.
func TestR9TheAdministrationBelievesItsOwnProxiesOnly(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"proxies: [127.0.0.1]\n", "admin1")
	ask := func(host string) answer {
		r, err := http.NewRequest(http.MethodPost, s.admin+"/login", strings.NewReader(url.Values{"username": {"admin1"}, "password": {"wrong"}}.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "application/json")
		r.Header.Set("X-Forwarded-For", "203.0.113.7")
		return from("127.0.0.1").do(t, r)
	}
	if got := ask("evil.example"); got.status != http.StatusMisdirectedRequest {
		t.Errorf("a page of evil.example that means 127.0.0.1: %d %s", got.status, got.body)
	}
	logged := func(what string) {
		t.Helper()
		for range 200 {
			if s.log.has(what) {
				return
			}
			time.Sleep(20 * time.Millisecond) // the bus is another goroutine of another process
		}
		t.Errorf("%q is not in the log:\n%s", what, lastLines(s.log.String(), 5))
	}
	if got := ask("localhost"); got.status != http.StatusUnauthorized {
		t.Errorf("a wrong password: %d %s", got.status, got.body)
	}
	logged("address=127.0.0.1 door=admin")
	if s.log.has("203.0.113.7") {
		t.Error("the doors' proxy is believed at the administration")
	}
	yaml := filepath.Join(s.dir, "authguard.yaml")
	config, err := os.ReadFile(yaml)
	if err != nil {
		t.Fatal(err)
	}
	config = []byte(strings.Replace(string(config), "admin: {", "admin: {proxies: [127.0.0.1], hosts: [admin.example.org], ", 1))
	if err := os.WriteFile(yaml, config, 0o600); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Process.Signal(syscall.SIGHUP)
	logged("configuration reloaded")
	if got := ask("admin.example.org"); got.status != http.StatusUnauthorized {
		t.Errorf("by its own name, through its own proxy: %d %s", got.status, got.body)
	}
	logged("address=203.0.113.7 door=admin")
	if got := ask("evil.example"); got.status != http.StatusMisdirectedRequest {
		t.Errorf("evil.example, through its own proxy: %d %s", got.status, got.body)
	}
}

// Twelve people behind a proxy that nobody configured, with forwarding headers or
// without: the log, an alert, the overview and doctor say so, and none of them is
// known there, also after a restart.
func TestR9AForgottenProxyIsLoudAndNobodysPlace(t *testing.T) {
	t.Parallel()
	var people []string
	for i := range 12 {
		people = append(people, fmt.Sprint("person", i))
	}
	s := newServer(t, quiet, people...)
	for i, name := range people {
		p := from("127.0.0.1")
		if got := p.login(t, s, name, rightPassword); got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", name, got.status, got.body)
		}
		if i == 1 && s.log.has("forgotten-proxy") {
			t.Error("two accounts on one machine are a proxy")
		}
	}
	for _, says := range []string{"alert raised", "kind=forgotten-proxy", "name it in proxies", "allow_direct"} {
		if !s.log.has(says) {
			t.Errorf("%q is not in the log:\n%s", says, lastLines(s.log.String(), 5))
		}
	}
	if found := say(t, s.command("doctor"), ""); found.status == 0 || !strings.Contains(found.out, "A proxy is missing from the configuration") {
		t.Errorf("doctor: %d %s", found.status, found.out)
	}
	s.stop()
	s.start()
	if got := s.must("explain", "--account", "person0", "--address", "127.0.0.1"); strings.Contains(got, "has logged in to this account from this place before") {
		t.Errorf("person0 is known at the proxy: %s", got)
	}
}
