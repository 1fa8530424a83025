package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"authguard/internal/testing/apitest"
	"authguard/internal/testing/doctest"
)

// A clientOf a language calls the login of its file in deploy/clients: of alice, whose password is
// rightPassword; with a wrong one, often; and from an address that is blocked. Each
// time it prints what login returns, as JSON.
var clientOf = map[string]struct{ program, after string }{
	"guard.py": {"python3", `
import json, sys
def check(account, password):
    return account.startswith("alice") and password == "correct horse"
for account, password, address in json.load(open(sys.argv[1])):
    print(json.dumps(login(account, password, address, check)))
`},
	"guard.mjs": {"node", `
import { readFileSync } from "node:fs"
const check = async (account, password) => account.startsWith("alice") && password === "correct horse"
for (const one of JSON.parse(readFileSync(process.argv[2]))) console.log(JSON.stringify(await login(...one, check)))
`},
	"guard.php": {"php", `
$check = fn ($account, $password) => str_starts_with($account, 'alice') && $password === 'correct horse';
foreach (json_decode(file_get_contents($argv[1])) as $one) {
    echo json_encode(guard_login(...$one, check: $check)), "\n";
}
`},
	"guard.sh": {"bash", `
check() { case $1 in alice*) [ "$2" = "correct horse" ] ;; *) false ;; esac; }
jq -c '.[]' "$1" | while read -r one; do
	echo "[$(login "$(jq -r '.[0]' <<<"$one")" "$(jq -r '.[1]' <<<"$one")" "$(jq -r '.[2]' <<<"$one")"), {}]"
done
`},
}

// runs the documented client and returns what its logins returned.
func (c clientCall) run(t *testing.T, tries ...[3]string) (all []returned) {
	t.Helper()
	of, dir := clientOf[c.file], t.TempDir()
	questions, _ := json.Marshal(tries)
	program, input := filepath.Join(dir, c.file), filepath.Join(dir, "tries")
	for path, text := range map[string]string{program: clientFile(t, c.file) + of.after, input: string(questions)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(of.program, program, input)
	cmd.Env = append(os.Environ(), "GUARD_URL="+c.url, "GUARD_TOKEN="+c.token)
	var log strings.Builder
	cmd.Stderr = &log
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s\n%s", of.program, err, out, log.String())
	}
	for line := range strings.Lines(string(out)) {
		one := returned{log: log.String()}
		if err := json.Unmarshal([]byte(line), &[]any{&one.status, &one.answer}); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, one)
	}
	return all
}

type clientCall struct{ file, url, token string }

