package admin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
)

// The JSON of an explanation is a contract: programs read it here and from
// `authguard explain --json`.
func TestTheWireFormOfAnExplanationStays(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.mustAsk(t, "POST", "/api/users", `{"username":"ann","email":"ann@example.org","password":"long enough"}`, nil)
	o.mustAsk(t, "POST", "/api/users", `{"username":"new","password":"long enough","must_change":true,"role":"admin"}`, nil)
	o.mustAsk(t, "POST", "/api/users", `{"username":"fresh","password":"long enough","must_change":true}`, nil)
	o.mustAsk(t, "POST", "/api/users", `{"username":"off","password":"long enough"}`, nil)
	o.mustAsk(t, "POST", "/api/users/disable", `{"username":"off"}`, nil)
	o.mustAsk(t, "POST", "/api/lists", `{"cidr":"203.0.113.0/24","verdict":"block"}`, nil)
	o.mustAsk(t, "POST", "/api/lists", `{"cidr":"203.0.113.9","verdict":"allow"}`, nil)
	o.Right(t, "ann", "192.0.2.1")
	for range 7 {
		o.Wrong(t, "ann", "192.0.2.66")
		o.Clock.Advance(time.Second)
	}
	for range 4 {
		o.Wrong(t, "bob", "2001:db8::1")
	}
	golden := func(name, query string) {
		t.Helper()
		_, got := o.ask(t, "GET", "/api/explain?"+query, "", nil)
		path := filepath.Join("testdata", "explain-"+name+".json")
		if os.Getenv("UPDATE") != "" {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n got %s\nwant %s", name, err, got, want)
		}
	}
	golden("account", "account=Ann@Example.org")
	golden("address", "address=192.0.2.66")
	golden("both", "account=ann&address=192.0.2.66")
	golden("known-place", "account=ann&address=192.0.2.1")
	golden("delayed", "account=bob&address=2001:db8::1")
	golden("unknown", "account=nobody&address=198.51.100.1")
	golden("must-change", "account=new")
	if _, got := o.ask(t, "GET", "/api/explain?account=fresh", "", nil); !strings.Contains(got, "must be changed at the next sign-in") {
		t.Errorf("the public door asks users to choose another password, too, but %s", got)
	}
	golden("disabled", "account=off")
	golden("blocked", "account=ann&address=203.0.113.1")
	golden("allowed", "account=ann&address=203.0.113.9")
	p := o.Policy()
	p.Account = []guard.Limit{{Failures: 5, Window: 36 * time.Hour, Action: guard.Block}, {Failures: 40, Window: 14 * 24 * time.Hour, Action: guard.Block, Monitor: true}}
	if err := o.SetPolicy(p); err != nil {
		t.Fatal(err)
	}
	golden("refused", "account=ann")
	if err := o.Mode.Force(captchamode.Override{
		State: captchamode.ForcedOn, Who: "test", Why: "test", Since: o.Clock.Now(), Until: o.Clock.Now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	golden("mode-on", "account=ann&address=198.51.100.1")
}
