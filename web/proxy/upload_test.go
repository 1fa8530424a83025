package proxy_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// DokuWiki takes a login on every page, and phpMyAdmin where it takes imports: what
// is larger than a login streams through, and takes no password along.
func TestAnUploadStreamsThroughAGuardedFolder(t *testing.T) {
	t.Parallel()
	d := newDoor(t, wordpress, nil, "any")
	part := func(name, text string) string {
		return "--XyZ\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + text + "\r\n"
	}
	const parts, end = "multipart/form-data; boundary=XyZ", "--XyZ--\r\n"
	large := strings.Repeat("0123456789\r\n", 20_000)
	for name, o := range map[string]offer{
		"parts": {"POST", "/import?route=/import", parts, part("file", large) + part("id", "1") + end},
		"pairs": {"POST", "/edit", "application/x-www-form-urlencoded", "id=1&text=" + strings.Repeat("a+", 20_000)},
		"bytes": {"POST", "/upload", "application/octet-stream", large},
	} {
		want := fmt.Sprintf("POST %s %x", o.path, sha256.Sum256([]byte(o.body)))
		if r := d.send(t, "198.18.0.1", o); r.StatusCode != http.StatusOK || text(t, r) != want {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	for name, o := range map[string]offer{
		"in a part behind it":  {"POST", "/import", parts, part("file", large) + part("username", "alice") + part("password", "guess") + end},
		"in a pair behind it":  {"POST", "/edit", "application/x-www-form-urlencoded", "text=" + strings.Repeat("a+", 20_000) + "&username=alice&password=guess"},
		"in the query":         {"POST", "/import?username=alice&password=guess", parts, part("file", large) + end},
		"half in the query":    {"POST", "/import?username=alice", parts, part("file", large) + part("password", "guess") + end},
		"in front of it":       {"POST", "/import", parts, part("username", "alice") + part("password", "guess") + part("file", large) + end},
		"in a form nobody has": {"POST", "/import", "multipart/mixed; boundary=XyZ; x=form", part("username", "alice") + part("password", "guess") + part("file", large) + end},
	} {
		if r := d.send(t, "198.18.0.1", o); r.StatusCode < 400 || r.StatusCode >= 500 {
			t.Errorf("%s: %s", name, r.Status)
		}
	}
	for i := range 10 {
		d.send(t, fmt.Sprintf("198.18.%d.2", i), offer{"POST", "/any", parts, part("username", "alice") + part("password", fmt.Sprint("guess ", i)) + end})
	}
	if n := d.app.passwords(); n != 5 {
		t.Errorf("the app saw %d passwords, want the 5 small ones", n)
	}
}