// clientFile is a file that back ends copy.
func clientFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(doctest.Root(t), "deploy/clients", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What a documented login returned.
type returned struct {
	status int
	answer any
	log    string // of the whole program
}

func (r returned) field(name string) (text string) {
	fields, _ := r.answer.(map[string]any)
	if fields[name] != nil {
		text = fmt.Sprint(fields[name])
	}
	return text
}

// heldToTheDocument is where a program of somebody else's asks a server, so that its calls
// are held against the API's document.
func heldToTheDocument(t *testing.T, s *server) string {
	t.Helper()
	to, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	held := httptest.NewServer(apitest.Handler(t, httputil.NewSingleHostReverseProxy(to)))
	t.Cleanup(held.Close)
	return held.URL
}

// settlesAsItIsTold lets everybody proceed, and answers the settling of "alice 403" with
// 403.
func settlesAsItIsTold(t *testing.T) string {
	t.Helper()
	types := map[string]string{"403": "insufficient", "409": "already-settled", "410": "expired"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ Account, Ticket string }
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if in.Account != "" {
			fmt.Fprintf(w, `{"decision": "proceed", "reasons": [], "words": [], "password_suffices": true, "ticket": %q}`, in.Account)
			return
		}
		_, status, _ := strings.Cut(in.Ticket, " ")
		code, err := strconv.Atoi(status)
		if err != nil {
			t.Error(err)
		}
		if w.WriteHeader(code); code != http.StatusNoContent {
			fmt.Fprintf(w, `{"type": %q, "title": "no", "status": %d, "detail": "no"}`, cmp.Or(types[status], "invalid-request"), code)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// inTime lets logins be tried anew, by another name, where one was answered 503: a client
// waits a second for authguard, and a machine that is busy with other tests may take more.
func inTime(logins func(try int) []returned) (got []returned) {
	for try := 1; try <= 5; try++ {
		got = logins(try)
		if !slices.ContainsFunc(got, func(r returned) bool { return r.status == http.StatusServiceUnavailable }) {
			break
		}
	}
	return got
}

// TestClientsAskAndFailClosed runs each client of deploy/clients against a server, against one that takes the
// connection and says nothing, and against none.
func TestClientsAskAndFailClosed(t *testing.T) {
	t.Parallel()
	s := newServer(t, quiet+"limits: {pair_delay: off, account: [2/24h challenge]}\n"+
		"realms: [{name: trap, tokens: [], limits: {address: [1/1h fake-failure]}}]\n")
	s.must("ip", "block", "192.0.2.66")
	token, trap := strings.TrimSpace(s.must("token", "create", "docs")), strings.TrimSpace(s.must("token", "create", "docs", "--realm", "trap"))
	held := heldToTheDocument(t, s)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts: the kernel does
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	settles := settlesAsItIsTold(t)
	for i, file := range slices.Sorted(maps.Keys(clientOf)) {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			name, home, elsewhere := "", "", ""
			again := func(try int) {
				name, home, elsewhere = fmt.Sprint("alice-", file, try), fmt.Sprintf("198.51.%d.%d", i, try), fmt.Sprintf("203.0.%d.%d", i, try)
			}
			got := inTime(func(try int) []returned {
				again(try)
				return clientCall{file, held, token}.run(t, [3]string{name, "correct horse", home}, [3]string{name, "wrong 1", elsewhere},
					[3]string{name, `wrong "2"`, elsewhere}, [3]string{name, "correct horse", elsewhere}, [3]string{name, "correct horse", "192.0.2.66"})
			})
			for j, want := range []int{200, 401, 401, 403, 429} {
				if j >= len(got) || got[j].status != want {
					t.Fatalf("login %d: %+v, want %d", j+1, got, want)
				}
			}
			if challenge := got[3].field("challenge"); file != "guard.sh" && (got[0].field("device") == "" || !strings.Contains(challenge, "data:image/png;base64,") || got[4].field("retry_after") == "") {
				t.Errorf("%+v", got)
			}
			if got := (clientCall{file, held, token}).run(t, [3]string{"", "x", home}); got[0].status != 401 || got[0].log != "" {
				t.Errorf("no name: %+v", got)
			}
			if got := (clientCall{file, s.base, token}).run(t, [3]string{name, "correct horse", ""}, [3]string{name, "correct horse", home + ":4711"}); got[0].status != 503 || got[1].status != 503 || strings.Count(got[0].log, "authguard answers ") != 2 {
				t.Errorf("no address, and one with a port: %+v", got)
			}
			trapped := func(try int) []returned {
				again(try)
				return clientCall{file, held, trap}.run(t, [3]string{name, "wrong", home}, [3]string{name, "correct horse", home})
			}
			if got := inTime(trapped); got[0].status != 401 || got[1].status != 401 {
				t.Errorf("where it is to pretend: %+v", got)
			}
			settled := clientCall{file, settles, token}.run(t, [3]string{"alice 204", "correct horse", home}, [3]string{"alice 403", "correct horse", home},
				[3]string{"alice 409", "correct horse", home}, [3]string{"alice 410", "correct horse", home},
				[3]string{"alice 400", "correct horse", home}, [3]string{"alice 401", "wrong", home}, [3]string{"alice 503", "correct horse", home})
			for j, want := range []int{200, 401, 401, 401, 503, 503, 503} {
				if j >= len(settled) || settled[j].status != want || strings.Count(settled[j].log, "authguard answers ") != 3 {
					t.Errorf("settling %d: %+v, want %d", j+1, settled, want)
				}
			}
			for what, at := range map[string]clientCall{
				"a server that is silent": {file, "http://" + silent.Addr().String(), token},
				"no server":               {file, "http://" + gone.Addr().String(), token},
				"a token that is none":    {file, held, "authguard_NONE"},
			} {
				if got := at.run(t, [3]string{name, "correct horse", home}); len(got) != 1 || got[0].status != 503 || strings.Contains(got[0].log, "authguard answers ") != (at.token != token) {
					t.Errorf("%s: %+v", what, got)
				}
			}
		})
	}
}
