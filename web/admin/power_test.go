package admin_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/audit"
	"authguard/internal/codes"
	"authguard/internal/control"
	"authguard/internal/operation"
	"authguard/internal/sessions"
	"authguard/internal/testing/world"
)

// attempts are what a program could try on the administrator whose name is put in for %s,
// at every path of the API that changes something. A path that is about no account has
// nothing to try, and says so with an empty list.
var attempts = map[string][]string{
	"PUT /api/mode": {}, "PUT /api/policy": {}, "PUT /api/policy/limits": {}, "POST /api/lists": {}, "DELETE /api/lists": {}, "DELETE /api/lists/many": {}, "POST /api/lists/import": {}, "POST /api/lists/prolong": {},
	"POST /api/alerts/test": {}, "POST /api/probe": {},
	"POST /api/attacks/:id/reset":         {`{"reason":"x"}`, `{"account":"%s","reason":"x"}`, `{"account":"%s","what":["password"],"reason":"x"}`},
	"POST /api/unlock":                    {`{"account":"%s"}`, `{"account":"%s","address":"192.0.2.7"}`, `{"account":"%s","known_clients":true}`, `{"account":"%s","address":"192.0.2.1","known_clients":true}`},
	"POST /api/forget":                    {`{"account":"%s"}`, `{"account":"%s","address":"192.0.2.1"}`},
	"POST /api/users":                     {`{"username":"%s","password":"another long one"}`, `{"username":"eve","password":"another long one","role":"admin"}`, `{"username":"eve","email":"%s","password":"another long one"}`},
	"POST /api/users/set-password":        {`{"username":"%s","password":"another long one"}`, `{"username":"%s","password":"another long one","must_change":true}`},
	"POST /api/users/ask-password":        {`{"username":"%s","reason":"x"}`},
	"POST /api/users/groups":              {`{"username":"%s","groups":["ops"]}`, `{"username":"%s","groups":[]}`},
	"POST /api/users/disable":             {`{"username":"%s"}`, `{"username":"%s","enable":true}`},
	"POST /api/users/create-code":         {`{"username":"%s","for":"24h"}`},
	"POST /api/users/import":              {"?format=csv username,password\n%s,another long one\n", "?format=htpasswd %s:$2y$04$tcGAv8JhTJCpbGPkVWYb2OSSvRcGRcbE7IRTWs9AgM4EN8Ha5GuG2\n"},
	"POST /api/tokens":                    {`{"name":"more","scopes":["admin"]}`, `{"name":"more","scopes":["read"]}`, `{"name":"more"}`},
	"DELETE /api/users":                   {"?username=%s", "?username=%s&reason=x"},
	"DELETE /api/users/sessions":          {"?username=%s"},
	"DELETE /api/tokens":                  {"?name=theirs", "?name=shop"},
	"POST /api/administrators":            {`{"username":"eve","reason":"x"}`, `{"username":"%s","reason":"x"}`},
	"DELETE /api/administrators":          {"?username=%s&reason=x"},
	"POST /api/administrators/password":   {`{"username":"%s","reason":"x"}`},
	"POST /api/administrators/mfa":        {`{"username":"%s","reason":"x"}`},
	"DELETE /api/administrators/sessions": {"?username=%s"},
}

// power is all of somebody that another scope's holder must not touch.
func (c *counter) power(t *testing.T, name string) string {
	t.Helper()
	a := c.account(t, name)
	has, err := c.mfa.Of(t.Context(), a.ID)
	c.must(t, err)
	login, _, err := c.accounts.FindForLogin(t.Context(), name)
	c.must(t, err)
	running, err := c.control.Accounts.SessionsOf(t.Context(), name)
	c.must(t, err)
	stands, err := c.Guard.Explain(t.Context(), name, netip.MustParseAddr("192.0.2.7"))
	c.must(t, err)
	counted := 0
	for _, line := range stands.Lines {
		if line.Subject == guard.OnAccount || line.Subject == guard.OnPair {
			counted += int(line.Used)
		}
	}
	admins, err := c.accounts.Admins(t.Context())
	c.must(t, err)
	issued, err := c.control.Accounts.Tokens.All(t.Context())
	c.must(t, err)
	var codes int
	c.must(t, c.db.QueryRow(`SELECT count(*) FROM verification_codes WHERE account = $1`, a.Username).Scan(&codes))
	return fmt.Sprintln(a.Groups, a.Role, a.Disabled, a.Version, login.Password.Hash, has.TOTP != nil, len(has.Passkeys), has.Recovery, len(running), counted,
		c.Status(t, name, "192.0.2.1"), len(admins), len(issued), codes)
}

