package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

const (
	eventToken  = "an-events-token-of-32-characters"
	eventLimits = "api: {tokens: [" + eventToken + "]}\nevents: {password-reset: [2/1h block by account, 6/1h block by address, 3/1h alert by site]}\n"
)

// reset is one event; what was decided.
func (s *server) reset(t *testing.T, token, account string) (decision string) {
	t.Helper()
	var out struct{ Decision string }
	if status := s.ask(t, token, "/v1/events/password-reset", map[string]string{"account": account, "address": "192.0.2.1"}, &out); status != http.StatusOK {
		return fmt.Sprint(status)
	}
	return out.Decision
}

// A real server counts events, in each realm by itself, over a kill -9 and a reload,
// and says so where an operator looks.
func TestR7EventsAreCountedOverAKillAndAReload(t *testing.T) {
	t.Parallel()
	const shop = "realms: [{name: shop, tokens: [the-shops-token-of-32-characters], events: {password-reset: [1/1h delay by account]}}]\n"
	s := newServer(t, quiet+eventLimits+shop)
	const other = "the-shops-token-of-32-characters"
	want := func(token, account, decision string) {
		t.Helper()
		if got := s.reset(t, token, account); got != decision {
			t.Errorf("%s: %s, want %s", account, got, decision)
		}
	}
	want(eventToken, "alice", "proceed")
	want(eventToken, "Alice", "proceed")
	want(other, "alice", "proceed")
	want(other, "alice", "delay")
	want(eventToken, "alice", "block")
	s.kill()
	s.start()
	if said := s.do(t, "explain", "--event", "password-reset", "--account", "alice"); !strings.Contains(said, "account: 2 of 2 password-reset in any hour, then block; full") {
		t.Error(said)
	}
	if out, err := s.command("explain", "--event", "reset").CombinedOutput(); err == nil || !strings.Contains(string(out), "events with limits: password-reset") {
		t.Errorf("%v %s", err, out)
	}
	want(eventToken, "alice", "block")
	want(other, "alice", "delay")
	want(eventToken, "bob", "proceed")
	want(eventToken, "bob", "proceed") // the site's fourth: beyond three somebody is told
	redistest.Until(t, "the edges to be logged", func() bool {
		return s.log.has(`msg="event limit reached" address=unknown event=password-reset account=alice subject="" limit="2/1h block by account" beyond=1`) &&
			s.log.has(`msg="alert raised" kind=event-limit title="Event limit reached" body="password-reset: 3/1h alert by site"`)
	})
	redistest.Until(t, "the edge in the audit log", func() bool {
		return strings.Contains(from("127.0.0.1").get(t, s.admin+"/metrics").body, `authguard_events_total{decision="block",event="password-reset",realm="default"} 1`)
	})
	said := s.reloader(t, eventLimits+shop)("api: {tokens: [" + eventToken + "]}\nevents: {password-reset: [3/1h block by account]}\n")
	if !strings.Contains(said, "events") {
		t.Errorf("the reload says %q", said)
	}
	want(eventToken, "alice", "proceed") // the third: the old ones count on
	want(eventToken, "alice", "block")
	s.do(t, "unlock", "--event", "password-reset", "--account", "alice")
	want(eventToken, "alice", "proceed")
}

func TestR1EventsAtTwoNodesGetExactlyTheLimitAndPartOfItWithoutRedis(t *testing.T) {
	long(t)
	t.Parallel()
	for name, redis := range map[string]func(*testing.T) string{"one server": standalone, "a Cluster": cluster} {
		t.Run(name, func(t *testing.T) {
			nodes := newNodes(t, 2, redis(t), quiet+"api: {tokens: ["+eventToken+"]}\nevents: {password-reset: [20/1h block by account, 30/1h block by address, 40/1h block by site]}\n")
			var mu sync.Mutex
			decided := map[string]int{}
			tally(120, 30, func(i int) int {
				got := nodes[i%2].reset(t, eventToken, "alice")
				mu.Lock()
				defer mu.Unlock()
				decided[got]++
				return 0
			})
			if decided["proceed"] != 20 || decided["block"] != 100 {
				t.Errorf("%v, want 20 proceed and 100 refuse", decided)
			}
		})
	}
}

// The commands of the page about events, as they stand there, against a server with the
// page's configuration.
func TestTheDocsEventsAreAnswered(t *testing.T) {
	t.Parallel()
	blocks := doctest.Claimed(t, "docs/how-to/events.md")
	var s *server
	script := "authguard() { " + product + ` "$@"; }` + "\n"
	for _, b := range blocks {
		switch b.Language {
		case "yaml":
			s = newServer(t, quiet+b.Text)
		case "sh":
			script += b.Text // in one terminal
		}
	}
	shell := exec.Command("bash", "-euo", "pipefail", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8080", s.base))
	shell.Dir, shell.Env = s.dir, s.command().Env
	said, err := shell.CombinedOutput()
	if answered := strings.Count(string(said), `"decision":"proceed"`); err != nil || answered != 2 {
		t.Errorf("%d of 2 may: %v\n%s", answered, err, said)
	}
}
