package main

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// What a reader has done before the first command of a document.
var prepared = map[string]func(*testing.T, *doctest.Shell){
	"README.md": func(t *testing.T, s *doctest.Shell) { // a slow password check outlasts the default's second
		types(t, s, "export AUTHGUARD_LIMITS_PAIR_DELAY='3/1h delay 20s to 20s'")
	},
	"docs/how-to/firewall.md":      func(t *testing.T, s *doctest.Shell) { types(t, s, "authguard serve") },
	"docs/how-to/reverse-proxy.md": anAppOfTheirs,
	"docs/how-to/forward-auth.md":  func(t *testing.T, s *doctest.Shell) { itsConfiguration(t, s, "docs/how-to/forward-auth.md") },
	"docs/how-to/json.md": func(t *testing.T, s *doctest.Shell) {
		anAppOfTheirs(t, s)
		itsConfiguration(t, s, "docs/how-to/json.md")
		types(t, s, "authguard serve")
	},
	"docs/how-to/several-sites.md": func(t *testing.T, s *doctest.Shell) {
		s.Write("/etc/intranet.htpasswd", "")
		itsConfiguration(t, s, "docs/how-to/several-sites.md")
		types(t, s, "authguard serve")
	},
}

// What has happened before a command.
var happened = map[string]func(*testing.T, *doctest.Shell){
	`authguard captcha enable --for 10m --reason "odd traffic from a reseller"`: func(t *testing.T, s *doctest.Shell) {
		types(t, s, "authguard serve")
		guessed(t, "127.0.1.1", "eve", 3)
	},
	`pass show authguard/bob | authguard user create bob --password-stdin`: func(t *testing.T, s *doctest.Shell) {
		types(t, s, "pass() { echo correct horse battery; }")
	},
	`authguard user import people`: func(t *testing.T, s *doctest.Shell) {
		bad, good := "carol:$2b$10$abcdefghijklmnopqrstuuKvS2oS7nSyTGmpLrxgHRhaiMjhpMk0q\ndan:6FZSgRFTLxtYc\n", "carol:$2b$10$abcdefghijklmnopqrstuuKvS2oS7nSyTGmpLrxgHRhaiMjhpMk0q\n"
		if strings.Contains(s.Try("cat people"), "dan") {
			bad = good
		}
		s.Write("people", bad)
	},
	`authguard explain --account alice --address 127.0.0.1`: func(t *testing.T, s *doctest.Shell) {
		guessed(t, "127.0.0.1", "alice", 5)
	},
	`authguard --config bad.yaml config validate`: func(_ *testing.T, s *doctest.Shell) {
		s.Write("bad.yaml", "\n\nlisten: nowhere\n")
	},
	`authguard attack list`: func(t *testing.T, s *doctest.Shell) { // attacks are written every other second
		redistest.Until(t, "the record", func() bool { return strings.Contains(s.Try("authguard attack list"), "one account") })
	},
	`authguard migrate`: func(t *testing.T, s *doctest.Shell) { types(t, s, "end") },
	`authguard doctor`: func(t *testing.T, s *doctest.Shell) {
		types(t, s, `redis-server --port 6379 --save "" --maxmemory 1gb --maxmemory-policy allkeys-lru >/dev/null &
until redis-cli ping >/dev/null 2>&1; do sleep 0.05; done`)
		s.Write("authguard.yaml", "redis:\n  addresses: [127.0.0.1:6379]\n")
	},
	`curl --unix-socket authguard-data/authguard.sock http://authguard/api/mode`: func(t *testing.T, s *doctest.Shell) {
		types(t, s, "rm -f authguard.yaml; authguard serve")
	},
}

func types(t *testing.T, s *doctest.Shell, lines string) {
	t.Helper()
	if said, ok := s.Run(lines); !ok {
		t.Fatal(said)
	}
}

// guessed is so many wrong passwords, however long the guard lets wait between them.
func guessed(t *testing.T, address, account string, n int) {
	t.Helper()
	for n > 0 {
		a := from(address).login(t, &server{t: t, base: "http://127.0.0.1:8080"}, account, fmt.Sprint("guess ", n))
		if a.status == http.StatusUnauthorized {
			n--
		}
	}
}

// anAppOfTheirs listens where the documents say that it does.
func anAppOfTheirs(t *testing.T, _ *doctest.Shell) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:8000")
	if err != nil {
		t.Fatal(err)
	}
	app := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodGet:
			_, _ = w.Write([]byte(`<form method=post><input name=username><input name=password type=password></form>`))
		case r.FormValue("username") == "alice" && r.FormValue("password") == rightPassword:
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			w.WriteHeader(http.StatusFound)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	app.Listener = l
	app.Start()
	t.Cleanup(app.Close)
}

// itsConfiguration is the first one of the document.
func itsConfiguration(t *testing.T, s *doctest.Shell, path string) {
	t.Helper()
	for _, b := range doctest.Read(t, path).Blocks {
		if b.Language == "yaml" {
			s.Write("authguard.yaml", b.Text)
			return
		}
	}
}