// Whoever has a token for support must not become an administrator, nor make guessing at
// one's password free (Grafana CVE-2022-31107 and its like: one path that forgot to ask).
func TestNoScopeReachesAnAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.enrolled(t)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "root", Email: "root@example.org", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	for range 4 {
		c.Wrong(t, "root", "192.0.2.7")
		c.Wrong(t, "ann", "192.0.2.7")
	}
	c.keeps(t, ":id", "root", "ann") // which the path says as it stands
	for _, name := range []string{"root", "ann"} {
		c.Right(t, name, "192.0.2.1")
	}
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"theirs","scopes":["admin"]}`, nil)
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"shop"}`, nil)
	var all []string
	for _, scope := range operation.Scopes() {
		if scope != operation.Admin {
			all = append(all, `"`+string(scope)+`"`)
		}
	}
	token := c.token(t, "support", strings.Join(all, ","))
	paths := c.changingAPI()
	for _, path := range paths {
		tries, known := attempts[path]
		if !known {
			t.Errorf("%s: say in attempts what it could do to an administrator", path)
		}
		for _, try := range tries {
			for _, name := range []string{"root", "ROOT", "root@example.org", "Ann"} {
				owner := "root"
				if name == "Ann" {
					owner = "ann"
				}
				before := c.power(t, owner)
				method, to, _ := strings.Cut(path, " ")
				question := strings.ReplaceAll(try, "%s", name)
				if query, body, ok := strings.Cut(question, " "); strings.HasPrefix(question, "?") {
					to, question = to+query, ""
					if ok {
						question = body
					}
				}
				status, body := c.bearer(t, token, method, to, question)
				if after := c.power(t, owner); after != before {
					t.Errorf("%s %s, answered %d %s:\nbefore %safter  %s", path, question, status, body, before, after)
				}
				if status == http.StatusOK && !strings.Contains(body, "problems") {
					t.Errorf("%s %s is answered %s", path, question, body)
				}
			}
		}
	}
	if eve, err := c.accounts.Get(t.Context(), "eve"); err == nil && (eve.Role == accounts.Admin || eve.Email != "") {
		t.Errorf("eve: %+v", eve)
	}
}

