package route

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Repeated probes of one account check one made-up password, or two: a PIN has few.
func TestMadeUpPasswordsOfOneFormatAreFew(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range 10_000 {
		seen[MadeUp("alice", fmt.Sprintf("%04d", i))] = true
	}
	if len(seen) > 2 {
		t.Errorf("%d made-up passwords, want 2 at most", len(seen))
	}
	digits := map[string]bool{} // as Python's int() reads them
	first := MadeUp("alice", "0000")
	for _, pin := range []string{"0000", "1111", first, MadeUp("alice", first)} {
		for _, zero := range []rune{'0', '\uff10', '\u0660'} {
			for _, beside := range []string{"", "_", " ", "+", "\u200b"} {
				inScript := strings.Map(func(c rune) rune { return c - '0' + zero }, pin)
				made := MadeUp("alice", beside+inScript+beside)
				digits[strings.Map(func(c rune) rune {
					if !unicode.IsDigit(c) {
						return -1
					}
					return (c-zero)%10 + '0'
				}, made)] = true
			}
		}
	}
	if len(digits) > 2 {
		t.Errorf("%d made-up PINs, want 2 at most", len(digits))
	}
	for _, pin := range []string{"1234", "①②③④", "④③②①", "⁴₃²1", "1½3"} { // as NFKC reads them
		digits[norm.NFKC.String(MadeUp("alice", pin))] = true
	}
	if len(digits) > 3 { // ½ has a slash
		t.Errorf("made-up PINs: %v", digits)
	}
	beginnings := map[string]bool{} // as PHP's (int) and parseInt read them
	for i, behind := range []string{"", ".5", ".55", "a", "ab", "xyz", "abcdefabcdef", "abcdefabcdefa", "abcdefabcdefab"} {
		made := MadeUp("alice", fmt.Sprint(1000+i, behind))
		beginnings[made[:min(4, len(made)-len(strings.TrimLeft(made, "0123456789")))]] = true
	}
	if len(beginnings) > 2 {
		t.Errorf("%d made-up beginnings, want 2 at most: %v", len(beginnings), beginnings)
	}
	if chosen := MadeUp("alice", strings.Map(func(c rune) rune { return c ^ 2 }, "длинныйпароль")); chosen == "длинныйпароль" {
		t.Error("an attacker chooses the made-up password")
	}
	others := map[string]bool{}
	for i := range 100 {
		others[MadeUp(fmt.Sprint("user", i), "0000")] = true
	}
	if len(others) < 50 {
		t.Errorf("100 accounts share %d made-up passwords", len(others))
	}
}

// An app's schema takes a digest for what it is only if it is hexadecimal.
// PHP takes "0" for an empty password, and "0000" for a PIN.
func TestAPINOfZerosIsAPassword(t *testing.T) {
	t.Parallel()
	r, err := Compile(Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:pin", Success: []string{"status 302"}})
	if err != nil {
		t.Fatal(err)
	}
	for pin, want := range map[string]bool{"": true, "0": true, " 0\t": true, " \u200b": true, "00": false, "0000": false, "4711": false} {
		if got := r.Blank(Offer{Credentials: []Credential{{Account: "alice", Password: pin}}}); got != want {
			t.Errorf("%q: %t", pin, got)
		}
	}
}

// An app may take several spellings for one account. Otherwise each of them would check another PIN.
func TestSpellingsOfAnAccountHaveOneMadeUpPIN(t *testing.T) {
	t.Parallel()
	want := MadeUp("alice@example.org", "0000")
	for _, account := range []string{"Alice@example.org", " alice@EXAMPLE.org ", "al\u00adice@example.org", "ａlice@example.org", "álice@example.org"} {
		if got := MadeUp(account, "0000"); got != want {
			t.Errorf("%q: %s, want %s", account, got, want)
		}
	}
	if MadeUp("bob@example.org", "0000") == want && MadeUp("carol@example.org", "0000") == want {
		t.Error("all accounts have one PIN")
	}
}

func TestAMadeUpDigestIsHexadecimal(t *testing.T) {
	t.Parallel()
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte("secret")))
	made := MadeUp("alice", digest)
	if strings.Trim(made, "0123456789abcdef") != "" || len(made) != len(digest) || made == digest {
		t.Errorf("%s, made up for %s", made, digest)
	}
	if other := MadeUp("alice", fmt.Sprintf("%x", sha256.Sum256([]byte("another")))); other != made {
		t.Errorf("%s and %s: each is a guess", made, other)
	}
}

