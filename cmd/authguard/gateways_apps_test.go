//go:build apps

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"authguard/internal/testing/redistest"
)

// phpApps start PHP, which prints $_SERVER as JSON.
var phpApps = map[string]func(t *testing.T, dir, at string){
	"php -S": func(t *testing.T, dir, at string) {
		runGateway(t, dir, at, "php", "-S", at, "index.php")
	},
	"lighttpd": func(t *testing.T, dir, at string) {
		_, port, _ := strings.Cut(at, ":")
		write(t, dir, "lighttpd.conf", fmt.Sprintf(`server.modules = ("mod_rewrite", "mod_fastcgi")
server.document-root = "%[1]s"
server.bind = "127.0.0.1"
server.port = %[2]s
url.rewrite-once = (".*" => "/index.php")
fastcgi.server = (".php" => (("bin-path" => "/usr/bin/php-cgi", "socket" => "%[1]s/php", "max-procs" => 1)))
`, dir, port))
		runGateway(t, dir, at, "lighttpd", "-D", "-f", filepath.Join(dir, "lighttpd.conf"))
	},
}

// forgedIn are the names under which PHP has what a client forged.
func forgedIn(t *testing.T, a answer) (names []string) {
	t.Helper()
	var server map[string]any
	if err := json.Unmarshal([]byte(a.body), &server); err != nil {
		t.Errorf("%d %.300q: %v", a.status, a.body, err)
	}
	for name, value := range server {
		if strings.Contains(fmt.Sprint(value), "forged") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestAppsPHPBehindAGatewayBelievesNoClient sends what PHP takes for HTTP_REMOTE_USER and
// its like to PHP behind each gateway, and behind the reverse proxy.
func TestAppsPHPBehindAGatewayBelievesNoClient(t *testing.T) {
	t.Parallel()
	for kind, start := range phpApps {
		dir, at := t.TempDir(), redistest.FreeAddress(t)
		script := []byte("<?php echo json_encode($_SERVER, JSON_INVALID_UTF8_SUBSTITUTE);")
		if err := os.WriteFile(filepath.Join(dir, "index.php"), script, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		start(t, dir, at)
		app := "http://" + at
		client := from("127.0.0.1")
		direct := &server{t: t, base: app}
		for _, header := range []string{"Remote-User", "Remote.User"} {
			got := forgedIn(t, client.send(t, direct, "GET", "/", "", header, "forged"))
			if !slices.Equal(got, []string{"HTTP_REMOTE_USER"}) {
				t.Fatalf("%s reads %s as %v", kind, header, got)
			}
		}
		s := newServer(t, quiet+"trusted_proxies: [127.0.0.1]\naccess:\n  - {allow: anyone}\n")
		for _, name := range slices.Sorted(maps.Keys(gateways)) {
			gateway := startGateway(t, redistest.FreeAddress(t), name, s, app, app)
			for _, header := range forgedHeaders {
				got := client.send(t, gateway, "GET", "/x", "", header, "forged")
				if got.status == http.StatusBadRequest {
					continue
				}
				if told := forgedIn(t, got); got.status != http.StatusOK || len(told) > 0 {
					t.Errorf("%s behind %s, %s: %d, PHP has it in %v", kind, name, header, got.status, told)
				}
			}
		}
		proxy := newServer(t, quiet+"proxy: {upstream: '"+app+"', preset: json}\n")
		for _, header := range append([]string{
			"Fly-Client-IP", "WL-Proxy-Client-IP", "X-Username", "SSL-Client-Verify", "X-Script-Name", "X-Middleware-Subrequest",
		}, forgedHeaders...) {
			got := client.send(t, proxy, "GET", "/x", "", header, "forged")
			if told := forgedIn(t, got); got.status != http.StatusOK || len(told) > 0 {
				t.Errorf("%s behind the reverse proxy, %s: %d, PHP has it in %v", kind, header, got.status, told)
			}
		}
	}
}
