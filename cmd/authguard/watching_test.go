package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

const backEnd = "a-back-ends-token-of-32-characters"

// offer is an attempt of a back end, settled if its password may be looked at.
func (s *server) offer(t *testing.T, account, address, outcome string, more map[string]any) (decision string, reasons []string) {
	t.Helper()
	var out struct {
		Decision, Ticket string
		Reasons          []string
	}
	in := map[string]any{"account": account, "address": address}
	for name, value := range more {
		in[name] = value
	}
	if status := s.ask(t, backEnd, "/v1/attempts", in, &out); status != http.StatusOK {
		t.Fatalf("%d", status)
	}
	if out.Decision == "proceed" {
		if status := s.ask(t, backEnd, "/v1/attempts/settle", map[string]string{"ticket": out.Ticket, "outcome": outcome}, nil); status != http.StatusNoContent {
			t.Fatalf("settling: %d", status)
		}
	}
	return out.Decision, out.Reasons
}

// replayed is what `authguard limit replay` has found in a file.
func (s *server) replayed(t *testing.T, file string) (log struct{ Attempts, Failed, Succeeded, Bad, Late int64 }) {
	t.Helper()
	var found struct{ Log json.RawMessage }
	said := say(t, s.command("--json", "limit", "replay", file), "")
	if said.status != 0 {
		return log // there is nothing yet
	}
	if err := json.Unmarshal([]byte(said.out), &found); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(found.Log, &log); err != nil {
		t.Fatal(err)
	}
	return log
}

