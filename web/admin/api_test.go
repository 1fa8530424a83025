package admin_test

import (
	"net/http"
	"net/netip"
	"net/url"
	"os/user"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/audit"
	"authguard/internal/operation"
	"authguard/internal/testing/doctest"
	"authguard/trusted"
	"authguard/web"
	"authguard/web/admin"
)

func TestEveryChangeIsOnRecordUnderThePeersName(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []struct{ method, path, question, what, subject string }{
		{"PUT", "/api/mode", `{"mode":"on","for":"10m","reason":"drill"}`, "captcha-on", ""},
		{"PUT", "/api/mode", `{"mode":"off","for":"10m","reason":"false alarm"}`, "captcha-off", ""},
		{"PUT", "/api/mode", `{"mode":"auto"}`, "captcha-auto", ""},
		{"PUT", "/api/mode", `{"mode":"clear","reason":"our own load test"}`, "captcha-clear", ""},
		{"POST", "/api/unlock", `{"account":"Ann"}`, "unlock", "ann"},
		{"POST", "/api/unlock", `{"address":"192.0.2.7"}`, "unlock", "192.0.2.7"},
		{"POST", "/api/unlock", `{"account":"ann","known_clients":true}`, "known-clients-remove", "ann"},
		{"POST", "/api/forget", `{"account":"ann"}`, "known-clients-remove", "ann"},
		{"POST", "/api/lists", `{"cidr":"192.0.2.0/24","verdict":"block","note":"scan"}`, "block", "192.0.2.0/24"},
		{"POST", "/api/lists", `{"cidr":"192.0.2.9","verdict":"allow","for":"7d"}`, "allow", "192.0.2.9/32"},
		{"DELETE", "/api/lists?cidr=192.0.2.0/24", "", "unlist", "192.0.2.0/24"},
		{"POST", "/api/users", `{"username":"Ann","password":"long enough"}`, "user-add", "ann"},
		{"POST", "/api/users/set-password", `{"username":"ann","password":"another one"}`, "user-set-password", "ann"},
		{"POST", "/api/users/disable", `{"username":"ann"}`, "user-disable", "ann"},
		{"POST", "/api/users/disable", `{"username":"ann","enable":true}`, "user-enable", "ann"},
		{"DELETE", "/api/users?username=Ann", "", "user-delete", "ann"},
		{"POST", "/api/tokens", `{"name":"shop"}`, "token-add", "shop"},
		{"DELETE", "/api/tokens?name=shop", "", "token-revoke", "shop"},
	} {
		o.mustAsk(t, one.method, one.path, one.question, nil)
		if what, who, subject := o.recorded(t); what != one.what || who != "cli:"+me.Username || subject != one.subject {
			t.Errorf("%s %s is on record as %s by %s of %q", one.path, one.question, what, who, subject)
		}
	}
}