// A made-up name is no real account: another customer number would be one.
func TestAMadeUpNameIsNoAccount(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"4711", "bob", "0151-2345678", "bob@example.org", "7@example.org", "a.long-name", ""} {
		made := madeUpName(name)
		own, domain, _ := strings.Cut(made, "@")
		_, want, _ := strings.Cut(name, "@")
		if n := len(regexp.MustCompile(`[^a-z]`).ReplaceAllString(own, "")); n < 9 || domain != want || made != madeUpName(name) {
			t.Errorf("%q for %q", made, name)
		}
	}
	if madeUpName("4711") != madeUpName("4712") {
		t.Error("each name has another, and with it another guess")
	}
}

// What is sent in place of an attempt differs from it in one value: apps reject a number or a digest that has changed.
func TestASpoiledRequestKeepsTheRest(t *testing.T) {
	t.Parallel()
	const body = `{"id": 9223372036854775807, "in":{"user" :"bob" ,"list":["user"],"secret":"x\u0041"},"kind":1}`
	one, err := Compile(Spec{Name: "login", Path: "/login", Account: "json:/in/user", Password: "json:/in/secret",
		Success: []string{"status 200"}})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Content-Digest", "sha-256=:x:")
	_, o, err := Table{one}.Find(r, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for other, want := range map[Credential]string{
		{Password: `"`}: strings.Replace(body, `"x\u0041"`, `"\""`, 1), {Account: "eve"}: strings.Replace(body, "bob", "eve", 1),
	} {
		if got := string(o.Spoil(r, []byte(body), other)); got != want || r.Header.Get("Content-Digest") != "" {
			t.Errorf("%+v: %s, want %s, %v", other, got, want, r.Header)
		}
	}
}

// The app's login has a final slash, the route has none: the app is sent no made-up password for that.
func TestAFinalSlashSendsNoMadeUpPassword(t *testing.T) {
	t.Parallel()
	r := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password",
		Success: []string{"status 302", "cookie session"}})
	body := []byte("username=alice&password=x")
	for _, signedIn := range []bool{false, true} {
		req := posted(ofPairs, string(body))
		req.URL.Path = "/login/"
		req.Header.Set("Cookie", "session=1")
		_, offer, err := Table{r}.Find(req, body)
		if err != nil {
			t.Fatal(err)
		}
		sent := 0
		basis, err := r.Basis(req, body, offer, func(q *http.Request, _ []byte) (Answer, error) {
			a := Answer{Status: 200, Header: http.Header{}, Whole: true, Body: []byte(`<input type="password" name="password">`)}
			switch {
			case q.Method == http.MethodPost:
				sent++
			case q.URL.Path == "/login":
				a.Status, a.Body = 302, nil
				a.Header.Set("Location", "/login/")
				if q.Header.Get("Cookie") == "" {
					a.Header.Set("Set-Cookie", "session=of-a-newcomer")
				}
			case signedIn && q.Header.Get("Cookie") != "":
				a.Status, a.Body = 302, nil
				a.Header.Set("Location", "/account")
			}
			return a, nil
		})
		if want := map[bool]Basis{false: OnPassword, true: OnSession}[signedIn]; err != nil || basis != want || sent > 0 {
			t.Errorf("signed in %t: %v %v, %d passwords sent", signedIn, basis, err, sent)
		}
	}
}

// A redirect to the final slash that renews the session of a signed-in visitor alone is a success.
func TestAFinalSlashHidesNoSession(t *testing.T) {
	t.Parallel()
	r := mustCompile(t, Spec{Name: "login", Path: "/login", Account: "form:username", Password: "form:password",
		Success: []string{"status 302", "cookie session"}})
	body := []byte("username=alice&password=x")
	req := posted(ofPairs, string(body))
	req.URL.Path = "/login.json"
	req.Header.Set("Cookie", "session=mallorys")
	_, offer, err := Table{r}.Find(req, body)
	if err != nil {
		t.Fatal(err)
	}
	basis, err := r.Basis(req, body, offer, func(q *http.Request, _ []byte) (Answer, error) {
		if q.URL.Path != "/login" {
			return Answer{Status: 200, Header: http.Header{}, Whole: true, Body: []byte(`{"email": ""}`)}, nil
		}
		a := Answer{Status: 302, Header: http.Header{"Location": {"/login/"}}, Whole: true}
		if q.Header.Get("Cookie") != "" {
			a.Header.Set("Set-Cookie", "session=renewed")
		}
		return a, nil
	})
	if err != nil || basis != OnSession {
		t.Errorf("%v %v", basis, err)
	}
}