// changingAPI are the paths of the API that change something, with their methods.
func (c *counter) changingAPI() (all []string) {
	for _, r := range c.routes {
		if strings.HasPrefix(r.Path, "/api/") && !strings.HasPrefix(r.Path, "/api/security") && slices.Contains([]string{"POST", "PUT", "DELETE", "PATCH"}, r.Method) {
			all = append(all, r.Method+" "+r.Path)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Groups are power in the apps behind a gateway: who resets passwords has not got it.
func TestAccountsInGroupsNeedTheirScope(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	for name, groups := range map[string][]string{"gina": {"ops"}, "hans": nil} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword, Groups: groups})
		c.must(t, err)
	}
	without, with := c.token(t, "without", `"accounts"`), c.token(t, "with", `"accounts","groups"`)
	alone := c.token(t, "alone", `"groups"`)
	for i, one := range []struct {
		path, question string
		refused        bool
	}{
		{"/api/users/set-password", `{"username":"hans","password":"another long one"}`, false},
		{"/api/users/set-password", `{"username":"gina","password":"another long one"}`, true},
		{"/api/users/create-code", `{"username":"gina"}`, true},
		{"/api/users/disable", `{"username":"gina"}`, true},
		{"/api/users/groups", `{"username":"gina","groups":[]}`, true},
		{"/api/users/groups", `{"username":"hans","groups":["ops"]}`, true},
		{"/api/users", `{"username":"ida","password":"another long one"}`, false},
		{"/api/users", `{"username":"jan","password":"another long one","groups":["ops"]}`, true},
		{"/api/users/sessions?username=ida", "", false},
		{"/api/users/sessions?username=hans", "", true},
		{"/api/users?username=ida", "", false},
		{"/api/users?username=hans", "", true},
	} {
		method := "POST"
		if one.question == "" {
			method = "DELETE"
		}
		status, body := c.bearer(t, without, method, one.path, one.question)
		if refused := status == http.StatusForbidden && strings.Contains(body, "scope groups"); refused != one.refused {
			t.Errorf("%d. %s %s with accounts: %d %s", i, one.path, one.question, status, body)
		}
		if status, body := c.bearer(t, alone, method, one.path, one.question); status != http.StatusForbidden {
			t.Errorf("%d. %s %s with groups alone: %d %s", i, one.path, one.question, status, body)
		}
		if one.refused {
			if status, body := c.bearer(t, with, method, one.path, one.question); status >= 300 {
				t.Errorf("%d. %s %s with both: %d %s", i, one.path, one.question, status, body)
			}
		}
	}
	const file = "username,groups,password\nkai,ops,another long one\n"
	if _, body := c.bearer(t, without, "POST", "/api/users/import?format=csv", file); !strings.Contains(body, `"line":2,"text":"groups need the scope groups"`) {
		t.Errorf("an import with accounts: %s", body)
	}
	if _, body := c.bearer(t, with, "POST", "/api/users/import?format=csv", file); !strings.Contains(body, `"imported":1`) {
		t.Errorf("an import with both: %s", body)
	}
}

// shop adds a realm to an office.
func (o *office) shop(t *testing.T) *control.Control {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	w := world.New(t, world.Options{Start: o.Clock.Now()})
	table, err := accounts.New(t.Context(), accounts.Config{DB: o.db, Realm: "shop", Normalise: guard.NormaliseAccount, Hash: o.hash, Now: o.Clock.Now})
	must(err)
	held, err := sessions.New(sessions.Config{DB: o.db, Realm: "shop", Now: o.Clock.Now})
	must(err)
	other := o.config
	other.Realm, other.Administration, other.Guard, other.Mode, other.Accounts, other.Sessions, other.Codes = "shop", nil, w.Guard, w.Mode, table, held, codes.New(o.db, o.Clock.Now).In("shop")
	shop, err := control.Beside(other)
	must(err)
	t.Cleanup(shop.Close)
	o.api.Realms = func() []*control.Control { return []*control.Control{o.control, shop} }
	return shop
}

