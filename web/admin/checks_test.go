package admin_test

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"authguard/internal/accounts"
	"authguard/internal/control"
)

// An attacker with a token for support pads an administrator's name: it is then too long for the look-up of the account,
// but not for the operation, which trims it.
func TestSpaceAroundAnAdministratorsNameUnlocksNothing(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "root", Password: rightPassword, Role: accounts.Admin})
	c.must(t, err)
	c.Right(t, "root", "192.0.2.1")
	for range 4 {
		c.Wrong(t, "root", "192.0.2.7")
	}
	token, before := c.token(t, "support", `"unlock"`), c.power(t, "root")
	for _, name := range []string{"root ", strings.Repeat(" ", 300) + "root", "root" + strings.Repeat(`\n`, 300)} {
		for path, more := range map[string]string{"/api/unlock": `"address":"192.0.2.7"`, "/api/forget": `"address":""`} {
			if status, body := c.bearer(t, token, "POST", path, `{"account":"`+name+`",`+more+`}`); status != http.StatusForbidden {
				t.Errorf("%s: %d %s", path, status, body)
			}
			if after := c.power(t, "root"); after != before {
				t.Fatalf("%s:\nbefore %safter  %s", path, before, after)
			}
		}
	}
}

// A client without a valid token does not learn why the database failed.
func TestAFailingDatabaseIsNotDescribedToClientsWithoutAToken(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	if _, err := c.db.ExecContext(t.Context(), `DROP TABLE api_tokens`); err != nil {
		t.Fatal(err)
	}
	status, body := c.bearer(t, "authguard_admin_AAAAAAAAAAAAAAAAAAAAAAAAAA", "GET", "/api/status", "")
	if status != http.StatusInternalServerError || strings.Contains(body, "table") {
		t.Errorf("%d %s", status, body)
	}
}

// A form reads the fields that its page has, and no other field of the request. A new field of a request is added here
// on purpose, or fixed in Form.Set.
func TestFormsReadNoOtherFieldsThanTheirPagesHave(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"/mode": "for mode reason", "/policy": "for limit reason to", "/policy/limits": "for limit limits reason", "/alerts/test": "",
		"/unlock": "account address network reason", "/forget": "account address reason",
		"/list": "cidr for note reason verdict",
		"/pass": "account for reason username", "/lookup/sessions": "account reason username", "/lists/prolong": "cidr for reason", "/lists/remove": "cidr reason",
		"/lists/unlist": "created ranges reason who", "/lists/restore": "entries reason",
		"/accounts/add": "email groups reason username", "/accounts/password": "password reason username",
		"/accounts/ask-password": "reason username", "/accounts/disable": "enable reason username",
		"/administrators/add": "email reason username", "/administrators/remove": "reason username",
		"/administrators/password": "reason username", "/administrators/mfa": "reason username",
		"/administrators/disable": "reason username", "/administrators/enable": "reason username",
		"/administrators/sessions/end": "id reason username", "/administrators/tokens/revoke": "name reason",
		"/administrators/tokens/add": "own", "/attacks/reset": "own",
		"/security/app/confirm": "otp", "/security/passkeys/remove": "id",
	}
	for _, o := range control.Operations() {
		for _, form := range o.Forms {
			all := namesOf(reflect.TypeOf(o.Request()).Elem())
			all = slices.AppendSeq(all, maps.Values(form.Alias))
			all = slices.DeleteFunc(all, func(name string) bool { _, fixed := form.Set[name]; return fixed })
			if _, own := o.Request().(interface{ FormFields() []string }); own {
				all = []string{"own"}
			}
			slices.Sort(all)
			if got := strings.Join(slices.Compact(all), " "); got != want[form.Path] {
				t.Errorf("%s reads %q, want %q", form.Path, got, want[form.Path])
			}
		}
	}
}

func namesOf(request reflect.Type) (all []string) {
	for i := range request.NumField() {
		of := request.Field(i)
		name, _, _ := strings.Cut(of.Tag.Get("json"), ",")
		switch {
		case of.Anonymous:
			all = append(all, namesOf(of.Type)...)
		case name != "-":
			all = append(all, name)
		}
	}
	return all
}

// Blocking every IP address requires the API, or a command with --force.
func TestAFormCannotBlockEveryIPAddress(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	page := c.submit(t, "/list", url.Values{"verdict": {"block"}, "cidr": {"::/0"}, "force": {"true"}, "reason": {"x"}})
	entries, err := c.control.Lists.Entries(t.Context())
	if err != nil || len(entries) > 0 || !strings.Contains(page, "Nothing was changed") {
		t.Errorf("%v %v", entries, err)
	}
}

// A verification code that could not be recorded is valid. The page shows it, because it is shown only once.
func TestACodeThatIsNotRecordedIsShown(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	_, err := c.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: rightPassword})
	c.must(t, err)
	csrf := c.csrf(t, "/")
	if _, err := c.db.ExecContext(t.Context(), `CREATE TRIGGER full BEFORE INSERT ON audit BEGIN SELECT RAISE(FAIL, 'full'); END`); err != nil {
		t.Fatal(err)
	}
	c.post(t, "/pass", url.Values{"csrf": {csrf}, "account": {"bob"}, "reason": {"a call"}})
	_, _, body := c.get(t, "/")
	if !strings.Contains(body, "could not be recorded") || !strings.Contains(body, `one-time-code`) {
		t.Errorf("%s", body)
	}
}