// Ensure that whatever is changed has the reason on record that was given with it, and
// that one that is too long changes nothing.
func TestEveryChangeIsOnRecordWithItsReason(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mustAsk(t, "POST", "/api/users", `{"username":"ann","password":"long enough"}`, nil)
	o.mustAsk(t, "POST", "/api/lists", `{"cidr":"192.0.2.8","verdict":"block"}`, nil)
	o.keeps(t, "attack-1", "lost")
	changes := []struct{ method, path, question, what string }{
		{"PUT", "/api/mode", `{"mode":"on","reason":"WHY"}`, "captcha-on"},
		{"PUT", "/api/mode", `{"mode":"auto","reason":"WHY"}`, "captcha-auto"},
		{"PUT", "/api/mode", `{"mode":"clear","reason":"WHY"}`, "captcha-clear"},
		{"POST", "/api/unlock", `{"account":"ann","reason":"WHY"}`, "unlock"},
		{"POST", "/api/unlock", `{"account":"ann","known_clients":true,"reason":"WHY"}`, "known-clients-remove"},
		{"POST", "/api/unlock", `{"network":"192.0.2.0/24","reason":"WHY"}`, "unlock"},
		{"POST", "/api/forget", `{"account":"ann","address":"192.0.2.7","reason":"WHY"}`, "known-clients-remove"},
		{"POST", "/api/lists", `{"cidr":"192.0.2.9","verdict":"allow","note":"WHY"}`, "allow"},
		{"POST", "/api/lists/import", `{"text":"192.0.2.10","verdict":"block","note":"WHY"}`, "block-import"},
		{"POST", "/api/lists/prolong", `{"cidr":"192.0.2.8","for":"7d","reason":"WHY"}`, "prolong"},
		{"DELETE", "/api/lists?cidr=192.0.2.8&reason=WHY", "", "unlist"},
		{"DELETE", "/api/lists/many?ranges=192.0.2.9,192.0.2.10&reason=WHY", "", "unlist-many"},
		{"DELETE", "/api/users/sessions?username=ann&reason=WHY", "", "user-sessions"},
		{"POST", "/api/users/create-code", `{"username":"ann","reason":"WHY"}`, "user-create-code"},
		{"POST", "/api/users/ask-password", `{"username":"ann","reason":"WHY"}`, "user-ask-password"},
		{"POST", "/api/users/disable", `{"username":"ann","reason":"WHY"}`, "user-disable"},
		{"POST", "/api/users/disable", `{"username":"ann","enable":true,"reason":"WHY"}`, "user-enable"},
		{"POST", "/api/users", `{"username":"bob","password":"long enough","reason":"WHY"}`, "user-add"},
		{"POST", "/api/users/set-password", `{"username":"bob","password":"long enough too","reason":"WHY"}`, "user-set-password"},
		{"POST", "/api/users/groups", `{"username":"bob","groups":["staff"],"reason":"WHY"}`, "user-groups"},
		{"DELETE", "/api/users?username=bob&reason=WHY", "", "user-delete"},
		{"POST", "/api/users/import?format=csv&reason=WHY", "username,password\ncarl,long enough\n", "user-import"},
		{"POST", "/api/tokens", `{"name":"backend","reason":"WHY"}`, "token-add"},
		{"DELETE", "/api/tokens?name=backend&reason=WHY", "", "token-revoke"},
		{"PUT", "/api/policy", `{"limit":"pair-delay","to":"monitor","reason":"WHY"}`, "policy-monitor"},
		{"PUT", "/api/policy/limits", `{"limit":"account","limits":"8/24h, 100/24h block","reason":"WHY"}`, "policy-limits"},
		{"POST", "/api/attacks/attack-1/reset", `{"account":"lost","what":["sessions"],"reason":"WHY"}`, "attack-reset"},
		{"POST", "/api/administrators", `{"username":"eve","reason":"WHY"}`, "admin-add"},
		{"POST", "/api/administrators/password", `{"username":"eve","reason":"WHY"}`, "admin-passwd"},
		{"POST", "/api/administrators/mfa", `{"username":"eve","reason":"WHY"}`, "mfa-reset"},
		{"DELETE", "/api/administrators/sessions?username=eve&reason=WHY", "", "session-end"},
		{"POST", "/api/administrators", `{"username":"mia","reason":"WHY"}`, "admin-add"},
		{"DELETE", "/api/administrators?username=eve&reason=WHY", "", "admin-remove"},
	}
	// What changes nothing, and one's own way to sign in, which is nobody else's to ask about.
	seen := map[string]bool{"POST /api/probe": true, "POST /api/alerts/test": true}
	for _, one := range changes {
		path, _, _ := strings.Cut(strings.Replace(one.path, "attack-1", ":id", 1), "?")
		seen[one.method+" "+path] = true
	}
	e := web.NewEcho("", nil, quiet)
	(&admin.Site{API: new(admin.API), Login: new(web.Login), Metrics: http.NotFoundHandler()}).Routes(e)
	for _, r := range e.Routes() {
		if at := r.Method + " " + r.Path; r.Method != http.MethodGet && strings.HasPrefix(r.Path, "/api/") && !strings.HasPrefix(r.Path, "/api/security/") && !seen[at] {
			t.Errorf("%s changes something, and nothing here says that its reason is on record", at)
		}
	}
	for _, one := range changes {
		with := func(why string) (path, question string) {
			return strings.Replace(one.path, "WHY", url.QueryEscape(why), 1), strings.Replace(one.question, "WHY", why, 1)
		}
		if path, question := with(strings.Repeat("x", operation.MaxReason+1)); !strings.Contains(one.question, "note") {
			if status, body := o.ask(t, one.method, path, question, nil); status != http.StatusBadRequest || !strings.Contains(body, "shorten the reason") {
				t.Errorf("%s %s with a reason that is too long: %d %s", one.method, one.path, status, body)
			}
		}
		path, question := with("the <caller> asked")
		o.mustAsk(t, one.method, path, question, nil)
		rows, err := o.config.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Limit: 1})
		if err != nil || len(rows) != 1 || rows[0].Decision != one.what || !strings.HasSuffix(rows[0].Detail, "the <caller> asked") {
			t.Errorf("%s %s is on record as %+v, %v", one.method, one.path, rows, err)
		}
	}
}