func TestATokenOfOneRealmIsGoodNowhereElse(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.shop(t)
	const secret = "whom-only-the-default-realm-knows"
	c.mustAsk(t, "POST", "/api/users", `{"username":"`+secret+`","password":"long enough"}`, nil)
	c.mustAsk(t, "POST", "/api/unlock", `{"account":"`+secret+`"}`, nil)
	c.mustAsk(t, "POST", "/api/lists", `{"cidr":"203.0.113.0/24","verdict":"block","note":"`+secret+`"}`, nil)
	c.mustAsk(t, "PUT", "/api/mode", `{"mode":"on","for":"1h","reason":"`+secret+`"}`, nil)
	c.mustAsk(t, "PUT", "/api/mode", `{"mode":"auto"}`, nil)
	c.Wrong(t, secret, "192.0.2.7")
	var made struct{ Token string }
	var all []string
	for _, scope := range operation.Scopes() {
		if !slices.Contains(operation.OverAll(), scope) {
			all = append(all, `"`+string(scope)+`"`)
		}
	}
	c.mustAsk(t, "POST", "/api/tokens?realm=shop", `{"name":"ci","scopes":[`+strings.Join(all, ",")+`]}`, &made)
	within := map[string]bool{}
	for _, r := range c.routes {
		if !strings.HasPrefix(r.Path, "/api/") {
			continue
		}
		for _, query := range []string{"?realm=default", "?realm=shop&realm=default", "?realm=default&realm=shop", "?realm=", "?realm=nowhere"} {
			if status, body := c.bearer(t, made.Token, r.Method, r.Path+query, `{"account":"`+secret+`"}`); status != http.StatusForbidden {
				t.Errorf("%s %s%s: %d %s", r.Method, r.Path, query, status, body)
			}
		}
		for _, query := range []string{"", "?realm=shop", "?account=" + secret, "?address=192.0.2.7"} {
			status, body := c.bearer(t, made.Token, r.Method, r.Path+query, "")
			within[r.Path] = within[r.Path] || status == http.StatusOK
			if told := strings.ReplaceAll(body, `"account":"`+secret+`"`, ""); strings.Contains(told, secret) && !strings.Contains(query, secret) {
				t.Errorf("%s %s%s tells of another realm: %d %s", r.Method, r.Path, query, status, body)
			}
		}
	}
	for path, want := range map[string]bool{
		"/api/status": true, "/api/users": true, "/api/audit": true, "/api/lookup": true, "/api/mode": true, "/api/attacks": true, "/api/policy": true,
		"/api/lists": false, "/api/edge": false, "/api/alerts": false, "/api/tokens": false, "/api/administrators": false, "/api/probe": false,
	} {
		if within[path] != want {
			t.Errorf("%s is open to a token of one realm: %t", path, within[path])
		}
	}
	c.mustAsk(t, "POST", "/api/users?realm=shop", `{"username":"ann","password":"long enough"}`, nil)
	c.admit(t, "ann", accounts.Admin, false)
	before := c.power(t, "ann")
	if status, body := c.bearer(t, made.Token, "POST", "/api/users/disable", `{"username":"ann"}`); status != http.StatusOK || c.power(t, "ann") != before {
		t.Errorf("without a realm it is not the token's own: %d %s", status, body)
	}
	rows, err := c.api.Audit.Recent(t.Context(), audit.Filter{Kind: audit.KindAdmin, Realm: "shop", Limit: 1})
	if err != nil || len(rows) != 1 || rows[0].Decision != "user-disable" || rows[0].Who != "token:ci" {
		t.Errorf("on record: %+v, %v", rows, err)
	}
}

func TestATokenOfOneRealmHasNoScopeOverAll(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.shop(t)
	for _, scope := range operation.OverAll() {
		for _, realm := range []string{"shop", "default"} {
			if status, body := c.ask(t, "POST", "/api/tokens?realm="+realm, `{"name":"x","scopes":["`+string(scope)+`"]}`, nil); status != http.StatusBadRequest || !strings.Contains(body, "apply to all realms") {
				t.Errorf("%s in %s: %d %s", scope, realm, status, body)
			}
		}
	}
	var made struct {
		Token    string
		Confined bool
	}
	c.mustAsk(t, "POST", "/api/tokens?realm=default", `{"name":"x","scopes":["read"]}`, &made)
	if status, body := c.bearer(t, made.Token, "GET", "/api/users?realm=shop", ""); !made.Confined || status != http.StatusForbidden {
		t.Errorf("of the default realm alone: %t %d %s", made.Confined, status, body)
	}
	c.Clock.Advance(time.Second)
	if status, body := c.bearer(t, made.Token, "GET", "/api/users", ""); status != http.StatusOK {
		t.Errorf("at home: %d %s", status, body)
	}
	c.mustAsk(t, "POST", "/api/tokens", `{"name":"y","scopes":["read"]}`, &made)
	if status, body := c.bearer(t, made.Token, "GET", "/api/users?realm=shop", ""); status != http.StatusOK {
		t.Errorf("of all realms: %d %s", status, body)
	}
}

