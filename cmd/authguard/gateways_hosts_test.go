package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/redistest"
)

// twoSites is a gateway before the sites 127.0.0.1 and wiki.localhost, and alice's session
// of the first.
type twoSites struct {
	*server
	app, wiki *toldApp
	alice     *person
	sni       string // empty: no TLS
}

// ask sends a head as it is written, with alice's session, and returns the status.
func (s *twoSites) ask(t *testing.T, head string) (status int) {
	t.Helper()
	for name, value := range s.alice.jar {
		head += fmt.Sprintf("Cookie: %s=%s\r\n", name, value)
	}
	head += "Accept: application/json\r\nConnection: close\r\n\r\n"
	answer := ""
	if s.sni == "" {
		answer = s.raw(t, head)
	} else if c, err := tls.Dial("tcp", strings.TrimPrefix(s.base, "https://"), &tls.Config{InsecureSkipVerify: true, ServerName: s.sni}); err != nil {
		t.Error(err)
	} else {
		_, _ = io.WriteString(c, head)
		all, _ := io.ReadAll(c)
		_, answer = c.Close(), string(all)
	}
	if _, err := fmt.Sscanf(answer, "HTTP/1.1 %d", &status); err != nil {
		if _, err := fmt.Sscanf(answer, "HTTP/1.0 %d", &status); err != nil {
			t.Errorf("%q: %q", head, answer)
		}
	}
	return status
}

const rulesByHost = `trusted_proxies: [127.0.0.1]
access:
  - {hosts: [wiki.localhost], groups: [admins]}
  - {hosts: [127.0.0.1, localhost], allow: login}
`

// TestGatewaysKeepHostsApart asks for the app of one host in the name of another. nginx
// chooses its server by the request line, and names the Host header in $http_host. Both
// the rules by host and the realms must hold.
func TestGatewaysKeepHostsApart(t *testing.T) {
	t.Parallel()
	authguards := map[string]*server{
		"rules":  newServer(t, quiet+rulesByHost, "alice"),
		"realms": newServer(t, quiet+"trusted_proxies: [127.0.0.1]\nrealms:\n  - {name: wiki, hosts: [wiki.localhost]}\n", "alice"),
	}
	for i, name := range slices.Sorted(maps.Keys(gateways)) {
		for kind, s := range authguards {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				sites := &twoSites{app: newToldApp(t), wiki: newToldApp(t), alice: from(fmt.Sprintf("127.%d.1.9", 50+i))}
				sites.server = startGateway(t, redistest.FreeAddress(t), name, s, sites.app.URL, sites.wiki.URL)
				own := strings.TrimPrefix(sites.base, "http://")
				_, port, _ := net.SplitHostPort(own)
				wiki := "wiki.localhost:" + port
				if got := sites.alice.login(t, &server{t: t, base: sites.base + "/.authguard"}, "alice", rightPassword); got.status != http.StatusOK {
					t.Fatalf("the login is %d %s", got.status, got.body)
				}
				for _, head := range []string{"GET /own HTTP/1.1\r\nHost: " + own + "\r\n", "GET http://" + own + "/own HTTP/1.1\r\nHost: " + own + "\r\n"} {
					if got := sites.ask(t, head); got != http.StatusOK {
						t.Errorf("%q: %d", head, got)
					}
				}
				// PHP finds no path in some absolute URLs, and its router serves / then.
				for _, target := range []string{"http:///own", "h2:///own", "http://localhost:99999/own"} {
					sites.ask(t, "GET "+target+" HTTP/1.1\r\nHost: "+strings.Replace(own, "127.0.0.1:"+port, "localhost:99999", 1)+"\r\n")
					sites.ask(t, "GET "+target+" HTTP/1.1\r\nHost: "+own+"\r\n")
				}
				if all, paths := sites.app.saw(""), sites.app.saw("/"); len(all) != len(paths) {
					t.Errorf("the app was asked for more than paths: %q", all)
				}
				for _, head := range []string{
					"GET http://" + wiki + "/secret HTTP/1.1\r\nHost: " + own + "\r\n",
					"GET http://wiki.localhost/secret HTTP/1.1\r\nHost: 127.0.0.1\r\n",
					"GET http://WIKI.localhost./secret HTTP/1.1\r\nHost: 127.0.0.1\r\n",
					"GET http://127.0.0.1@wiki.localhost/secret HTTP/1.1\r\nHost: 127.0.0.1\r\n",
					"GET http://wiki.localhost/secret HTTP/1.0\r\n",
					"GET http://wiki.localhost/secret HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Forwarded-Host: 127.0.0.1\r\n",
					"GET /secret HTTP/1.1\r\nHost: " + wiki + "\r\nHost: " + own + "\r\n",
					"GET /secret HTTP/1.1\r\nHost: " + own + "\r\nHost: " + wiki + "\r\n",
					"GET /secret HTTP/1.1\r\nHost: " + wiki + "\r\nX-Forwarded-Host: " + own + "\r\n",
					"GET /secret HTTP/1.1\r\nHost: " + wiki + "\r\nX-Original-URL: http://" + own + "/own\r\n",
					"GET /secret HTTP/1.1\r\nHost: " + wiki + "\r\n",
					"GET /secret HTTP/1.1\r\nHost: WIKI.localhost.\r\n",
					"GET /secret HTTP/1.1\r\nHost: wiki.localhost:1:2\r\n",
					"GET /secret HTTP/1.1\r\nHost: wiki.localhost:80]\r\n",
					"GET /secret HTTP/1.1\r\nHost: wiki.localhost:\r\n",
				} {
					if got := sites.ask(t, head); got < 400 {
						t.Errorf("%q: %d", head, got)
					}
				}
				for _, head := range []string{
					"GET /unknown HTTP/1.1\r\nHost: unknown.localhost\r\n",
					"GET http://unknown.localhost/unknown HTTP/1.1\r\nHost: " + own + "\r\n",
					"GET /unknown HTTP/1.0\r\n",
				} {
					want := http.StatusMisdirectedRequest
					switch got := sites.ask(t, head); {
					case name == "traefik" && got == http.StatusNotFound, got == http.StatusBadRequest:
					case got != want:
						t.Errorf("%q: %d, want %d", head, got, want)
					}
				}
				if len(sites.app.saw("/unknown")) > 0 {
					t.Errorf("an unknown host reached %v", sites.app.saw("/unknown"))
				}
				if got := sites.wiki.saw("/"); len(got) > 0 {
					t.Errorf("the other host's app was asked for %v", got)
				}
			})
		}
	}
}