func TestWhatMakesNoSenseChangesNothingAndSaysWhy(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mustAsk(t, "POST", "/api/users", `{"username":"ann","email":"ann@example.org","password":"long enough"}`, nil)
	for _, one := range []struct {
		method, path, question string
		status                 int
		says                   string
	}{
		{"PUT", "/api/mode", `{"mode":"on","for":"10m"}`, 400, "reason: missing"},
		{"PUT", "/api/mode", `{"mode":"maybe","reason":"x"}`, 400, "on, off, auto or clear"},
		{"PUT", "/api/mode", `{"mode":"on","for":"-1h","reason":"x"}`, 400, "must be a duration"},
		{"PUT", "/api/mode", `{"mode":"on","for":"1000h","reason":"x"}`, 400, "at most"},
		{"PUT", "/api/mode", `{"mode":"on","until":"tomorrow","reason":"x"}`, 400, "until"},
		{"PUT", "/api/mode", `{"mode":`, 400, "Invalid JSON"},
		{"PUT", "/api/mode", `{"mode":"on","for":"0s","reason":"x"}`, 400, "greater than zero"},
		{"PUT", "/api/mode", `{"mode":"auto"} {}`, 400, "nothing after it"},
		{"PUT", "/api/mode", `{"mode":"auto","mode":"on"}`, 400, "once"},
		{"PUT", "/api/mode", `{"Mode":"auto"}`, 400, "Unknown field"},
		{"PUT", "/api/mode", `{"mode":1}`, 400, "must not be a JSON number"},
		{"PUT", "/api/mode", `null`, 400, "one JSON object"},
		{"POST", "/api/unlock", `{"addre\u017fs":"192.0.2.7"}`, 400, "Unknown field"},
		{"PATCH", "/api/mode", `{}`, 405, "Method Not Allowed"},
		{"GET", "/api/nothing", "", 404, "Not Found"},
		{"PUT", "/api/mode", `{"mode":"auto","reason":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "at most"},
		{"GET", "/api/explain", "", 400, "enter an account"},
		{"GET", "/api/explain?address=localhost", "", 400, "not an IP address"},
		{"GET", "/api/explain?account=%ff", "", 400, "invalid account name"},
		{"POST", "/api/unlock", `{}`, 400, "enter an account"},
		{"POST", "/api/unlock", `{"address":"192.0.2.7","known_clients":true}`, 400, "requires an account"},
		{"POST", "/api/unlock", `{"network":"192.0.2.0/20"}`, 400, "write it like 203.0.113.0/24"},
		{"POST", "/api/unlock", `{"network":"somewhere"}`, 400, "is not a network"},
		{"POST", "/api/unlock", `{"network":"192.0.2.0/24","account":"ann"}`, 400, "cannot be combined"},
		{"POST", "/api/forget", `{}`, 400, "enter the account"},
		{"POST", "/api/lists", `{"cidr":"everybody","verdict":"block"}`, 400, "not an address or range"},
		{"POST", "/api/lists", `{"cidr":"192.0.2.7","verdict":"maybe"}`, 400, "allow or block"},
		{"POST", "/api/lists", `{"cidr":"192.0.2.7","verdict":"block","for":"soon"}`, 400, "must be a duration"},
		{"POST", "/api/lists", `{"cidr":"0.0.0.0/0","verdict":"allow","force":true}`, 400, "switch authguard off"},
		{"POST", "/api/lists", `{"cidr":"::/0","verdict":"block"}`, 400, "locks out all clients, including yours"},
		{"DELETE", "/api/lists?cidr=192.0.2.7", "", 404, "not on any list"},
		{"POST", "/api/users", `{"username":"bob","password":"short"}`, 400, "at least 8"},
		{"POST", "/api/users", `{"username":"bob","password":"leaked password"}`, 400, "known from leaks"},
		{"POST", "/api/users", `{"username":"bob","password":"` + strings.Repeat("x", 73) + `"}`, 400, "72 bytes"},
		{"POST", "/api/users", `{"username":"bob","password":"12345678\u0000"}`, 400, "NUL"},
		{"POST", "/api/users", `{"username":"","password":"long enough"}`, 400, "invalid account name"},
		{"POST", "/api/users", `{"username":"bob","password":"long enough","role":"root"}`, 400, "user or admin"},
		{"POST", "/api/users", `{"username":"ann@example.org","password":"long enough"}`, 409, "already"},
		{"POST", "/api/users/set-password", `{"username":"bob","password":"long enough"}`, 404, "no such account"},
		{"POST", "/api/users/disable", `{"username":"bob"}`, 404, "no such account"},
		{"GET", "/api/users?limit=0", "", 400, "limit"},
		{"POST", "/api/users/import?format=xls", "", 400, "htpasswd, shadow or csv"},
		{"GET", "/api/audit?since=last+tuesday", "", 400, "since: cannot read"},
		{"POST", "/api/tokens", `{"name":"two words"}`, 400, "1 to 64 letters"},
		{"DELETE", "/api/tokens?name=shop", "", 404, "no such token"},
	} {
		status, body := o.ask(t, one.method, one.path, one.question, nil)
		if status != one.status || !strings.Contains(body, one.says) {
			t.Errorf("%s %s %.60s: %d %s, want %d and %q", one.method, one.path, one.question, status, body, one.status, one.says)
		}
		if strings.Contains(body, "accounts:") || strings.Contains(body, "control:") || strings.Contains(body, "lists:") {
			t.Errorf("%s tells of our packages: %s", one.path, body)
		}
	}
	if what, _, _ := o.recorded(t); what != "user-add" {
		t.Errorf("%s is on record", what)
	}
}

func TestOnlyWhatSaysThatItIsJSONIsRead(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		r, err := http.NewRequestWithContext(t.Context(), "PUT", "http://authguard/api/mode", strings.NewReader(`{"mode":"on","reason":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		if status, body := o.do(t, r, nil); status != http.StatusUnsupportedMediaType || o.Mode.On() {
			t.Errorf("%q: %d %s, mode on: %v", kind, status, body, o.Mode.On())
		}
	}
}

func TestTheModeIsForcedForATimeAndReleased(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	var m struct {
		On    bool
		Force captchamode.Override
	}
	o.mustAsk(t, "PUT", "/api/mode", `{"mode":"on","for":"10m","reason":"drill"}`, &m)
	if !m.On || m.Force.State != captchamode.ForcedOn || m.Force.Why != "drill" || !m.Force.Until.Equal(o.Clock.Now().Add(10*time.Minute)) {
		t.Errorf("forced: %+v", m)
	}
	o.mustAsk(t, "PUT", "/api/mode", `{"mode":"auto"}`, &m)
	if m.On || o.Mode.On() {
		t.Errorf("released: %+v", m)
	}
	o.mustAsk(t, "PUT", "/api/mode", `{"mode":"off","reason":"x"}`, nil)
	var status map[string]any
	o.mustAsk(t, "GET", "/api/mode", "", &status)
	if status["on"] != false || status["level"] != "calm" || status["force"].(map[string]any)["word"] != "off" {
		t.Errorf("status: %v", status)
	}
}

// explainAnswer is what of an explanation the tests look at.
type explainAnswer struct {
	Account, Decision, Client, Listed, Summary string
	Open                                       bool
	Reasons                                    []struct{ Code, Text string }
	Limits                                     []struct {
		Subject     string
		Used, Limit int
		Action      string
		Full        bool
	}
	Words []string
}

func TestExplainSaysWhyAndUnlockMakesRoom(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for range 5 {
		o.Wrong(t, "ann", "192.0.2.7")
		o.Clock.Advance(time.Minute)
	}
	var e explainAnswer
	o.mustAsk(t, "GET", "/api/explain?account=Ann", "", &e)
	if e.Account != "ann" || e.Decision != "challenge" || e.Open || len(e.Limits) != 2 {
		t.Errorf("%+v", e)
	}
	if l := e.Limits[0]; l.Subject != "account" || l.Used != 5 || l.Limit != 5 || l.Action != "challenge" || !l.Full {
		t.Errorf("%+v", l)
	}
	if e.Reasons[0].Code != "limit:account" || e.Words[0] != e.Summary || len(e.Words) < 4 {
		t.Errorf("%+v", e)
	}
	o.mustAsk(t, "POST", "/api/unlock", `{"account":"ann","address":"192.0.2.7"}`, nil)
	for _, query := range []string{"account=ann", "address=192.0.2.7", "account=ann&address=192.0.2.7"} {
		o.mustAsk(t, "GET", "/api/explain?"+query, "", &e)
		if e.Decision != "proceed" || !e.Open {
			t.Errorf("%s after unlocking: %+v", query, e)
		}
	}
	if e.Client != "unknown" {
		t.Errorf("client: %q", e.Client)
	}
}

func TestAListedRangeIsInForceAtOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	inside := netip.MustParseAddr("192.0.2.77")
	o.mustAsk(t, "POST", "/api/lists", `{"cidr":"192.0.2.0/24","verdict":"block","for":"1h","note":"scan"}`, nil)
	if o.Lists.Look(inside, o.Clock.Now()) != guard.Blocked {
		t.Error("not blocked")
	}
	var all struct {
		Lists []struct {
			CIDR, Verdict, Note, By string
			Expires                 time.Time
		}
	}
	o.mustAsk(t, "GET", "/api/lists", "", &all)
	if len(all.Lists) != 1 || all.Lists[0].CIDR != "192.0.2.0/24" || all.Lists[0].Note != "scan" || !strings.HasPrefix(all.Lists[0].By, "cli:") {
		t.Errorf("%+v", all)
	}
	if got := all.Lists[0].Expires; !got.Equal(o.Clock.Now().Add(time.Hour)) {
		t.Errorf("expires %v", got)
	}
	var e explainAnswer
	o.mustAsk(t, "GET", "/api/explain?address=192.0.2.77", "", &e)
	if e.Listed != "blocked" || e.Decision != "block" {
		t.Errorf("%+v", e)
	}
	if status, body := o.ask(t, "DELETE", "/api/lists?cidr=192.0.2.77", "", nil); status != 404 || !strings.Contains(body, "192.0.2.0/24") {
		t.Errorf("a part of it: %d %s", status, body)
	}
	o.mustAsk(t, "DELETE", "/api/lists?cidr=192.0.2.0/24", "", nil)
	if o.Lists.Look(inside, o.Clock.Now()) != guard.NotListed {
		t.Error("still listed")
	}
}

func TestANewPasswordForgetsThePlaces(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mustAsk(t, "POST", "/api/users", `{"username":"ann","password":"long enough"}`, nil)
	for _, one := range []struct{ path, question string }{
		{"/api/users/set-password", `{"username":"ann","password":"another one"}`},
		{"/api/users/disable", `{"username":"ann"}`},
		{"/api/unlock", `{"account":"ann","known_clients":true}`},
		{"/api/forget", `{"account":"ann","address":"192.0.2.7"}`},
	} {
		if !o.Right(t, "ann", "192.0.2.7") || o.Status(t, "ann", "192.0.2.7") != trusted.Known {
			t.Fatal("the place is not known")
		}
		o.mustAsk(t, "POST", one.path, one.question, nil)
		if got := o.Status(t, "ann", "192.0.2.7"); got != trusted.Unknown {
			t.Errorf("after %s the place is %v", one.path, got)
		}
		o.Clock.Advance(time.Minute)
	}
}

func TestUsersComePageByPage(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, name := range []string{"cid", "ann", "bob"} {
		o.mustAsk(t, "POST", "/api/users", `{"username":"`+name+`","password":"long enough"}`, nil)
	}
	type page struct {
		Users []struct{ Username, Role string }
		Next  string
	}
	var names []string
	for after := ""; ; {
		var p page
		o.mustAsk(t, "GET", "/api/users?limit=2&after="+after, "", &p)
		for _, u := range p.Users {
			names = append(names, u.Username+" "+u.Role)
		}
		if after = p.Next; after == "" {
			break
		}
	}
	if got := strings.Join(names, ", "); got != "ann user, bob user, cid user" {
		t.Error(got)
	}
}

func TestTheOverviewNamesWhoFails(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for range 4 {
		o.Wrong(t, "ann", "192.0.2.7")
	}
	o.tops.Handle(o.Events())
	var v struct {
		Addresses []struct {
			Name              string
			Failures, Stopped int
			Next              string
		}
		Accounts []struct{ Name string }
		Warnings []any
	}
	for _, path := range []string{"/api/overview", "/api/status"} {
		o.mustAsk(t, "GET", path, "", &v)
		if len(v.Addresses) != 1 || v.Addresses[0].Name != "192.0.2.7" || v.Addresses[0].Failures+v.Addresses[0].Stopped != 4 || v.Addresses[0].Next != "proceed" {
			t.Errorf("addresses: %+v", v.Addresses)
		}
		if len(v.Accounts) != 1 || v.Accounts[0].Name != "ann" || len(v.Warnings) != 0 {
			t.Errorf("accounts: %+v, warnings %v", v.Accounts, v.Warnings)
		}
	}
}

func TestTheAuditIsFoundByAnyNameOfAnAccount(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mustAsk(t, "POST", "/api/users", `{"username":"ann","email":"ann@example.org","password":"long enough"}`, nil)
	o.mustAsk(t, "POST", "/api/users", `{"username":"bob","password":"long enough"}`, nil)
	var a struct {
		Audit []struct{ Decision, Account string }
	}
	o.mustAsk(t, "GET", "/api/audit?account=Ann@Example.org&kind=admin&limit=5", "", &a)
	if len(a.Audit) != 1 || a.Audit[0].Account != "ann" || a.Audit[0].Decision != "user-add" {
		t.Errorf("%+v", a)
	}
}

// Every path of the API, and what monitoring asks, stands in a document.
func TestEveryPathOfTheAPIIsInTheDocuments(t *testing.T) {
	t.Parallel()
	documents, e := doctest.All(t), web.NewEcho("", nil, quiet)
	(&admin.Site{API: new(admin.API), Login: new(web.Login), Metrics: http.NotFoundHandler()}).Routes(e)
	n := 0
	for _, r := range e.Routes() {
		if api := strings.HasPrefix(r.Path, "/api/"); api || strings.HasSuffix(r.Path, "z") || r.Path == "/metrics" {
			n++
			if !doctest.Tells(documents, r.Method, r.Path) {
				t.Errorf("%s %s is in no document", r.Method, r.Path)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d paths", n)
	}
}
