package main

import (
	"context"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/internal/seal"
	"authguard/internal/testing/apitest"
	"authguard/internal/testing/postgrestest"
	"authguard/internal/testing/redistest"
)

// newNodes starts several servers of one site: one Redis, one PostgreSQL, one
// keys file.
func newNodes(t *testing.T, n int, redis, yaml string, users ...string) []*server {
	t.Helper()
	return newNodesOn(t, databasetest.PostgresURL(t)+"&connect_timeout=3600&statement_timeout=3600000", n, redis, yaml, users...)
}

func newNodesOn(t *testing.T, dsn string, n int, redis, yaml string, users ...string) []*server {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	yaml = fmt.Sprintf("database: %s\nkeys_file: %s\nredis: {%s}\n%s", dsn, keys, redis, yaml)
	(&server{t: t}).addUsers(dsn, users)
	all := make([]*server, n)
	for i := range all {
		all[i] = newServer(t, yaml)
	}
	redistest.Until(t, "every node to have seen the others", func() bool {
		for _, s := range all {
			if s.gauge(t, "authguard_nodes") != n {
				return false
			}
		}
		return true
	})
	return all
}

// gauge is a whole number out of a server's metrics, of the default realm where there
// is one for each; -1 if it is not there.
func (s *server) gauge(t *testing.T, name string) int {
	t.Helper()
	return s.gaugeOf(t, "default", name)
}

// gaugeOf is gauge for another realm.
func (s *server) gaugeOf(t *testing.T, realm, name string) int {
	t.Helper()
	for line := range strings.Lines(from("127.0.0.1").get(t, s.admin+"/metrics").body) {
		if value, ok := strings.CutPrefix(strings.Replace(line, `{realm="`+realm+`"}`, "", 1), name+" "); ok {
			var n int
			_, _ = fmt.Sscan(value, &n)
			return n
		}
	}
	return -1
}

// standalone and cluster are the two ways to have Redis, as configuration, with
// the longest timeout there is: a busy machine must not look like a lost Redis.
func standalone(t *testing.T) string {
	return fmt.Sprintf("addresses: ['%s'], timeout: 5s", redistest.Standalone(t).Addr)
}

func cluster(t *testing.T) string {
	return fmt.Sprintf("addresses: ['%s'], mode: cluster, timeout: 5s", strings.Join(redistest.Cluster(t).Addrs(), "', '"))
}