// TestGatewaysGoByTheHostAndNotByTLS connects to one host by its name in TLS (SNI), and asks
// for the other. The pages with the lines for TLS that they name.
func TestGatewaysGoByTheHostAndNotByTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key, both := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "both.pem")
	selfSigned(t, cert, key)
	var all []byte
	for _, file := range []string{cert, key} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	if err := os.WriteFile(both, all, 0o600); err != nil {
		t.Fatal(err)
	}
	in := "tls " + cert + " " + key
	s := newServer(t, quiet+rulesByHost, "alice")
	for name, changes := range map[string][]string{
		"nginx": {"listen 8000", "ssl_certificate " + cert + "; ssl_certificate_key " + key + "; listen 8000 ssl"},
		"caddy": {
			"http://127.0.0.1:8000, http://localhost:8000 {", "127.0.0.1:8000, localhost:8000 {\n" + in,
			"http://wiki.localhost:8000 {", "wiki.localhost:8000 {\n" + in,
		},
		"haproxy": {"bind :8000", "bind :8000 ssl crt " + both},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sites := &twoSites{app: newToldApp(t), wiki: newToldApp(t), alice: from("127.0.0.1"), sni: "localhost"}
			sites.server = startGateway(t, redistest.FreeAddress(t), name, s, sites.app.URL, sites.wiki.URL, changes...)
			sites.base = strings.Replace(sites.base, "http://127.0.0.1", "https://localhost", 1)
			_, port, _ := net.SplitHostPort(strings.TrimPrefix(sites.base, "https://"))
			sites.alice.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{InsecureSkipVerify: true}
			if got := sites.alice.login(t, &server{t: t, base: sites.base + "/.authguard"}, "alice", rightPassword); got.status != http.StatusOK {
				t.Fatalf("the login is %d %s", got.status, got.body)
			}
			if got := sites.ask(t, "GET /own HTTP/1.1\r\nHost: localhost:"+port+"\r\n"); got != http.StatusOK {
				t.Errorf("the own host: %d", got)
			}
			for _, sni := range []string{"localhost", "wiki.localhost"} {
				sites.sni = sni
				for _, head := range []string{
					"GET /secret HTTP/1.1\r\nHost: wiki.localhost:" + port + "\r\n",
					"GET https://wiki.localhost:" + port + "/secret HTTP/1.1\r\nHost: localhost:" + port + "\r\n",
					"GET /unknown HTTP/1.1\r\nHost: unknown.localhost:" + port + "\r\n",
				} {
					if got := sites.ask(t, head); got < 400 {
						t.Errorf("%s by TLS, %q: %d", sni, head, got)
					}
				}
				_ = sites.ask(t, "GET /own HTTP/1.1\r\nHost: localhost:"+port+"\r\n")
			}
			if got := sites.wiki.saw("/"); len(got) > 0 {
				t.Errorf("the other host's app was asked for %v", got)
			}
		})
	}
}
