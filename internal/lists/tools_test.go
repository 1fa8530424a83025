package lists_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"authguard/guard"
	"authguard/internal/testing/doctest"
	"authguard/internal/testing/redistest"
)

// everything is the ranges that are hard on a tool: none, some, and all there is.
func everything() map[string][]guard.Listing {
	return map[string][]guard.Listing{
		"none": nil, "some": some(), "all": {block("0.0.0.0/0", 0), block("::/0", 3)},
		"all but one": {block("0.0.0.0/0", 0), allow("127.0.0.1/32", 0), block("::/0", 3), allow("::1/128", 0)},
	}
}

// inNamespace runs a shell script in a network of its own, where it may do anything.
func inNamespace(t *testing.T, script string) (string, error) {
	t.Helper()
	if out, err := exec.Command("unshare", "-rn", "true").CombinedOutput(); err != nil {
		t.Fatalf("this machine gives no network namespace, so the kernel cannot be asked; run the tests as root, or allow user namespaces: %s", out)
	}
	cmd := exec.Command("unshare", "-rn", "bash", "-eu", "-o", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// functions of a shell: is a connection from an address to port 80 dropped? One that is
// not is refused at once, since nobody listens.
const functions = `
ip link set lo up
is() {
	status=0; curl -s --connect-timeout $4 --interface $2 -o /dev/null http://127.0.0.1:80/ || status=$?
	[ $status = $3 ] || { echo "$2 is not $1: curl says $status"; exit 1; }
}
dropped() { is dropped $1 28 0.3; }
free() { is free $1 7 300; }
`

func TestNftTakesItAndDropsWhatIsBlocked(t *testing.T) {
	t.Parallel()
	rules := file(t, "rules", doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text)
	script := functions + "nft -f " + rules + "\n"
	for _, listed := range everything() {
		path := file(t, "x", blocked(t, "nft", listed...))
		script += "nft -c -f " + path + "; nft -f " + path + "; nft -f " + path + "\n" // twice: a set that is there is filled anew
	}
	closed := file(t, "closed", blocked(t, "nft", block("127.0.2.0/24", 1), allow("127.0.2.7/32", 0)))
	script += "nft -f " + closed + `
dropped 127.0.2.1
free 127.0.2.7
free 127.0.3.1
nft list set inet authguard blocked4 | grep 'timeout 1h expires'
nft -f ` + file(t, "empty", blocked(t, "nft")) + `
free 127.0.2.1
`
	if said, err := inNamespace(t, script); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func TestIpsetTakesItAndEndsEntries(t *testing.T) {
	t.Parallel()
	script := ""
	for _, listed := range everything() {
		path := file(t, "x", blocked(t, "ipset", listed...))
		script += "ipset restore <" + path + "; ipset restore <" + path + "\n"
	}
	script += "ipset restore <" + file(t, "closed", blocked(t, "ipset", block("192.0.2.0/24", 1), allow("192.0.2.7/32", 0), block("2001:db8::/48", 24*300))) + `
ipset test authguard-blocked4 192.0.2.8
ipset test authguard-blocked6 2001:db8::1
! ipset test authguard-blocked4 192.0.2.7
! ipset list | grep -- -new
ipset list authguard-blocked4 | grep -E '^192.0.2.128/25 timeout (3600|359[0-9])$'
`
	if said, err := inNamespace(t, script); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

// program is where one is that may not be in everybody's path.
func program(t *testing.T, name, debian string) string {
	t.Helper()
	for _, at := range []string{name, "/usr/sbin/" + name} {
		if path, err := exec.LookPath(at); err == nil {
			return path
		}
	}
	t.Fatalf("%s is missing: apt-get install %s", name, debian)
	return ""
}

// start runs a server until the test ends.
func start(t *testing.T, at string, name string, args ...string) {
	t.Helper()
	var log strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	redistest.Until(t, name+" to listen", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// status is what an address gets.
func status(t *testing.T, from, at string) int {
	t.Helper()
	dialer := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(from), 0))}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://"+at+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// around is blocked but for one address.
func around() []guard.Listing {
	return []guard.Listing{block("127.0.2.0/24", 1), allow("127.0.2.7/32", 0)}
}

// answers asks a server that has been told around.
func answers(t *testing.T, what, at string) {
	t.Helper()
	for from, want := range map[string]int{"127.0.2.1": http.StatusForbidden, "127.0.2.7": http.StatusOK, "127.0.3.1": http.StatusOK} {
		if got := status(t, from, at); got != want {
			t.Errorf("%s: %s gets %d, want %d", what, from, got, want)
		}
	}
}

// ownResponse is an nginx that reads the export as a variable.
const ownResponse = `geo $authguard_blocked {
	default 0;
	include /etc/nginx/authguard.map;
}
server {
	listen 80;
	if ($authguard_blocked) { return 403; }
	location / { root /var/www/html; }
}
`

func TestNginxAnswers403(t *testing.T) {
	t.Parallel()
	nginx, dir, servers := program(t, "nginx", "nginx-light"), t.TempDir(), ""
	if err := os.WriteFile(filepath.Join(dir, "index.html"), []byte("hello"), 0o644); err != nil {
		t.Fatal(err)
	}
	_ = os.Chmod(dir, 0o755)
	temp := ""
	for _, one := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		temp += fmt.Sprintf("%s_temp_path %s/%[1]s;\n", one, dir)
	}
	conf := func(deny, geo []guard.Listing, listen ...string) string {
		at := strings.NewReplacer("/etc/nginx/authguard.deny", file(t, "deny", blocked(t, "nginx", deny...)),
			"/etc/nginx/authguard.map", file(t, "map", blocked(t, "nginx-map", geo...)), "/var/www/html", dir)
		servers = ""
		for i, text := range []string{doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text, ownResponse} {
			servers += strings.Replace(at.Replace(text), "listen 80", "listen "+listen[i], 1)
		}
		return file(t, "nginx.conf", fmt.Sprintf("pid %s/pid;\nerror_log stderr;\nworker_processes 1;\nuser root;\nevents {}\nhttp {\n%saccess_log off;\n%s}\n", dir, temp, servers))
	}
	for name, listed := range everything() {
		if out, err := exec.Command(nginx, "-t", "-q", "-c", conf(listed, listed, "127.0.0.1:1", "127.0.0.1:2")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	first, second := redistest.FreeAddress(t), redistest.FreeAddress(t)
	start(t, second, nginx, "-c", conf(around(), around(), first, second), "-g", "daemon off;")
	answers(t, "deny", first)
	answers(t, "geo", second)
}

func TestHAProxyAnswers403(t *testing.T) {
	t.Parallel()
	haproxy := program(t, "haproxy", "haproxy")
	conf := func(listed []guard.Listing, listen string) string {
		text := strings.NewReplacer("/etc/haproxy/authguard.map", file(t, "map", blocked(t, "haproxy", listed...)), "bind :80", "bind "+listen,
			"server one 127.0.0.1:9000", "http-request return status 200").Replace(doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text)
		return file(t, "haproxy.cfg", "defaults\n\ttimeout connect 5s\n\ttimeout client 1m\n\ttimeout server 1m\n"+text)
	}
	for name, listed := range everything() {
		if out, err := exec.Command(haproxy, "-c", "-f", conf(listed, "127.0.0.1:1")).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
	at := redistest.FreeAddress(t)
	start(t, at, haproxy, "-db", "-f", conf(around(), at))
	answers(t, "map", at)
}