func TestNodesActAsOne(t *testing.T) {
	long(t)
	t.Parallel()
	users := []string{"alice"}
	for i := range 40 {
		users = append(users, fmt.Sprintf("user%d", i))
	}
	token := strings.Repeat("t", 32)
	nodes := newNodes(t, 3, standalone(t), "api: {tokens: ["+token+"]}\nlimits: {pair_delay: off}\ncaptcha_mode: {throttle_delay: 0s}\nchallenge: {kind: pow, pow_cost: 100}\n", users...)
	t.Run("a place that one knows all know, and one mode is on everywhere", func(t *testing.T) {
		alice := from("127.200.0.1")
		if got := alice.login(t, nodes[0], "alice", rightPassword); got.status != http.StatusOK {
			t.Fatalf("alice: %d %s", got.status, got.body)
		}
		for i := range 36 { // each node sees 12, and 30 switch it on
			from(loopback(30, i)).login(t, nodes[i%3], users[1+i], "wrong")
		}
		redistest.Until(t, "CAPTCHA mode on every node", func() bool {
			for _, s := range nodes {
				if s.gauge(t, "authguard_captcha_mode") != 1 {
					return false
				}
			}
			return true
		})
		for i, s := range nodes {
			if got := from("127.201.0.1").login(t, s, "alice", rightPassword); got.status != http.StatusForbidden {
				t.Errorf("node %d: a stranger got %d", i, got.status)
			}
			if got := alice.login(t, s, "alice", rightPassword); got.status != http.StatusOK {
				t.Errorf("node %d: alice got %d %s", i, got.status, got.body)
			}
		}
		var on int
		for _, s := range nodes {
			on += strings.Count(s.log.String(), `msg="captcha mode switched" from=throttling to=on`)
		}
		if on != 1 {
			t.Errorf("the switch is told of %d times, want once", on)
		}
	})
	t.Run("an override on one holds on all", func(t *testing.T) {
		nodes[1].do(t, "captcha", "disable", "--for", "10m", "--reason", "test")
		redistest.Until(t, "every node to be off", func() bool {
			for _, s := range nodes {
				if s.gauge(t, "authguard_captcha_mode") != 0 {
					return false
				}
			}
			return true
		})
	})
	t.Run("a block said to one holds on all", func(t *testing.T) {
		nodes[2].do(t, "ip", "block", "127.210.0.0/16", "--reason", "test")
		redistest.Until(t, "every node to refuse", func() bool {
			for _, s := range nodes {
				if from("127.210.0.1").login(t, s, "user1", rightPassword).status != http.StatusTooManyRequests {
					return false
				}
			}
			return true
		})
	})
	t.Run("what one closes another unlocks", func(t *testing.T) {
		for i := range 8 {
			from(loopback(60, i)).login(t, nodes[0], "user2", "wrong")
		}
		for i, s := range nodes {
			if got := from("127.61.0.1").login(t, s, "user2", rightPassword); got.status != http.StatusForbidden {
				t.Errorf("node %d: %d, want 403", i, got.status)
			}
		}
		nodes[1].do(t, "unlock", "--account", "user2")
		redistest.Until(t, "every node to know", func() bool {
			for i, s := range nodes {
				if from(loopback(62, i)).login(t, s, "user2", rightPassword).status != http.StatusOK {
					return false
				}
			}
			return true
		})
	})
	t.Run("one may settle what another began, once", func(t *testing.T) {
		var begun struct{ Decision, Ticket string }
		status := nodes[0].ask(t, token, "/v1/attempts", map[string]string{"account": "carol", "address": "192.0.2.1"}, &begun)
		if status != http.StatusOK || begun.Decision != "proceed" {
			t.Fatal(status, begun)
		}
		counts := tally(30, 30, func(i int) int {
			return nodes[i%3].ask(t, token, "/v1/attempts/settle", map[string]string{"ticket": begun.Ticket, "outcome": "succeeded"}, nil)
		})
		if counts[http.StatusNoContent] != 1 || counts[http.StatusConflict] != 29 {
			t.Errorf("%v, want 1 × 204 and 29 × 409", counts)
		}
	})
	t.Run("a token of the API that one makes and another revokes", func(t *testing.T) { asEveryNodeHears(t, nodes) })
	t.Run("one solved challenge is one attempt", func(t *testing.T) {
		nodes[0].do(t, "captcha", "enable", "--for", "10m", "--reason", "test")
		redistest.Until(t, "every node to be on", func() bool {
			return nodes[1].gauge(t, "authguard_captcha_mode") == 1 && nodes[2].gauge(t, "authguard_captcha_mode") == 1
		})
		who := from("127.220.0.1")
		challenge := who.login(t, nodes[0], "user3", "wrong").problem.Challenge
		if challenge == nil || challenge.PoW == nil {
			t.Fatal("no proof of work was asked for")
		}
		solution := prove(t, *challenge.PoW)
		counts := tally(50, 50, func(i int) int {
			return from("127.220.0.1").login(t, nodes[i%3], "user3", "wrong", "captcha_id", challenge.ID, "captcha_work", solution).status
		})
		// The solved challenge counts as unsolved until its solution is checked, perhaps after the others were asked.
		more := map[int]int{401: 1, 403: guard.UnsolvedPerPair, 429: 49 - guard.UnsolvedPerPair}
		fewer := map[int]int{401: 1, 403: more[403] - 1, 429: more[429] + 1}
		if !maps.Equal(counts, more) && !maps.Equal(counts, fewer) {
			t.Errorf("one solution sent 50 times: %v, want %v or %v", counts, more, fewer)
		}
	})
}

// prove does the work, as a browser does.
func prove(t *testing.T, c challenge.PoW) string {
	t.Helper()
	numbers := make([]string, c.Parts)
	for part := range numbers {
		for n := 0; numbers[part] == ""; n++ {
			key, err := pbkdf2.Key(sha256.New, fmt.Sprintf("%s:%d:%d", c.Salt, part, n), []byte(c.Salt), c.Iterations, 4)
			if err != nil {
				t.Fatal(err)
			}
			if binary.BigEndian.Uint32(key) < c.Below {
				numbers[part] = strconv.Itoa(n)
			}
		}
	}
	return strings.Join(numbers, ".")
}

// do runs a command on this server.
func (s *server) do(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("authguard %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// ask calls the decision API.
func (s *server) ask(t *testing.T, token, path string, in, out any) int {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, s.base+path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: apitest.Transport{T: t}}).Do(r)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	if out == nil {
		_, _ = io.Copy(io.Discard, response.Body)
	} else if err := json.NewDecoder(response.Body).Decode(out); err != nil {
		t.Error(err)
	}
	return response.StatusCode
}