// A browser that was left open must not let anybody in as another administrator: every form
// of every page is sent with an old session, about bob.
func TestNoFormOfAnOldSessionReachesAnotherAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	c.admit(t, "ann", accounts.Admin, false)
	c.Clock.Advance(10 * time.Minute)
	hurry := []string{"/unlock", "/forget", "/administrators/sessions/end", "/administrators/tokens/revoke", "/password"}
	for _, path := range c.changing("/") {
		if slices.Contains(append(hurry, signIn...), path) || strings.HasPrefix(path, "/security") {
			continue
		}
		before := c.power(t, "bob")
		f := url.Values{"csrf": {c.csrf(t, "/security")}}
		for _, name := range []string{"username", "account", "name", "user", "accounts", "all"} {
			f.Set(name, "bob")
		}
		for name, value := range map[string]string{"reason": "x", "for": "1h", "password": "another long one", "role": "admin", "enable": "", "groups": "ops", "do": "disable"} {
			f.Set(name, value)
		}
		status, _, body := c.post(t, path, f)
		if after := c.power(t, "bob"); after != before {
			t.Errorf("%s, answered %d:\nbefore %safter  %s%s", path, status, before, after, body)
		}
	}
	c.post(t, "/pass", url.Values{"account": {"bob"}, "for": {"1h"}, "csrf": {c.csrf(t, "/security")}})
	if _, _, body := c.get(t, "/"); !strings.Contains(body, "Sign in again first") {
		t.Error("a one-time code: the page does not say why not")
	}
}

// Enumeration: whoever may not see the administrators learns nothing about a name from
// the paths about them, neither from outside nor with a token for all but that.
func TestThePathsOfAdministratorsTellNobodyWhoIsOne(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "ann", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	var all []string
	for _, scope := range operation.Scopes() {
		if scope != operation.Admin {
			all = append(all, `"`+string(scope)+`"`)
		}
	}
	support := c.token(t, "support", strings.Join(all, ","))
	n := 0
	for _, r := range c.routes {
		if !strings.HasPrefix(r.Path, "/administrators") && !strings.HasPrefix(r.Path, "/api/administrators") && !strings.HasPrefix(r.Path, "/api/security") {
			continue
		}
		n++
		told := func(token, name string) string {
			t.Helper()
			c.browser = newBrowser(t)
			q := c.request(t, r.Method, r.Path+"?username="+name+"&reason=x", `{"username":"`+name+`","reason":"x"}`, "application/json")
			if token != "" {
				q.Header.Set("Authorization", "Bearer "+token)
			}
			status, to, body := c.send(t, q)
			if status == http.StatusOK {
				t.Errorf("%s %s is answered %s", r.Method, r.Path, body)
			}
			return fmt.Sprint(status, strings.ReplaceAll(to, name, "NAME"), strings.ReplaceAll(body, name, "NAME"))
		}
		for _, token := range []string{"", support} {
			if ann, nobody := told(token, "ann"), told(token, "dora"); ann != nobody {
				t.Errorf("%s %s tells ann from nobody: %s, not %s", r.Method, r.Path, ann, nobody)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d paths", n)
	}
}

// Nor from those about accounts: to a token for accounts an administrator is nobody, whatever
// it asks. (It was 403 for an administrator and 404 for nobody.)
func TestATokenForAccountsCannotTellWhoIsAnAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "ann", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	c.keeps(t, "a1", "ann", "dora")
	support := c.token(t, "support", `"accounts","groups"`)
	for path, question := range map[string]string{
		"/api/users/set-password": `{"username":"NAME","password":"another long one"}`, "/api/users/ask-password": `{"username":"NAME"}`,
		"/api/users/groups": `{"username":"NAME","groups":["ops"]}`, "/api/users/disable": `{"username":"NAME"}`, "/api/users/create-code": `{"username":"NAME"}`,
		"/api/attacks/a1/reset":    `{"account":"NAME","what":["password"],"reason":"x"}`,
		"/api/users?username=NAME": "",
	} {
		method := "POST"
		if question == "" {
			method = "DELETE"
		}
		told := func(name string) string {
			status, body := c.bearer(t, support, method, strings.ReplaceAll(path, "NAME", name), strings.ReplaceAll(question, "NAME", name))
			if !strings.Contains(body, "no such account") {
				t.Errorf("%s about %s: %d %s", path, name, status, body)
			}
			return fmt.Sprint(status)
		}
		if ann, nobody := told("ann"), told("dora"); ann != nobody {
			t.Errorf("%s tells ann from nobody: %s, not %s", path, ann, nobody)
		}
	}
}
