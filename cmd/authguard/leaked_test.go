package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/testing/redistest"
)

// A list is built, loaded, replaced in place and by a new file while the server runs, and refused when it is
// damaged: the one before stays in force, and every way to ask says so.
func TestAListOfLeakedPasswordsIsReplacedWhileTheServerRuns(t *testing.T) {
	long(t)
	t.Parallel()
	s := newServer(t, quiet+"passwords: {cost: 10, queue_timeout: 1m, leaked: {file: leaked.bin}}\n", "ann")
	list, source := filepath.Join(s.dir, "leaked.bin"), filepath.Join(s.dir, "list.txt")
	build := func(to string, passwords ...string) {
		t.Helper()
		if err := os.WriteFile(source, []byte(strings.Join(passwords, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		s.must("password-list", "build", source, "--output", to)
	}
	rejected := func(password string) bool {
		t.Helper()
		said := say(t, s.command("user", "set-password", "ann", "--password-stdin"), password)
		if said.status != 0 && !strings.Contains(said.complaints, "known from leaks") {
			t.Fatalf("%+v", said)
		}
		return said.status != 0
	}
	const first, second, third = "my dog is called Rex", "my cat is called Tom", "my fish has no name"
	if !s.log.has("cannot be used") || rejected(first) || !rejected("Password") {
		t.Errorf("without a file:\n%s", s.log)
	}
	build(list, first)
	redistest.Until(t, "the list", func() bool { return rejected(first) })
	if rejected(second) {
		t.Error("a password that is not on the list is rejected")
	}
	build(filepath.Join(s.dir, "new.bin"), second, third)
	whole, err := os.ReadFile(filepath.Join(s.dir, "new.bin"))
	if err != nil {
		t.Fatal(err)
	}
	inPlace := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(list, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	damaged := bytes.Clone(whole)
	damaged[len(damaged)/2]++
	for what, content := range map[string][]byte{"cut off": whole[:len(whole)-7], "altered": damaged} {
		inPlace(content)
		broken := func() bool { return strings.Contains(s.must("status"), "leaked passwords could not be loaded") }
		redistest.Until(t, what, broken)
		if !rejected(first) || rejected(second) {
			t.Errorf("%s: the list before is not in force", what)
		}
		const why = "cannot be used: it is truncated or damaged: its checksum does not match"
		if said := say(t, s.command("config", "validate"), ""); said.status == 0 || !strings.Contains(said.complaints, why) {
			t.Errorf("%s: config validate: %+v", what, said)
		}
		if said := say(t, s.command("doctor"), ""); said.status == 0 || !strings.Contains(said.out, why) {
			t.Errorf("%s: doctor: %+v", what, said)
		}
		build(list, first) // another time than the damaged one
		redistest.Until(t, "the list", func() bool { return !broken() })
	}
	inPlace(whole)
	redistest.Until(t, "the list in place", func() bool { return rejected(second) })
	if rejected(first) {
		t.Error("the previous list is still in force")
	}
	s.must("config", "validate")
}

// On a quiet day, a right password from the list needs a code at an unknown client, which its owner gets by email, and a
// right one that is not on the list needs none. Every wrong answer is the same. Known clients are asked to change it.
func TestR32ALeakedPasswordIsStoppedAtAnUnknownClient(t *testing.T) {
	t.Parallel()
	box := openPostbox(t, false)
	s := newServer(t, fmt.Sprintf(quiet+"origin: http://login.example.org\nmail: {server: 'smtp://%s', from: guard@example.org}\n"+
		"passwords: {cost: 10, queue_timeout: 1m, leaked: {file: leaked.bin}}\n", box.Addr()), "carol@example.org", "dave@example.org")
	known := from("127.182.0.1")
	if a := known.login(t, s, "carol@example.org", rightPassword); a.status != http.StatusOK || strings.Contains(a.body, "password_leaked") {
		t.Fatalf("without the list: %d %s", a.status, a.body)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "list.txt"), []byte(rightPassword+"\nanother guess\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.must("password-list", "build", filepath.Join(s.dir, "list.txt"), "--output", filepath.Join(s.dir, "leaked.bin"))
	redistest.Until(t, "the list", func() bool {
		return strings.Contains(known.login(t, s, "carol@example.org", rightPassword).body, `"password_leaked":true`)
	})
	stopped := from("127.182.0.2").login(t, s, "carol@example.org", rightPassword)
	for i, password := range []string{"another guess", "not on the list"} {
		if wrong := from(loopback(183, i)).login(t, s, "carol@example.org", password); wrong.status != stopped.status || wrong.body != stopped.body {
			t.Errorf("stopped: %d %s\n%s: %d %s", stopped.status, stopped.body, password, wrong.status, wrong.body)
		}
	}
	if stopped.status != http.StatusUnauthorized {
		t.Errorf("an unknown client: %d %s", stopped.status, stopped.body)
	}
	letters := map[string]string{}
	for len(letters) < 2 { // the code, and the request for another password
		text := <-box.letters
		letters[regexp.MustCompile(`(?m)^Subject: (.*?)\r?$`).FindStringSubmatch(text)[1]] = text
	}
	code := codeLine.FindStringSubmatch(letters["Your verification code"])
	if code == nil || letters["Your password is known from leaks"] == "" {
		t.Fatalf("%q", letters)
	}
	if a := from("127.182.0.3").login(t, s, "carol@example.org", rightPassword, "code", code[1]); a.status != http.StatusOK {
		t.Errorf("with the code: %d %s", a.status, a.body)
	}
	redistest.Until(t, "the audit log", func() bool {
		return strings.Contains(s.must("audit", "--what", "password-leaked"), "carol@example.org")
	})
	s.configure(t, "file: leaked.bin", "file: leaked.bin, action: 'off'")
	if a := from("127.182.0.4").login(t, s, "dave@example.org", rightPassword); a.status != http.StatusOK || strings.Contains(a.body, "password_leaked") {
		t.Errorf("with the action off: %d %s", a.status, a.body)
	}
}