// A PIN's field is of type tel: the page has the form by the field's name, even if it greets a visitor by name.
func TestAFieldOfThePasswordsNameIsAForm(t *testing.T) {
	t.Parallel()
	for _, spec := range []string{"form:pin", "form:user[pin]"} {
		r := loginAt(t, "/login", func(s *Spec) { s.Password = spec })
		field := strings.TrimPrefix(spec, "form:")
		body := []byte("username=alice&" + url.QueryEscape(field) + "=1")
		req := posted(ofPairs, string(body))
		req.Header.Set("Cookie", "name=alice")
		_, offer, err := Table{r}.Find(req, body)
		if err != nil {
			t.Fatal(err)
		}
		for page, want := range map[string]int{`<input type="tel" name="` + field + `">`: 0, `<input type="tel" name="other">`: 1} {
			sent := 0
			if _, err := r.Basis(req, body, offer, func(q *http.Request, _ []byte) (Answer, error) {
				if q.Method == http.MethodPost {
					sent++
				}
				return Answer{Status: 200, Header: http.Header{}, Whole: true, Body: []byte("Hello " + q.Header.Get("Cookie") + page)}, nil
			}); err != nil || sent != want {
				t.Errorf("%s: %d made-up passwords, want %d, %v", page, sent, want, err)
			}
		}
	}
}

func TestARequestThatContinuesALogin(t *testing.T) {
	t.Parallel()
	s := Spec{Name: "login", Path: "/*", Account: "param:user", Password: "param:password", Success: []string{"status 302"},
		Failure: []string{"status 500", "sent login-continue"}}
	r, err := Compile(s)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"action=login-continue": true, "action=login%2Dcontinue": true, "action=LOGIN%252dcontinue": true, "action=login": false,
		"status=500": false,
	} {
		if r.Continues(httptest.NewRequest(http.MethodPost, "/?"+text, nil), []byte("user=alice")) != want ||
			r.Continues(httptest.NewRequest(http.MethodPost, "/", nil), []byte("user=alice&"+text)) != want {
			t.Errorf("%s: not %v", text, want)
		}
	}
	s.Failure, s.Success = nil, []string{"not sent x"}
	if _, err := Compile(s); err == nil || !strings.Contains(err.Error(), "success: sent TEXT is a condition of failure") {
		t.Errorf("%v", err)
	}
}

// PHP reads app.auth as app_auth.
func TestARenewedCookieInAnotherSpelling(t *testing.T) {
	t.Parallel()
	r, err := Compile(Spec{Name: "login", Path: "/*", Account: "form:user", Password: "form:password", SignedIn: []string{"never"},
		Success: []string{"cookie app_auth*"}})
	if err != nil {
		t.Fatal(err)
	}
	for cookie, want := range map[string]bool{
		"app_auth=1": true, "x=1; app.auth=1": true, "app%5Fauth=1": true, "app[auth-1=1": true, "app=auth": false, "": false,
	} {
		req := httptest.NewRequest(http.MethodPost, "/", nil)
		req.Header.Set("Cookie", cookie)
		if r.Renews(req) != want {
			t.Errorf("%s: not %v", cookie, want)
		}
	}
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	req.Header.Set("Cookie", "DW1=x")
	for name, c := range map[string]struct {
		Spec
		want bool
	}{
		"basic":                         {Spec{Account: "basic"}, true}, // DokuWiki reads the header only without a session
		"a form":                        {Spec{Account: "form:u", Password: "form:p"}, false},
		"its code":                      {Spec{Kind: "second-factor", Password: "form:p"}, true},
		"a form that is always checked": {Spec{Account: "form:u", Password: "form:p", SignedIn: []string{"never"}}, true},
	} {
		c.Name, c.Path, c.Success = "login", "/*", []string{"cookie DW*"}
		if r, err = Compile(c.Spec); err != nil || r.MayRenew(req) != c.want {
			t.Errorf("%s: %v, not %v", name, err, c.want)
		}
	}
}

func TestOnlySomeLoginsStartSessions(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]bool{"form:u": true, "json:/u": true, "basic": false, "xmlrpc": false} {
		s := Spec{Name: "login", Path: "/login", Account: account, Success: []string{"status 200"}}
		if want {
			s.Password = strings.Replace(account, "u", "p", 1)
		}
		if r, err := Compile(s); err != nil || r.StartsSession() != want {
			t.Errorf("%s: %v, not %v", account, err, want)
		}
	}
}