// Every command is typed in as it is printed, those of a document one after the other
// in one terminal, on a machine whose ports are free. Where the document says what is
// answered, it is.
func TestTheDocsCommandsRun(t *testing.T) {
	long(t)
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	for _, d := range doctest.All(t) {
		blocks := slices.DeleteFunc(d.Blocks, func(b doctest.Block) bool {
			return b.Language != "sh" && b.Language != "console" || len(b.Tests) > 0
		})
		if len(blocks) == 0 {
			continue
		}
		t.Run(strings.ReplaceAll(d.Path, "/", "-"), func(t *testing.T) {
			shell := doctest.NewShell(t, product)
			if prepare := prepared[d.Path]; prepare != nil {
				prepare(t, shell)
			}
			for _, b := range blocks {
				if b.Language == "console" {
					dialogue(t, shell, b)
				} else if said, ok := shell.Run(b.Text); !ok {
					t.Fatalf("%s:%d:\n%s\n%s", b.Doc, b.Line, b.Text, said)
				}
			}
		})
	}
}

// dialogue types in the commands of a block after "$ ", and compares.
func dialogue(t *testing.T, s *doctest.Shell, b doctest.Block) {
	t.Helper()
	for one := range strings.SplitSeq("\n"+b.Text, "\n$ ") {
		command, want, _ := strings.Cut(one, "\n")
		for strings.HasSuffix(command, `\`) {
			line, rest, _ := strings.Cut(want, "\n")
			command, want = command+"\n"+line, rest
		}
		if command == "" {
			continue
		}
		if before := happened[command]; before != nil {
			before(t, s)
		}
		if got := s.Try(command); !alike(got, want) {
			t.Errorf("%s:%d: %s\nanswers\n%s\nand not\n%s", b.Doc, b.Line, command, got, want)
		}
	}
}

// What differs from one time to the next: times, passwords, codes, IDs of attacks,
// numbers of seconds, the failure rate, what a machine has.
var varies = regexp.MustCompile(strings.Join([]string{
	`\w{3}, \d+ \w{3} \d{4} [\d:]+ \w+`, `\d{4}-\d\d-\d\dT[\d:]+Z`, `\d\d:\d\d \w+ on \d+ \w+`, `[a-z2-7]{16}`, `\w{4}(-\w{4}){3}`, `\d+ seconds?\b`,
	`\d+ (checks|passed|warnings|problems)\b`, `until \d+ \w{3} [\d:]+`, `\d{4}-\d\d-\d\d [\d:]+`, `\d{8}-\d{4}-\w{7}`,
	`\d+ failures, \d+ unsolved challenges`,
}, "|"))

// alike tells whether an answer is the printed one; … stands for anything.
func alike(got, want string) bool {
	plain := func(text string) string {
		text = varies.ReplaceAllString(strings.TrimSpace(text), "?")
		return strings.ReplaceAll(regexp.MustCompile(` +`).ReplaceAllString(text, " "), " \n", "\n")
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(plain(want)), "\n…\n", `\n(?:.*\n)*`)
	return regexp.MustCompile(`^` + strings.ReplaceAll(pattern, "…", "(?s:.*)") + `$`).MatchString(plain(got))
}

// The document's ten minutes: learn what the login is, and guard it.
func TestTheProxyLearnsAsTheDocsSay(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, product)
	anAppOfTheirs(t, s)
	types(t, s, "{\n"+doctest.Claimed(t, "docs/how-to/reverse-proxy.md")[0].Text+"} 2>said & learner=$!\nuntil grep -q :8088 said; do sleep 0.1; done")
	for _, password := range []string{"wrong", rightPassword} {
		if _, err := http.DefaultTransport.RoundTrip(posted(t, "http://127.0.0.1:8088/login", password)); err != nil {
			t.Fatal(err)
		}
	}
	types(t, s, "wait $learner; mv route.yaml authguard.yaml; authguard serve")
	for password, status := range map[string]int{"wrong": http.StatusUnauthorized, rightPassword: http.StatusFound} {
		if a, err := http.DefaultTransport.RoundTrip(posted(t, "http://127.0.0.1:8080/login", password)); err != nil || a.StatusCode != status {
			t.Errorf("%q: %v %+v", password, err, a)
		}
	}
	if log := s.Try("cat /mnt/serve"); strings.Count(log, "attempt failed") != 1 || strings.Count(log, "attempt succeeded") != 1 {
		t.Errorf("the log says\n%s", log)
	}
}

func posted(t *testing.T, to, password string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, strings.NewReader(url.Values{"username": {"alice"}, "password": {password}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

// From one node to two: the accounts, with their passwords.
func TestAccountsMoveAsTheDocsSay(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	s := doctest.NewShell(t, product)
	types(t, s, "authguard serve; echo "+rightPassword+" | authguard user create alice --password-stdin; end")
	types(t, s, "export AUTHGUARD_DATA=/srv/new; authguard serve; cd authguard-data")
	types(t, s, doctest.Claimed(t, "docs/how-to/several-nodes.md")[0].Text)
	a, err := http.PostForm("http://127.0.0.1:8080/login", url.Values{"username": {"alice"}, "password": {rightPassword}})
	if err != nil || a.StatusCode != http.StatusOK {
		t.Errorf("alice at the new node: %v %+v", err, a)
	}
}
