package route

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// PHP's usual lines take what stands behind byte 6 of the header, and skip what is no base64.
func TestBasicBehindAnotherSchemeIsRefused(t *testing.T) {
	t.Parallel()
	table := Table{mustCompile(t, Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 200"}})}
	login := base64.StdEncoding.EncodeToString([]byte("alice:guess1"))
	padded := base64.StdEncoding.EncodeToString([]byte("alice:guess"))
	behind := base64.StdEncoding.EncodeToString([]byte("alice:guess:\x00\xff\x9b\x01\x9c"))
	latin := base64.StdEncoding.EncodeToString([]byte("alice:gu\xe4\xdfe-and-more"))
	url := base64.URLEncoding.EncodeToString([]byte("alice:~~~???>>>"))
	const jwt = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIiwiaWF0IjoxNTE2MjM5MDIyfQ" +
		".SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
	rs256 := base64.RawURLEncoding.EncodeToString([]byte(`{"typ":"JWT","alg":"RS256","kid":"a1"}`)) + "." +
		base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://login.example.org/","sub":"a:b"}`)) + "." +
		strings.Repeat("aZ09_-", 57)
	for header, passes := range map[string]bool{
		"Bearer " + login: false, "Digest " + login: false, "Token1 " + login: false, "xxxxx " + login: false,
		"xxxxxx" + login: false, "Bearer" + login: false, "Token " + login: false, "ApiKey " + padded: false, "x " + login: false,
		"Bearer YWxp.Y2U6Z3Vlc3Mx": false, "Bearer x " + login: false, "Bearer " + padded + "/////w": false,
		"Bearer " + behind: false, "Bearer " + latin: false, "Bearer " + url: false, "Bearer\t" + login: false,
		"Ba\u017fic " + login: false, login: false, "Bearer Y=WxpY2U6Z3Vlc3Mx": false, "Bearer  " + login: false,

		"Bearer " + jwt: true, "Bearer " + rs256: true, "JWT " + jwt: true, "bearer " + jwt: true,
		"Bearer ghp_16C7e42F292c6912E7710c838347Ae178B4a": true, "Token 9944b09199c62bcf9418ad846dd0e4bbdfc6ee4b": true,
		"Bearer ya29.a0AfH6SMBx3Zk-1_abcdefghijklmnopqrstuvwxyz": true, "Bearer 0b79bab50daca910b000d4f1a2b675d604257e42": true,
		"Bearer 550e8400-e29b-41d4-a716-446655440000": true, `Token token="abcdef0123456789"`: true,
		`Digest username="alice", realm="x", nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", uri="/", response="6629fae49393a05397450978507c4ef1"`:                                                      true,
		"AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;range, Signature=fe5f80f77d5fa3beca038a248ff027d0445342fe2855ddc963176630326f1024": true,
		"Negotiate YIIJvwYGKwYBBQUCoIIJszCCCa+gMDAuBgkqhkiC9xIBAgIGCSqGSIb3EgECAgYKKwYBBAGCNwICHgYKKwYBBAGCNwICCqOCCXkEggl1":                                                                        true,
		"NTLM TlRMTVNTUAABAAAAB4IIogAAAAAAAAAAAAAAAAAAAAAKAGFKAAAADw==":                                                                                                                             true,
		"Bearer": true, "Bearer ": true, "": true,
	} {
		r := httptest.NewRequest(http.MethodGet, "/x", nil)
		r.Header.Set("Authorization", header)
		if one, o, err := table.Find(r, nil); (err == nil) != passes || (one == nil) != passes {
			t.Errorf("%q: %v, %q, %v", header, one, o.Credentials, err)
		}
	}
	long := strings.Repeat("YWxp ", 8_000)
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	r.Header.Set("Authorization", long)
	if _, _, err := table.Find(r, nil); err != nil {
		t.Errorf("a long header: %v", err)
	}
}

// npm login sends the same login in the header and in the body. A made-up one takes the place of both.
func TestOneLoginInTwoPlacesIsOne(t *testing.T) {
	t.Parallel()
	table := Table{
		mustCompile(t, Spec{Name: "login", Path: "/-/user/*", Methods: []string{"PUT"}, Account: "json:/name", Password: "json:/password",
			Success: []string{"status 201"}}),
		mustCompile(t, Spec{Name: "login", Path: "/*", Account: "basic", Success: []string{"status 200"}}),
	}
	other := mustCompile(t, Spec{Name: "other", Path: "/*", Account: "basic", Success: []string{"status 200"}})
	for password, passes := range map[string]bool{"guess": true, "other": false} {
		body := []byte(`{"name":"alice","password":"guess"}`)
		r := httptest.NewRequest(http.MethodPut, "/-/user/x", nil)
		r.Header.Set("Content-Type", "application/json")
		r.SetBasicAuth("alice", password)
		one, o, err := table.Find(r, body)
		if (err == nil) != passes {
			t.Errorf("%s: %v", password, err)
		}
		if _, _, err := (Table{table[0], other}).Find(r, body); err == nil {
			t.Error("it counts at one of two names alone")
		}
		if err != nil {
			continue
		}
		body = o.Spoil(r, body, Credential{"bob", "made up"})
		if name, password, _ := r.BasicAuth(); one != table[0] || len(o.Credentials) != 1 || name != "bob" || password != "made up" ||
			string(body) != `{"name":"bob","password":"made up"}` {
			t.Errorf("%v, %v, %s:%s, %s", one, o.Credentials, name, password, body)
		}
	}
}
