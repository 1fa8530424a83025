package client_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"authguard/internal/testing/redistest"
	"authguard/web/client"
)

// A sibling host can plant any number of cookies, and expiring them all makes an answer too
// large for a gateway: nginx has 4,096 bytes for all headers by default.
func TestFewDeviceCookiesExpireAtOnce(t *testing.T) {
	t.Parallel()
	r, h, expired, bytes := &http.Request{Header: http.Header{}}, http.Header{}, map[string]bool{}, 0
	for i := range 90 {
		planted := &http.Cookie{Name: fmt.Sprintf("__Host-authguard_device_%08x", i/2), Value: "x"}
		r.AddCookie(planted)
	}
	client.SetDevice(h, r, "ffffffff", strings.Repeat("x", 98), 90*24*time.Hour, true)
	for _, line := range h["Set-Cookie"] {
		bytes += len("Set-Cookie: \r\n") + len(line)
		if cookie, err := http.ParseSetCookie(line); err == nil && cookie.MaxAge < 0 {
			expired[cookie.Name] = true
		}
	}
	if len(expired) != 5 || len(h["Set-Cookie"]) != 6 || bytes > 1024 || !expired["__Host-authguard_device_00000000"] {
		t.Errorf("%d lines of %d bytes expire %d cookies, want 5: %q", len(h["Set-Cookie"]), bytes, len(expired), h["Set-Cookie"])
	}
}

func TestPlantedDeviceCookiesPassNginxsDefaultBuffers(t *testing.T) {
	t.Parallel()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client.SetDevice(w.Header(), r, "ffffffff", strings.Repeat("x", 98), 90*24*time.Hour, false)
		w.Header().Add("Set-Cookie", "authguard_session="+strings.Repeat("x", 43)+"; Path=/; HttpOnly; SameSite=Lax")
	}))
	t.Cleanup(app.Close)
	dir := t.TempDir()
	config := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/pid; error_log stderr; events {}
http {
	access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s;
	uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
	server { listen unix:%[1]s/front; location / { proxy_pass %[2]s; } }
}`, dir, app.URL)
	if err := os.WriteFile(filepath.Join(dir, "conf"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx := exec.Command("/usr/sbin/nginx", "-p", dir, "-c", "conf")
	nginx.Stderr = os.Stderr
	if err := nginx.Start(); err != nil {
		t.Fatalf("%v: .ci/need installs it", err)
	}
	t.Cleanup(func() { _ = nginx.Process.Signal(syscall.SIGTERM); _ = nginx.Wait() })
	through := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "front"))
	}}}
	redistest.Until(t, "nginx to listen", func() bool {
		answer, err := through.Get("http://front/")
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://front/login", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 90 {
		r.AddCookie(&http.Cookie{Name: fmt.Sprintf("authguard_device_%08x", i), Value: "x"})
	}
	answer, err := through.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK || len(answer.Header["Set-Cookie"]) != 7 {
		t.Errorf("%d with %d cookies", answer.StatusCode, len(answer.Header["Set-Cookie"]))
	}
}