func TestANodeWithOtherKeysDoesNotStart(t *testing.T) {
	long(t)
	t.Parallel()
	redis := standalone(t)
	nodes := newNodes(t, 1, redis, quiet, "alice")
	text, err := os.ReadFile(filepath.Join(nodes[0].dir, "authguard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	other := strings.ReplaceAll(string(text), nodes[0].dir, dir)
	i := strings.Index(other, "keys_file: ")
	other = other[:i] + "keys_file: " + filepath.Join(dir, "keys") + other[i+strings.Index(other[i:], "\n"):]
	if err := os.WriteFile(filepath.Join(dir, "authguard.yaml"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	start := func(want string) {
		t.Helper()
		cmd := nodes[0].command("serve")
		cmd.Dir, cmd.Env = dir, append(cmd.Env, "AUTHGUARD_CONFIG="+filepath.Join(dir, "authguard.yaml"))
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	start("the keys file is missing") // which belongs to the database
	if _, err := seal.Load(filepath.Join(dir, "keys")); err != nil {
		t.Fatal(err)
	}
	start("keys files of the nodes differ")
}

func TestWithoutPostgreSQLLoginsAreToldToComeBack(t *testing.T) {
	t.Parallel()
	sql := postgrestest.Own(t)
	s := newNodesOn(t, sql.Database(t), 1, standalone(t), quiet, "alice")[0]
	alice := from("127.4.4.4")
	if got := alice.login(t, s, "alice", rightPassword); got.status != http.StatusOK {
		t.Fatalf("alice: %d %s", got.status, got.body)
	}
	sql.Kill()
	if got := alice.login(t, s, "alice", rightPassword); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
		t.Errorf("a login: %d %s", got.status, got.body)
	}
	if got := alice.get(t, s.base+"/auth/verify"); got.status != http.StatusServiceUnavailable {
		t.Errorf("forward-auth: %d", got.status)
	}
	if got := alice.get(t, s.base+"/login"); got.status != http.StatusOK {
		t.Errorf("the login page: %d", got.status)
	}
	sql.Start(t)
	redistest.Until(t, "logins to work again", func() bool {
		return alice.login(t, s, "alice", rightPassword).status == http.StatusOK
	})
	if got := alice.get(t, s.base+"/auth/verify"); got.status != http.StatusOK || got.header.Get("Remote-User") != "alice" {
		t.Errorf("forward-auth afterwards: %d", got.status)
	}
}

func TestANodeThatHasLostRedisSaysSo(t *testing.T) {
	t.Parallel()
	redis := redistest.Standalone(t)
	s := newNodes(t, 2, fmt.Sprintf("addresses: ['%s'], timeout: 5s", redis.Addr), quiet, "alice")[0]
	socket := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(s.dir, "data", "authguard.sock"))
	}}}
	warned := func() bool {
		response, err := socket.Get("http://socket/api/status")
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Fatal(response.Status, err)
		}
		return strings.Contains(string(body), "redis-lost")
	}
	if warned() {
		t.Error("a warning before")
	}
	redis.Kill()
	redistest.Until(t, "the node to notice", func() bool { return s.gauge(t, "authguard_redis_up") == 0 })
	if !warned() {
		t.Error("no warning without Redis")
	}
	if got := from("127.0.0.1").get(t, s.admin+"/readyz"); got.status != http.StatusOK {
		t.Errorf("not ready without Redis: %d", got.status)
	}
}

// mallory has alice's password and an account of his own in an app that keeps the identifier of a session. He gives his
// own password through one node and hers through another: his codes count for nobody, so the app gets none.
func TestR1TheCodesOfASessionOfTwoNodesAreNotChecked(t *testing.T) {
	t.Parallel()
	var codes atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case slices.Contains([]string{"alice", "mallory"}, r.FormValue("username")) && r.FormValue("password") == "right":
			w.Header().Set("Location", "/code")
			w.WriteHeader(http.StatusSeeOther)
		case r.FormValue("password") == "000000":
			codes.Add(1)
		}
	}))
	t.Cleanup(app.Close)
	nodes := newNodes(t, 2, standalone(t), quiet+noDelay+"proxy: {upstream: '"+app.URL+"', routes: ["+
		"{name: login, path: /login, account: 'form:username', password: 'form:password', success: [status 303, location /home], "+
		"second_factor: [status 303, location /code]}, "+
		"{name: code, path: /code, kind: second-factor, password: 'form:password', success: [status 303, location /home]}]}\n")
	for i, second := range []int{0, 1} {
		session := fmt.Sprintf("sid=kept-by-the-app-%d", i)
		for n, account := range []string{"mallory", "alice"} {
			if got := from("127.75.0.1").guess(t, nodes[n*second].base, account, "right", "Cookie", session); got.status != http.StatusSeeOther {
				t.Fatalf("%s's password: %d %s", account, got.status, got.body)
			}
		}
		r, err := http.NewRequest(http.MethodPost, nodes[0].base+"/code", strings.NewReader("password=000000"))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Cookie", session)
		got := from("127.75.0.1").do(t, r)
		if n := codes.Swap(0); n != int64(1-second) {
			t.Errorf("the accounts through nodes 0 and %d: %d codes were checked: %d %s", second, n, got.status, got.body)
		}
	}
}