// The documents' way from watching to enforcing, with the real program: an attack is
// watched, taken out of the audit log, tuned on, and its limits are enforced by one switch.
func TestWatchingFirstOfTheDocuments(t *testing.T) {
	long(t)
	t.Parallel()
	blocks := doctest.Claimed(t, "docs/how-to/choose-limits.md")
	s := newServer(t, blocks[0].Text+"api: {tokens: ["+backEnd+"]}\n")
	typed := func(text string) string {
		t.Helper()
		shell := exec.Command("bash", "-euo", "pipefail", "-c", "authguard() { "+product+` "$@"; }`+"\n"+text)
		shell.Dir, shell.Env = s.dir, s.command().Env
		said, err := shell.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", text, err, said)
		}
		return string(said)
	}
	for command, says := range map[string]string{"config validate": "NOTHING IS ENFORCED", "doctor": "Monitoring mode is on"} {
		if said := say(t, s.command(strings.Fields(command)...), ""); !strings.Contains(said.out, says) {
			t.Errorf("%q says nothing of it: %s", command, said.out)
		}
	}
	if s.gauge(t, "authguard_enforced") != 0 {
		t.Error("the metric says that it is enforced")
	}
	const people, guesses = 20, 300
	for i := range people {
		s.offer(t, fmt.Sprint("person", i), fmt.Sprintf("192.0.2.%d", i), "succeeded", nil)
	}
	guess := func(i int) string {
		decision, _ := s.offer(t, fmt.Sprint("person", i%people), "203.0.113.9", "failed", nil)
		return decision
	}
	for i := range guesses {
		if got := guess(i); got != "proceed" {
			t.Fatalf("%d: %s, although nothing is enforced", i, got)
		}
	}
	file := filepath.Join(s.dir, "week.jsonl")
	redistest.Until(t, "all to be on record, and read again", func() bool {
		typed("authguard audit --oldest-first --format jsonl > week.jsonl; authguard audit --oldest-first --format csv > week.csv")
		return s.replayed(t, file).Attempts >= people+guesses
	})
	for _, name := range []string{"week.jsonl", "week.csv"} {
		if log := s.replayed(t, filepath.Join(s.dir, name)); log.Attempts != people+guesses || log.Failed != guesses || log.Succeeded != people || log.Bad != 0 {
			t.Errorf("%s: %+v, recorded were %d and %d", name, log, guesses, people)
		}
	}
	found := regexp.MustCompile(`(?m)^limits:\n(  .*\n)+`).FindString(typed(blocks[1].Text))
	if found == "" {
		t.Fatal("tune prints no limits")
	}
	config := filepath.Join(s.dir, "authguard.yaml")
	text, err := os.ReadFile(config)
	if err == nil {
		err = os.WriteFile(config, append(text, found...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.start()
	if said := typed(blocks[2].Text); !strings.Contains(said, "NOTHING IS ENFORCED") || guess(0) != "proceed" {
		t.Errorf("before the switch: %s", said)
	}
	typed(blocks[3].Text)
	if got := guess(1); got == "proceed" || s.gauge(t, "authguard_enforced") != 1 {
		t.Errorf("after the switch: %s", got)
	}
	if said := typed(blocks[4].Text); !strings.Contains(said, "The limits of account are 10/24h challenge, 100/24h block until ") {
		t.Errorf("other numbers: %s", said)
	}
}

// Clients that look alike are one at every door, by their headers, over keep-alive too; the audit log and replay know them.
func TestTheIdentityIsCountedAtEveryDoor(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"api: {tokens: ["+backEnd+"]}\nlimits: {fingerprint: [6/1h challenge]}\nfingerprint: {headers: [User-Agent, Accept-Language]}\n", "ann")
	bot := []string{"Host: x", "User-Agent: bot/1", "Cookie: a=b", "Accept-Language: en"}
	for i := range 3 { // a login form, on one connection
		if status := rawLogins(t, s, bot, fmt.Sprint("user", i)); status != "401" {
			t.Fatalf("%d: %s", i, status)
		}
	}
	for i := range 3 {
		if got, why := s.offer(t, fmt.Sprint("guessed", i), fmt.Sprintf("198.51.100.%d", i), "failed", map[string]any{"headers": bot}); got != "proceed" {
			t.Fatalf("%d: %s %v", i, got, why)
		}
	}
	if got, why := s.offer(t, "carol", "198.51.100.99", "failed", map[string]any{"headers": bot}); got != "challenge" || strings.Join(why, " ") != "limit:fingerprint" {
		t.Errorf("the seventh: %s %v", got, why)
	}
	if status := rawLogins(t, s, bot, "ann"); status != "403" {
		t.Errorf("at the form: %s", status)
	}
	for name, other := range map[string]map[string]any{
		"nothing known": nil, "another": {"fingerprint": "ja4 of another"}, "other headers": {"headers": []string{"User-Agent: bot/2", bot[3]}},
	} {
		if got, why := s.offer(t, "dave", "198.51.100.98", "succeeded", other); got != "proceed" {
			t.Errorf("%s: %s %v", name, got, why)
		}
	}
	if status := s.ask(t, backEnd, "/v1/attempts", map[string]any{"account": "x", "address": "192.0.2.1", "fingerprint": "x", "headers": bot}, nil); status != http.StatusBadRequest {
		t.Errorf("both: %d", status)
	}
	redistest.Until(t, "the client on record", func() bool {
		return regexp.MustCompile(`"fingerprint":"[0-9a-f]{8}"`).MatchString(s.must("audit", "--what", "limit:fingerprint", "--format", "jsonl"))
	})
	if said := s.must("limit", "list"); !strings.Contains(said, "fingerprint") {
		t.Error(said)
	}
}

// rawLogins logs in with these headers, as they stand; the answer's status.
func rawLogins(t *testing.T, s *server, headers []string, account string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	page := "GET /login HTTP/1.1\r\nHost: x\r\nAccept-Language: en\r\nUser-Agent: bot/1\r\n\r\n"
	body := "username=" + account + "&password=wrong"
	login := "POST /login HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + fmt.Sprintf("\r\nAccept: application/json\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(body), body)
	for _, piece := range []string{page + login[:40], login[40:]} { // pipelined, and in pieces
		if _, err := io.WriteString(c, piece); err != nil {
			t.Fatal(err)
		}
	}
	r := bufio.NewReader(c)
	for range 2 {
		answer, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		if answer.Close {
			return fmt.Sprint(answer.StatusCode)
		}
	}
	return "none"
}
