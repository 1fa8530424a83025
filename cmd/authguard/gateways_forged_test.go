package main

import (
	"net/http"
	"strings"
	"testing"
)

// forgedHeaders are what a client sends to an app behind any gateway: who it is, where it
// is, and what it asked for. CGI and PHP take every sign but letters and digits for an
// underscore. No gateway passes one on.
var forgedHeaders = []string{
	"Remote-User", "remote-user", "REMOTE_USER", "Remote_User", "Remote.User", "Remote!User", "Remote~User",
	"Remote-Groups", "Remote_Groups", "Remote!Groups", "Remote-Email", "Remote_Email",
	"Remote-Name", "Remote_Name", "Remote.Name", "Remote-Anything",
	"X-Forwarded-For", "X_Forwarded_For", "X.Forwarded.For", "X-Forwarded-Host", "X.Forwarded.Host",
	"X-Forwarded-Proto", "X.Forwarded.Proto", "X-Forwarded-Uri", "X_Forwarded_Uri",
	"X-Forwarded-Method", "X-Forwarded-Prefix", "X_Forwarded_Prefix", "X-Forwarded-Port", "X-Forwarded-Server",
	"X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-By", "X-Forwarded-Path",
	"X-Forwarded-User", "X-Forwarded-Groups", "X-Forwarded-Email", "X-Forwarded-Preferred-Username",
	"X-Forwarded-Client-Cert", "X-Forwarded-For-Original",
	"X-Original-URL", "X_Original_URL", "X.Original.URL", "X-Original-URI", "X-Original-Method",
	"X-Rewrite-URL", "X_Rewrite_Url", "X.Rewrite.URL",
	"X-Original-Host", "X-Original-Path", "X-Rewrite-Path", "X-Forwarded", "X-Forwarded-Protocol",
	"X-Remote-User", "X-Remote-Groups", "Remote--User", "X--Forwarded-For", "X-Forwarded--For",
	"X-Real-IP", "X.Real.IP", "Forwarded", "X.Y", "X!Y",
}

// forgedHeadersReachNoApp sends each of them, from a user and from a client without a
// session: the gateway removes it, or authguard answers 400.
func forgedHeadersReachNoApp(t *testing.T, alice, unknown *person, at *server, name string) {
	t.Helper()
	const identity = "remote-email=alice@example.org remote-groups=staff remote-user=alice"
	for _, header := range forgedHeaders {
		var refused bool
		for _, one := range []struct {
			p          *person
			path, told string
		}{
			{alice, "/shop", identity}, {unknown, "/public/x", ""},
			{alice, "/.well-known/acme-challenge/x", ""}, // nginx does not ask there
		} {
			if strings.HasPrefix(one.path, "/.well") && (name != "nginx" || refused) {
				continue
			}
			got := one.p.send(t, at, "GET", one.path, "", header, "/forged")
			refused = refused || got.status == http.StatusBadRequest
			switch {
			case got.status == http.StatusBadRequest:
			case got.status != http.StatusOK || got.body != "GET "+one.path+" "+one.told+" 0":
				t.Errorf("%s at %s: %d %.300q", header, one.path, got.status, got.body)
			case got.header["Forged"] != nil:
				t.Errorf("%s at %s: the app got %v", header, one.path, got.header["Forged"])
			}
		}
	}
	// A proxy removes what Connection names (RFC 9110, section 7.6.1), authguard's own word too:
	// docs/how-to/traefik.md says so.
	if got := alice.send(t, at, "GET", "/shop", "", "Connection", "keep-alive, Remote-User"); got.status !=
		http.StatusBadRequest && got.body != "GET /shop "+identity+" 0" && name != "caddy by the README" && name != "traefik" {
		t.Errorf("Connection: Remote-User: %d %.300q", got.status, got.body)
	}
	for _, upgrade := range []string{"h2c", "websocket, h2c", "HTTP/2.0"} {
		got := unknown.send(t, at, "GET", "/public/x", "", "Upgrade", upgrade, "Connection", "Upgrade, HTTP2-Settings", "HTTP2-Settings", "AAMAAABk")
		if got.status != http.StatusBadRequest && got.header["Forged"] != nil && name != "traefik" {
			t.Errorf("Upgrade: %s: %d %v", upgrade, got.status, got.header["Forged"])
		}
	}
	many := make([]string, 0, 400)
	for range 200 {
		many = append(many, "Cookie", "a=b")
	}
	if got := unknown.send(t, at, "GET", "/public/x", "", many...); got.status >= 500 {
		t.Errorf("200 Cookie lines: %d %.300q", got.status, got.body)
	}
	for _, up := range []string{"..;", "..%5c", "..%2f", "..%252f", "%2e%2e;", "%c0%ae%c0%ae"} {
		for _, open := range []string{"/.well-known/acme-challenge/", "/public/"} {
			path := open + up + "/" + up + "/shop"
			if got := unknown.send(t, at, "GET", path, ""); strings.HasPrefix(got.body, "GET /") {
				t.Errorf("%s without a session: %d %q", path, got.status, got.body)
			}
		}
	}
	for _, header := range []string{"Remote-User", "Remote_User", "Remote.User"} {
		if got := unknown.send(t, at, "GET", "/shop", "", header, "root", "Cookie", "authguard_login=made-up"); got.status < 300 {
			t.Errorf("an unknown client with %s: %d %q", header, got.status, got.body)
		}
	}
}
