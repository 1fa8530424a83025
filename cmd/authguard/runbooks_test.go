package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// A runbook is a page of docs/runbooks that is played on a machine of its own, on which authguard is installed as the
// Debian package does it.
type runbook struct {
	t      *testing.T
	shell  *doctest.Shell
	text   string          // the page on one line
	blocks []doctest.Block // those of this test: the command, then the remedy
	site   *server
}

// openRunbook starts a server with alice's account. The settings are added to the package's configuration.
func openRunbook(t *testing.T, page, settings string) *runbook {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(doctest.Root(t), "docs/runbooks", page))
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile(filepath.Join(doctest.Root(t), "deploy/authguard.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r := &runbook{
		t: t, shell: doctest.NewShell(t, product), text: strings.Join(strings.Fields(string(text)), " "),
		blocks: doctest.Claimed(t, "docs/runbooks/"+page), site: &server{t: t, base: "http://127.0.0.1:8080"},
	}
	r.shell.Write("/etc/authguard/authguard.yaml", string(config)+settings)
	r.shell.Write("/etc/authguard/environment", "AUTHGUARD_PASSWORDS_QUEUE_TIMEOUT=1m\n") // a busy machine is no overload
	types(t, r.shell, "mkdir -p /var/lib/authguard; mount -t tmpfs -o size=20m,mode=700 tmpfs /var/lib/authguard")
	types(t, r.shell, doctest.Claimed(t, "docs/runbooks/README.md")[0].Text)
	types(t, r.shell, "authguard serve; echo "+rightPassword+" | authguard user create alice --password-stdin")
	return r
}

// until waits until a command's output contains a text.
func (r *runbook) until(command, text string) {
	r.t.Helper()
	redistest.Until(r.t, command+" to answer "+text, func() bool { return strings.Contains(r.shell.Try(command), text) })
}

// alerted waits for an alert that the page names as the symptom.
func (r *runbook) alerted(title string) {
	r.t.Helper()
	if symptom, _, _ := strings.Cut(r.text, "**Command**"); !strings.Contains(symptom, `"`+title+`"`) {
		r.t.Errorf("the symptom is not %q", title)
	}
	r.until("cat /mnt/serve", `title="`+title+`"`)
}

func (r *runbook) login(who *person, password string, want int, more ...string) answer {
	r.t.Helper()
	got := who.login(r.t, r.site, "alice", password, more...)
	if got.status != want {
		r.t.Errorf("login: %d, want %d: %s", got.status, want, got.body)
	}
	return got
}

// guessed sends wrong passwords for alice, each from another IP address.
func (r *runbook) guessed(n int) {
	r.t.Helper()
	for i := range n {
		r.login(from(loopback(30, i)), "wrong", http.StatusUnauthorized)
	}
}

// command runs the page's command and compares its output.
func (r *runbook) command() {
	r.t.Helper()
	dialogue(r.t, r.shell, r.blocks[0])
}

// remedy runs the page's second block.
func (r *runbook) remedy() string {
	r.t.Helper()
	said, ok := r.shell.Run(r.blocks[1].Text)
	if !ok {
		r.t.Fatal(said)
	}
	return said
}

func TestRunbookLoginAttack(t *testing.T) {
	long(t)
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	r := openRunbook(t, "login-attack.md", "")
	owner := from("127.0.0.9")
	r.login(owner, rightPassword, http.StatusOK)
	tally(40, 8, func(i int) int {
		return from(loopback(30, i)).login(t, r.site, fmt.Sprint("user", i), "wrong").status
	})
	r.alerted("Login attack started")
	r.alerted("CAPTCHA mode is on")
	r.until("authguard status", " on site since ")
	r.command()
	r.login(owner, rightPassword, http.StatusOK)
	r.login(from("127.0.7.1"), rightPassword, http.StatusForbidden)
	id := regexp.MustCompile(`(?m)^Attack (\S+) on site`).FindStringSubmatch(r.shell.Try("authguard status"))
	if id == nil {
		t.Fatal("no attack")
	}
	if said := r.shell.Try("authguard attack show " + id[1]); !strings.Contains(said, "\ncompromised ") {
		t.Error(said)
	}
}

func TestRunbookUsersCannotSignIn(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	r := openRunbook(t, "users-cannot-sign-in.md", "limits: {account: [5/24h block]}\n")
	r.login(from("127.0.0.9"), rightPassword, http.StatusOK)
	r.guessed(5)
	owner := from("127.0.7.1")
	r.login(owner, rightPassword, http.StatusTooManyRequests)
	r.until("authguard audit --account alice", "blocked ")
	r.command()
	code := regexp.MustCompile(`shown once: (\S+)`).FindStringSubmatch(r.remedy())
	if code == nil {
		t.Fatal("no code")
	}
	r.login(owner, rightPassword, http.StatusOK, "code", code[1])
}

func TestRunbookServiceUnavailable(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	r := openRunbook(t, "service-unavailable.md", "")
	r.shell.Try("dd if=/dev/zero of=/var/lib/authguard/backup bs=64k")
	r.login(from("127.0.7.1"), rightPassword, http.StatusServiceUnavailable)
	r.login(from("127.0.7.2"), "wrong", http.StatusServiceUnavailable)
	r.alerted("The database cannot be written")
	r.alerted("Counters cannot be saved")
	r.command()
	r.shell.Try("rm /var/lib/authguard/backup")
	r.until("authguard doctor", " 0 problems.")
	r.login(from("127.0.7.1"), rightPassword, http.StatusOK)
}

func TestRunbookRedisLost(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	redis := redistest.Standalone(t)
	r := openRunbook(t, "redis-lost.md", "redis: {addresses: ['"+redis.Addr+"']}\n")
	owner := from("127.0.0.9")
	r.login(owner, rightPassword, http.StatusOK)
	redis.Kill()
	r.alerted("Redis cannot be used")
	r.blocks[0].Text = strings.ReplaceAll(r.blocks[0].Text, "127.0.0.1:6379", redis.Addr)
	r.command()
	r.login(owner, rightPassword, http.StatusOK)
	redis.Start(t)
	r.until("authguard doctor", " 0 problems.")
}

func TestRunbookAccountCompromised(t *testing.T) {
	t.Parallel()
	if !doctest.Alone(t) {
		return
	}
	r := openRunbook(t, "account-compromised.md", "challenge: {kind: pow, pow_cost: 100}\n")
	r.login(from("127.0.0.9"), rightPassword, http.StatusOK)
	r.guessed(5)
	attacker := from("127.0.7.1")
	asked := r.login(attacker, rightPassword, http.StatusForbidden).problem.Challenge
	if asked == nil || asked.PoW == nil {
		t.Fatal("no challenge")
	}
	r.login(attacker, rightPassword, http.StatusOK, "captcha_id", asked.ID, "captcha_work", prove(t, *asked.PoW))
	r.alerted("Suspicious login from an unknown client")
	r.until("authguard audit --account alice --address 127.0.7.1", "signed in")
	r.command()
	signedIn := func() bool { return attacker.get(t, r.site.base+"/account").status == http.StatusOK }
	if !signedIn() {
		t.Error("the attacker has no session")
	}
	r.remedy()
	if signedIn() {
		t.Error("the attacker still has a session")
	}
	if left := r.shell.Try("authguard explain --account alice --all"); !strings.Contains(left, "\nSessions: 0\n") ||
		!strings.Contains(left, "the user is an unknown client everywhere") {
		t.Error(left)
	}
}
