package route

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// withoutPassword returns a route for codes, or for names without a password.
func withoutPassword(t testing.TB, kind, path, field string) *Route {
	t.Helper()
	s := Spec{Name: "code", Kind: kind, Path: path, Success: []string{"status 302"}}
	if s.Account = field; kind != "" {
		s.Account, s.Password = "", field
	}
	return mustCompile(t, s)
}

// Without a password, the account's field alone makes an attempt: the app must not get it unread.
func TestTheOnlyFieldOfARouteNeverPassesUnread(t *testing.T) {
	t.Parallel()
	const form, object = "otp=123456", `{"otp":"123456"}`
	for _, one := range []struct {
		method, query, kind, body string
		passes                    bool
	}{
		{"POST", "", "image/png", form, false}, {"POST", "", "application/octet-stream", form, false},
		{"POST", "", "text/plain", form, false}, {"POST", "", "", form, false}, {"PUT", "", "text/plain", form, false},
		{"POST", "", "application/x-url-encoded", form, false}, {"POST", "", "multipart/mixed; boundary=x", form, false},
		{"POST", "", "application/json", object, false}, {"POST", "", "text/plain", object, false},
		{"POST", "", ofPairs, object, false}, {"POST", "", "application/json", `{"session":` + object + `}`, false},
		{"POST", "", "text/xml", "<otp>123456</otp>", false}, {"POST", "", ofParts, partsOf(named("data"), object), false},
		{"GET", form, "", "", false}, {"HEAD", form, "", "", false}, {"OPTIONS", form, "", "", false},
		{"PUT", form, ofPairs, "a=b", false}, {"PATCH", form, "text/plain", "x", false},
		{"POST", form, ofPairs, "a=b", false}, {"GET", "%6ftp=1", "", "", false}, {"GET", "otp[]=1", "", "", false},
		{"GET", "", "", "", true}, {"HEAD", "", "", "", true}, {"OPTIONS", "", "", "", true},
		{"GET", "next=/home&discount_otp=1&otps=2", "", "", true},
	} {
		for _, path := range []string{"/mfa/*", "/mfa", "below /mfa"} {
			for _, route := range []*Route{
				withoutPassword(t, SecondFactor, strings.TrimPrefix(path, "below "), "form:otp"), withoutPassword(t, "", strings.TrimPrefix(path, "below "), "form:otp"),
				withoutPassword(t, SecondFactor, strings.TrimPrefix(path, "below "), "json:/otp"),
			} {
				at := map[string]string{"/mfa/*": "/mfa/verify", "/mfa": "/mfa", "below /mfa": "/mfa/x"}[path]
				r := httptest.NewRequest(one.method, at+"?"+one.query, nil)
				if one.kind != "" {
					r.Header.Set("Content-Type", one.kind)
				}
				table, _ := Table{route}.At(at)
				found, o, err := table.Find(r, []byte(one.body))
				read := len(o.Credentials) > 0 // as an attempt
				if passes := err == nil && !read; passes != one.passes || err != nil && found == nil {
					t.Errorf("%s, %s: %+v passes: %v, at %v: %v", path, route.account.name, one, passes, found, err)
				}
			}
		}
	}
}

func TestOtherFormsPassInAFolderOfCodes(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"otp", "code", "username", "wpUsername"} {
		for _, kind := range []string{SecondFactor, ""} {
			table := Table{withoutPassword(t, kind, "/*", "form:"+field)}
			for _, one := range [][3]string{
				{"", ofPairs, "title=x&text=the+" + field}, {"", "application/json", `{"title":"the ` + field + `"}`},
				{"", "image/png", "\x89PNG\x00\xff" + field}, {"", "text/plain", "the " + field}, {"page=2&text=" + field, "", ""},
				{"", "application/json", `[1,{"text":"` + field + `"}]`}, {"", ofParts, partsOf(named("text"), field)},
			} {
				r := posted(one[1], one[2])
				r.URL.RawQuery = one[0]
				if found, o, err := table.Find(r, []byte(one[2])); err != nil || len(o.Credentials) > 0 {
					t.Errorf("%s: %q: %v, %q, %v", field, one, found, o.Credentials, err)
				}
				r.Method, r.URL.RawQuery = http.MethodGet, "next=/x"
				if found, _, err := table.Find(r, nil); err != nil || found != nil {
					t.Errorf("%s: GET: %v, %v", field, found, err)
				}
			}
		}
	}
	// A login at the same path keeps its other fields, and cookies with a name.
	login := Table{loginAt(t, "/login"), withoutPassword(t, "", "/login", "form:email"), withoutPassword(t, "", "/login", "form:username")}
	for _, body := range []string{pairsBody, pairsBody + "&email="} {
		if found, o, err := login.Find(posted(ofPairs, body), []byte(body)); err != nil || found != login[0] ||
			!slices.Equal(o.Credentials, []Credential{{"alice", "guess"}}) {
			t.Errorf("%s: %v, %q, %v", body, found, o.Credentials, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/login", nil)
	r.Header.Set("Cookie", "username=bob")
	if found, _, err := login.Find(r, nil); found != nil || err != nil {
		t.Errorf("a remembered name: %v, %v", found, err)
	}
	r.Header.Set("Cookie", "otp=123456")
	if found, _, err := (Table{withoutPassword(t, SecondFactor, "/*", "form:otp")}).Find(r, nil); found == nil || err == nil {
		t.Errorf("a code in a cookie passes, at %v", found)
	}
}

func TestALargeBodyHidesNoCode(t *testing.T) {
	t.Parallel()
	pad := strings.Repeat("A", 70_000)
	for _, kind := range []string{SecondFactor, ""} {
		table := Table{withoutPassword(t, kind, "/*", "form:otpcode")}
		for _, one := range [][3]string{
			{"image/png", "otpcode=guess&pad=" + pad}, {"application/octet-stream", "pad=" + pad + "&otpcode=guess"},
			{"text/plain", `{"otpcode":"guess","pad":"` + pad + `"}`}, {"application/json", `{"pad":"` + pad + `","otpcode":"guess"}`},
			{ofPairs, "pad=" + pad + `&data={"otpcode":"guess"}`}, {ofParts, partsOf(named("pad"), pad, named("data"), `{"otpcode":"guess"}`)},
			{"image/png", "pad=" + pad, "passes"}, {"application/json", `{"pad":"` + pad + `","text":"otpcode"}`, "passes"},
			{ofParts, partsOf(named("file")+"; filename=\"a.png\"", "\x89PNG otpcode="+pad), "passes"},
		} {
			r := posted(one[0], one[1])
			r.Header.Set("Cookie", "otpcode=remembered")
			got, err := io.ReadAll(table.Watch(r, strings.NewReader(one[1])))
			if passes := err == nil && string(got) == one[1]; passes != (one[2] != "") || !passes && strings.Contains(string(got), "guess") {
				t.Errorf("%s: %.50q: %d of %d bytes pass: %v", one[0], one[1], len(got), len(one[1]), err)
			}
		}
	}
}
