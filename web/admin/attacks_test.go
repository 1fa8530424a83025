package admin_test

import (
	"encoding/csv"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/trusted"
)

// keeps has an attack that is over, in which accounts were lost.
func (o *office) keeps(t *testing.T, id string, lost ...string) {
	t.Helper()
	at := o.Clock.Now().UnixMilli()
	if _, err := o.db.Exec(`INSERT INTO attacks (id, realm, kind, began_at, last_at, ended_at) VALUES ($1, 'default', 'site', $2, $2, $2)`, id, at); err != nil {
		t.Fatal(err)
	}
	for _, name := range lost {
		if _, err := o.db.Exec(`INSERT INTO attack_logins (attack, account, address, why, failures, first_at, last_at) VALUES ($1, $2, '192.0.2.1', 'failures', 5, $3, $3)`, id, name, at); err != nil {
			t.Fatal(err)
		}
	}
}

// lostAccounts has the site attacked, bob and carl lost, and dora log in from a new place.
func (o *office) lostAccounts(t *testing.T) (id string) {
	t.Helper()
	see := func(account, address string, outcome guard.Outcome) {
		o.attacks.Handle([]guard.Event{{At: o.Clock.Now(), Account: account, Address: netip.MustParseAddr(address), Action: guard.Proceed, Settled: true, Outcome: outcome, ClientEvent: guard.ClientEvent{NewClient: outcome == guard.Succeeded}}})
	}
	o.attacks.HandleSwitch(events.ModeSwitch{At: o.Clock.Now(), Attacked: true})
	for _, name := range []string{"bob", "carl", "=cmd()"} {
		see(name, "198.51.100.1", guard.Failed)
	}
	see("bob", "198.51.100.2", guard.Succeeded)
	see("carl", "198.51.100.1", guard.Succeeded)
	see("dora", "198.51.100.3", guard.Succeeded)
	see("=cmd()", "198.51.100.4", guard.Succeeded)
	if err := o.attacks.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all control.Attacks
	o.mustAsk(t, "GET", "/api/attacks", "", &all)
	if len(all.Attacks) != 1 || all.Total != 1 || !all.Attacks[0].Running() || all.Attacks[0].Lost != 3 || all.Attacks[0].Open != 3 || all.Attacks[0].Strange != 1 {
		t.Fatalf("%+v", all)
	}
	return all.Attacks[0].ID
}

func TestAnAttacksAccountsAreResetOneByOneAndTogether(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, name := range []string{"bob", "carl", "dora"} {
		if _, err := o.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: "long enough"}); err != nil {
			t.Fatal(err)
		}
		o.Right(t, name, "198.51.100.2")
	}
	id := o.lostAccounts(t)
	reset := func(question string) (answer struct {
		Accounts []accounts.Resetting
		Left     int
	}) {
		t.Helper()
		o.mustAsk(t, "POST", "/api/attacks/"+id+"/reset", question, &answer)
		return answer
	}
	for question, says := range map[string]string{`{"account":"bob"}`: "missing reason", `{"account":"nobody","reason":"x"}`: "had no sign-in from an unknown client", `{"what":["all"],"reason":"x"}`: "must be one of sessions, known-clients, password"} {
		if status, body := o.ask(t, "POST", "/api/attacks/"+id+"/reset", question, nil); status != http.StatusBadRequest || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", question, status, body)
		}
	}
	if status, body := o.ask(t, "GET", "/api/attacks/none", "", nil); status != http.StatusNotFound || !strings.Contains(body, "no such attack") {
		t.Errorf("%d %s", status, body)
	}
	one := reset(`{"id":"none","account":"bob","what":["known-clients"],"reason":"he called"}`).Accounts[0] // the path's ID counts
	if !slices.Equal(one.Done, []string{"known-clients"}) || len(one.Problems) > 0 || o.Status(t, "bob", "198.51.100.2") == trusted.Known {
		t.Errorf("%+v", one)
	}
	if what, _, subject := o.recorded(t); what != "attack-reset" || subject != "bob" {
		t.Errorf("on record: %s %s", what, subject)
	}
	if bob, _ := o.accounts.Get(t.Context(), "bob"); bob.MustChange {
		t.Error("more was done than was asked")
	}
	all := reset(`{"reason":"all of them"}`)
	if len(all.Accounts) != 3 || all.Left != 0 {
		t.Fatalf("%+v", all)
	}
	for _, one := range all.Accounts {
		switch want := map[string][]string{"bob": {"sessions", "password"}, "carl": attacks.Resets(), "=cmd()": {"sessions", "known-clients"}}[one.Account]; {
		case !slices.Equal(one.Done, want):
			t.Errorf("%+v, want %v", one, want)
		case one.Account == "=cmd()" && (len(one.Problems) != 1 || !strings.Contains(one.Problems[0], "no such account")):
			t.Errorf("an account that is no more: %+v", one)
		}
	}
	for name, must := range map[string]bool{"bob": true, "carl": true, "dora": false} {
		a, err := o.accounts.Get(t.Context(), name)
		if err != nil || a.MustChange != must || a.NeedsCode != must {
			t.Errorf("%s: %+v %v", name, a, err)
		}
	}
	var report control.AttackReport
	o.mustAsk(t, "GET", "/api/attacks/"+id, "", &report)
	if report.Open != 1 || len(report.Victims) != 4 || report.Victims[1].Account != "bob" || report.Victims[1].Reset("known-clients").Why != "he called" || report.Victims[3].Account != "dora" {
		t.Errorf("%+v", report)
	}
	if again := reset(`{"account":"carl","reason":"once more"}`).Accounts[0]; len(again.Done) != 0 || len(again.Already) != 3 {
		t.Errorf("done twice: %+v", again)
	}
	_, text := o.ask(t, "GET", "/api/attacks/"+id+"?format=csv", "", nil)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 5 || !slices.ContainsFunc(rows, func(r []string) bool { return r[0] == "'=cmd()" && r[2] == "198.51.100.4" }) {
		t.Errorf("%v %q", err, rows)
	}
	if _, text := o.ask(t, "GET", "/api/attacks?format=csv", "", nil); !strings.HasPrefix(text, "id,kind,subject,") || strings.Count(text, "\n") != 2 {
		t.Errorf("%q", text)
	}
}

func TestAllAttacksAreInTheFile(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if _, err := o.db.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1234)
		INSERT INTO attacks (id, realm, kind, subject, began_at, last_at, ended_at) SELECT 'a' || i, 'default', 'account', '=cmd()', 1000 + i/3, 2000, 2000 FROM n`); err != nil {
		t.Fatal(err)
	}
	_, text := o.ask(t, "GET", "/api/attacks?format=csv&limit=5", "", nil)
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(rows) != 1+1234 || rows[1][2] != "'=cmd()" {
		t.Fatalf("%d rows, want a head and 1,234 attacks: %v", len(rows), err)
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		seen[row[0]] = true
	}
	if len(seen) != 1234 {
		t.Errorf("%d different ones", len(seen))
	}
	if _, lines := o.ask(t, "GET", "/api/attacks?format=jsonl", "", nil); strings.Count(lines, "\n") != 1234 || !strings.Contains(lines, `"subject":"=cmd()"`) {
		t.Errorf("%d lines", strings.Count(lines, "\n"))
	}
	if status, body := o.ask(t, "GET", "/api/attacks?format=xml", "", nil); status != http.StatusBadRequest || !strings.Contains(body, "must be csv, jsonl or json") {
		t.Errorf("%d %s", status, body)
	}
}

func TestTheAttackPagesShowAndReset(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for _, name := range []string{"bob", "carl"} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword})
		c.must(t, err)
	}
	if _, _, body := c.get(t, "/attacks"); !strings.Contains(body, "No attacks recorded") {
		t.Error(body)
	}
	id := c.lostAccounts(t)
	if _, _, body := c.get(t, "/"); !strings.Contains(body, `href="/attacks/`+id+`"`) {
		t.Error("Now does not lead there")
	}
	if _, _, body := c.get(t, "/attacks"); !strings.Contains(body, `href="/attacks/`+id+`"`) || !strings.Contains(body, "3 possibly compromised accounts, 3 not secured") {
		t.Error(body)
	}
	path := "/attacks/" + id
	if status, _, _ := c.get(t, "/attacks/none"); status != http.StatusNotFound {
		t.Errorf("an attack that is none: %d", status)
	}
	press := func(account, what string) {
		t.Helper()
		form := map[string][]string{"csrf": {c.csrf(t, path)}, "id": {id}, "accounts": {account}, "what": {what}, "reason": {"logged in to"}, "back": {path}}
		if status, to, body := c.post(t, "/attacks/reset", form); status != http.StatusSeeOther || to != path {
			t.Errorf("%d %s %s", status, to, body)
		}
	}
	for _, none := range []string{"null", "[]", "{", `"bob"`} {
		press(none, "")
		if _, _, body := c.get(t, path); !strings.Contains(body, "Nothing was changed. Select accounts") || strings.Contains(body, "ended <time") {
			t.Errorf("%s: %s", none, body)
		}
	}
	press(`["bob"]`, attacks.Sessions)
	if _, _, body := c.get(t, path); !strings.Contains(body, "All sessions ended:") || strings.Count(body, "Sessions ended <time") != 1 || !strings.Contains(body, "by <") {
		t.Error(body)
	}
	press("", "")
	if _, _, body := c.get(t, path); !strings.Contains(body, "Secured: 3 accounts. Some actions failed (1 problem)") || strings.Count(body, "Password change forced") != 2 {
		t.Error(body)
	}
	if _, _, body := c.get(t, path+"/export?format=csv"); !strings.HasPrefix(body, "account,compromised,") {
		t.Error(body)
	}
}

// Measured before: one click on "Reset", or on "Reset all 13", locked out the administrator who pressed it.
func TestSecuringAnAttacksAccountsLocksOutNoAdministrator(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	for name, role := range map[string]accounts.Role{"eve": accounts.Admin, "bob": accounts.User} {
		_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: name, Password: rightPassword, Role: role})
		c.must(t, err)
	}
	c.keeps(t, "20260314-1155-abcd", "ann", "bob", "eve")
	path := "/attacks/20260314-1155-abcd"
	if _, _, now := c.get(t, "/"); !strings.Contains(now, "<b>3 accounts</b> may be compromised") || !strings.Contains(now, "compromised accounts not secured") {
		t.Error("the dashboard is calm while accounts are to be secured")
	}
	_, _, page := c.get(t, path)
	for _, says := range []string{"Secure selected…", "End your other sessions",
		`<b class="tag">you</b>`, `<b class="tag">administrator</b>`, `value="bob" form="selection" aria-labelledby="account-true-1" checked>`,
		`value="eve" form="selection" aria-labelledby="account-true-2">`} {
		if !strings.Contains(page, says) {
			t.Errorf("the page lacks %q", says)
		}
	}
	if strings.Contains(page, `name="account" value="ann"`) {
		t.Error("the page has a box for its own administrator")
	}
	for do, says := range map[string][]string{
		"secure&account=bob":                         {"Secure 1 account?", "1 account without an email address", `value="[&#34;bob&#34;]"`, `name="back" value="` + path + `"`},
		"secure&account=bob&account=eve&account=ann": {"Secure 2 accounts?", "1 administrator included:", `value="[&#34;bob&#34;,&#34;eve&#34;]"`},
		"sessions&account=bob":                       {"End the sessions of 1 account?", `name="what" value="sessions"`},
		"all":                                        {"Secure 1 account?", "2 administrators left out", `name="accounts" value=""`},
		"secure":                                     {"No accounts selected"},
	} {
		_, _, page := c.get(t, path+"?do="+do)
		for _, one := range says {
			if !strings.Contains(page, one) {
				t.Errorf("?do=%s lacks %q", do, one)
			}
		}
	}
	press := func(account string) (page string) {
		t.Helper()
		form := map[string][]string{"csrf": {c.csrf(t, path)}, "id": {"20260314-1155-abcd"}, "accounts": {account}, "reason": {"attack"}, "back": {path}}
		if status, to, body := c.post(t, "/attacks/reset", form); status != http.StatusSeeOther || to != path {
			t.Errorf("%d %s %s", status, to, body)
		}
		_, _, page = c.get(t, path)
		return page
	}
	if said := press(`["ann"]`); !strings.Contains(said, "This is your own account") && !strings.Contains(said, "this is your own account") {
		t.Error(said)
	}
	if said := press(""); !strings.Contains(said, "2 administrators left out") || !strings.Contains(said, "No undo: ") {
		t.Error(said)
	}
	changes := func(want map[string]bool) {
		t.Helper()
		for name, must := range want {
			if a, err := c.accounts.Get(t.Context(), name); err != nil || a.MustChange != must {
				t.Errorf("%s: %+v %v", name, a, err)
			}
		}
	}
	changes(map[string]bool{"ann": false, "bob": true, "eve": false})
	press(`["eve"]`)
	changes(map[string]bool{"ann": false, "eve": true})
}
