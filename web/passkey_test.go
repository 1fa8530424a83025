package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/outbox"
	"authguard/internal/testing/passkeytest"
	"authguard/trusted"
	"authguard/web"
)

const origin = "https://login.example.org"

// A keyring is a home with passkeys, and alice's.
type keyring struct {
	*home
	mfa    *mfa.Table
	alices *passkeytest.Key
	noted  []string
}

func newKeyring(t *testing.T) *keyring {
	t.Helper()
	k := &keyring{home: newHome(t)}
	var err error
	if k.mfa, err = mfa.New(mfa.Config{DB: k.db, Secret: []byte("the server's secret"), Now: k.Clock.Now}); err != nil {
		t.Fatal(err)
	}
	k.opens(origin)
	owner := k.browser(page)
	owner.login("alice", right)
	k.alices = k.added(t, owner)
	k.ForgetEvents()
	return k
}

// opens serves the home at an origin.
func (k *keyring) opens(origin string) {
	k.door.Passkeys = web.PasskeysAt(origin, web.Passkeys{MFA: k.mfa, Notify: func(_ context.Context, account, what string) {
		k.noted = append(k.noted, account+" "+what)
	}})
	k.serve()
}

// added adds a passkey to a browser's account, as the page does.
func (k *keyring) added(t *testing.T, b *browser) *passkeytest.Key {
	t.Helper()
	key := passkeytest.New(t, origin)
	q := asked(t, b.json("/account/passkeys/ask", "current_password", right))
	status, to, body := b.form(t, "/account", "/account/passkeys", "name", "my <phone>", "state", q.State, "assertion", string(key.Made(q.Options)))
	if status != http.StatusSeeOther || to != "/account?done=passkey" {
		t.Fatalf("%d to %s\n%s", status, to, body)
	}
	return key
}

// json posts an object to a path, as a script does.
func (b *browser) json(path string, fields ...string) *httptest.ResponseRecorder {
	all := map[string]string{}
	for i := 0; i < len(fields); i += 2 {
		all[fields[i]] = fields[i+1]
	}
	body, _ := json.Marshal(all)
	return b.do("POST", path, "application/json", string(body))
}

func asked(t *testing.T, w *httptest.ResponseRecorder) (q mfa.Question) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &q); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return q
}

// signs signs in with a passkey.
func (b *browser) signs(t *testing.T, key *passkeytest.Key) *httptest.ResponseRecorder {
	t.Helper()
	q := asked(t, b.json("/login/passkey/ask"))
	return b.post("/login/passkey", "state", q.State, "assertion", string(key.Signs(q.Options)))
}

func (k *keyring) at(address string) *browser {
	b := k.browser(page)
	b.from = address
	return b
}

func TestAUserSignsInWithAPasskeyInsteadOfAPasswordAndAChallenge(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	for i := range 120 { // an attack on the account
		k.at(fmt.Sprintf("198.51.100.%d", i)).login("alice", "wrong")
		k.at(fmt.Sprintf("198.51.100.%d", i)).login("alice", "wrong")
	}
	k.Force(t)
	b := k.at("203.0.113.9")
	if !strings.Contains(b.get("/login").Body.String(), `autocomplete="username webauthn"`) {
		t.Error("the browser is not asked to suggest passkeys")
	}
	w := b.signs(t, k.alices)
	if w.Code != http.StatusSeeOther || b.get("/auth/verify").Code != http.StatusOK {
		t.Fatalf("%d\n%s", w.Code, w.Body)
	}
	if at := k.Status(t, "alice", "203.0.113.9"); at != trusted.Known {
		t.Errorf("the client is %v", at)
	}
	if e := k.Events()[len(k.Events())-1]; e.Account != "alice" || e.Outcome != guard.Succeeded || !e.Reasons.Has(guard.PasskeyVerified) {
		t.Errorf("%+v", e)
	}
	body := b.get("/account").Body.String()
	if !strings.Contains(body, "my &lt;phone&gt;") {
		t.Errorf("the passkey is not listed:\n%s", body)
	}
	if w := b.signs(t, k.alices); w.Code != http.StatusSeeOther { // it counts nothing, as a phone's
		t.Errorf("once more: %d", w.Code)
	}
	k.alices.Count = 7
	b.signs(t, k.alices)
	if w := b.signs(t, k.alices); w.Code != http.StatusUnauthorized || len(k.noted) != 1 || k.noted[0] != "alice passkey-cloned" {
		t.Errorf("a copy of it: %d, %v", w.Code, k.noted)
	}
	if w := b.signs(t, k.alices); w.Code != http.StatusUnauthorized {
		t.Errorf("a cloned passkey: %d", w.Code)
	}
}

// R12: the answer to a wrong response is always the same, and so is the page before it. An
// attacker cannot raise the count of an account.
func TestAWrongPasskeyRevealsNothingAndCountsForItsAddressOnly(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	q := asked(t, k.browser(page).json("/login/passkey/ask"))
	var options map[string]any
	if err := json.Unmarshal(q.Options, &options); err != nil || options["allowCredentials"] != nil || options["userVerification"] != "required" || options["rpId"] != "login.example.org" {
		t.Errorf("%v, %v", options, err)
	}
	if k.alices.User == "alice" || k.alices.User == "" {
		t.Errorf("the user handle is %q", k.alices.User)
	}
	used := k.browser(page)
	used.from = "203.0.113.50"
	spent := asked(t, used.json("/login/passkey/ask"))
	response := string(k.alices.Signs(spent.Options))
	if w := used.post("/login/passkey", "state", spent.State, "assertion", response); w.Code != http.StatusSeeOther {
		t.Fatalf("%d", w.Code)
	}
	before := k.Used(t, "alice", "203.0.113.1", guard.OnAccount)
	answers := map[string]string{}
	for i, what := range []string{"unknown", "unknown handle", "another key", "another origin", "a response that was used", "disabled", "no response"} {
		key := *k.alices
		switch what {
		case "unknown":
			key.ID = []byte("made up")
		case "unknown handle":
			key.User = "made up"
		case "another key":
			key.Private = passkeytest.New(t, origin).Private
		case "another origin":
			key.Origin = "https://login.example.net"
		case "disabled":
			if _, err := k.db.Exec(`UPDATE accounts SET disabled = TRUE`); err != nil {
				t.Fatal(err)
			}
		}
		b := k.at(fmt.Sprintf("203.0.113.%d", 100+i))
		var w *httptest.ResponseRecorder
		switch what {
		case "a response that was used":
			w = b.post("/login/passkey", "state", spent.State, "assertion", response)
		case "no response":
			w = b.post("/login/passkey")
		default:
			w = b.signs(t, &key)
		}
		answers[says(w, "")] += what + ", "
		if n := k.Used(t, "alice", b.from, guard.OnAddress); n != 1 {
			t.Errorf("%s: %d counted for the address", what, n)
		}
		if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), "alice") {
			t.Errorf("%s: %d", what, w.Code)
		}
	}
	if len(answers) != 1 {
		t.Errorf("%d answers: %v", len(answers), answers)
	}
	if n := k.Used(t, "alice", "203.0.113.1", guard.OnAccount); n != before {
		t.Errorf("%d counted for the account, and %d before", n, before)
	}
}

func TestWrongPasskeysAreStoppedLikeGuesses(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	b := k.at("203.0.113.7")
	for range 10 {
		b.post("/login/passkey", "assertion", "{}")
	}
	if n := k.Used(t, "", b.from, guard.OnAddress); n != 10 {
		t.Fatalf("%d counted", n)
	}
	if w := b.login("alice", right); w.Code != http.StatusForbidden {
		t.Errorf("the address is not challenged: %d", w.Code)
	}
	k.Lists.Set([]guard.Listing{{Prefix: netip.MustParsePrefix("203.0.113.0/24"), Verdict: guard.Blocked}})
	if w := b.signs(t, k.alices); w.Code != http.StatusTooManyRequests {
		t.Errorf("at an address that an administrator has blocked: %d", w.Code)
	}
}

// An administrator's account, which is what MFA protects, has passkeys at the admin console only.
// A user whose account may be compromised needs the verification code: an attacker may have added the passkey.
func TestAPasskeyOpensNoPossiblyCompromisedAccount(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	if w := k.at("203.0.113.7").signs(t, k.alices); w.Code != http.StatusSeeOther {
		t.Fatalf("before: %d", w.Code)
	}
	if _, err := k.db.Exec(`UPDATE accounts SET needs_code = TRUE`); err != nil {
		t.Fatal(err)
	}
	if w := k.at("203.0.113.7").signs(t, k.alices); w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
}

func TestAnAdministratorsPasskeyOpensNoUsersSession(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	if _, err := k.db.Exec(`UPDATE accounts SET role = 'admin'`); err != nil {
		t.Fatal(err)
	}
	if w := k.at("203.0.113.7").signs(t, k.alices); w.Code != http.StatusUnauthorized {
		t.Errorf("%d", w.Code)
	}
	b := k.browser(page)
	b.login("alice", right)
	if body := b.get("/account").Body.String(); strings.Contains(body, "passkey") {
		t.Error("an administrator can add a passkey here")
	}
	if w := b.json("/account/passkeys/ask", "current_password", right); w.Code != http.StatusForbidden {
		t.Errorf("%d", w.Code)
	}
}

// A realm at a path has the same origin, and an account of the same name.
func TestAPasskeyOpensNoAccountOfItsNameInAnotherRealm(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	if _, err := k.db.Exec(`UPDATE accounts SET id = 'another' WHERE id NOT IN (SELECT account FROM passkeys)`); err != nil {
		t.Fatal(err)
	}
	if _, err := k.db.Exec(`INSERT INTO accounts (id, realm, username, password_hash, role, created_at, changed_at)
		SELECT 'another', 'shop', username, password_hash, role, 0, 0 FROM accounts`); err != nil {
		t.Fatal(err)
	}
	if _, err := k.db.Exec(`INSERT INTO account_names (realm, name, account) VALUES ('shop', 'alice', 'another')`); err != nil {
		t.Fatal(err)
	}
	shop, err := accounts.New(t.Context(), accounts.Config{DB: k.db, Realm: "shop", Normalise: guard.NormaliseAccount, Hash: k.checker.Hash, Now: k.Clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	k.door.Passwords.Source = shop
	if w := k.at("203.0.113.7").signs(t, k.alices); w.Code != http.StatusUnauthorized {
		t.Errorf("%d\n%s", w.Code, w.Body)
	}
}

func TestAddingAPasskeyNeedsThePassword(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	b := k.browser(page)
	b.login("alice", right)
	if w := b.json("/account/passkeys/ask"); w.Code != http.StatusUnprocessableEntity {
		t.Errorf("without one: %d", w.Code)
	}
	if w := b.json("/account/passkeys/ask", "current_password", "wrong"); w.Code != http.StatusUnprocessableEntity || strings.Contains(w.Body.String(), "challenge") {
		t.Errorf("with a wrong one: %d %s", w.Code, w.Body)
	}
	if e := k.Events()[len(k.Events())-1]; e.Account != "alice" || e.Outcome != guard.Failed {
		t.Errorf("a guess is not counted: %+v", e)
	}
	q := asked(t, b.json("/login/passkey/ask")) // asked for without a password
	status, _, _ := b.form(t, "/account", "/account/passkeys", "state", q.State, "assertion", string(k.alices.Signs(q.Options)))
	if status != http.StatusUnprocessableEntity {
		t.Errorf("with the state of a sign-in: %d", status)
	}
	if w := b.post("/account/passkeys/remove", "id", passkeytest.Text(k.alices.ID)); w.Code != http.StatusForbidden {
		t.Errorf("removed by another site: %d", w.Code)
	}
	_, err := k.accounts.Add(t.Context(), accounts.Addition{Username: "bob", Password: right})
	if err != nil {
		t.Fatal(err)
	}
	other := k.browser(page)
	other.login("bob", right)
	other.form(t, "/account", "/account/passkeys/remove", "id", passkeytest.Text(k.alices.ID))
	if w := k.at("203.0.113.7").signs(t, k.alices); w.Code != http.StatusSeeOther {
		t.Errorf("another user has removed it: %d", w.Code)
	}
	b.form(t, "/account", "/account/passkeys/remove", "id", passkeytest.Text(k.alices.ID))
	if w := k.at("203.0.113.7").signs(t, k.alices); w.Code != http.StatusUnauthorized {
		t.Errorf("a removed one: %d", w.Code)
	}
}

// An attacker who had the password or a session may have added one.
func TestWhatSecuresAnAccountRemovesItsPasskeys(t *testing.T) {
	t.Parallel()
	alice := operation.OfAccount{Username: "alice"}
	do := func(q any) func(*keyring, *testing.T) error {
		return func(k *keyring, t *testing.T) error {
			_, err := k.control.Do(t.Context(), operation.By{Who: "admin:eve", Fresh: true}, q)
			return err
		}
	}
	account := func(k *keyring, t *testing.T) accounts.Account {
		a, err := k.accounts.Get(t.Context(), "alice")
		return errorless(t, a, err)
	}
	for what, one := range map[string]struct {
		do   func(*keyring, *testing.T) error
		keep int
	}{
		"a reset by an administrator": {do: do(accounts.SetPassword{OfAccount: alice, Password: chosen})},
		"a forced password change":    {do: do(accounts.AskPassword{OfAccount: alice})},
		"disabling":                   {do: do(accounts.DisableUser{OfAccount: alice})},
		"deleting":                    {do: do(accounts.DeleteUser{OfAccount: alice})},
		"the administrator's role":    {do: do(accounts.AddAdministrator{OfAdministrator: operation.OfAdministrator{Username: "alice"}, Explained: operation.Explained{Reason: "x"}})},
		"a reset by email": {do: func(k *keyring, t *testing.T) error {
			return k.control.Accounts.ResetPassword(t.Context(), "alice", chosen, account(k, t).Version, netip.Addr{})
		}},
		"the owner's report": {do: func(k *keyring, t *testing.T) error {
			return k.control.Accounts.NotMe(t.Context(), accounts.Denial{Who: "user:alice", Account: "alice", Password: chosen, Version: account(k, t).Version})
		}},
		"the owner's own change": {keep: 1, do: func(k *keyring, t *testing.T) error {
			return k.control.Accounts.ChoosePassword(t.Context(), "user:alice", "alice", chosen, account(k, t).Version)
		}},
	} {
		k := newKeyring(t)
		if err := one.do(k, t); err != nil && !errors.Is(err, operation.ErrUnrecorded) {
			t.Errorf("%s: %v", what, err)
		}
		if has, err := k.mfa.Of(t.Context(), k.alices.User); err != nil || len(has.Passkeys) != one.keep {
			t.Errorf("after %s: %d, %v", what, len(has.Passkeys), err)
		}
	}
}

func errorless[T any](t *testing.T, value T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestPasskeysAreOfferedAtASecureOriginOnly(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	for _, insecure := range []string{"", "http://login.example.org", "https://192.0.2.1"} {
		k.opens(insecure)
		b := k.browser(page)
		if body := b.get("/login").Body.String(); strings.Contains(body, "passkey") || strings.Contains(body, "webauthn") {
			t.Errorf("%q: offered", insecure)
		}
		if w := b.json("/login/passkey/ask"); w.Code < 400 {
			t.Errorf("%q: %d", insecure, w.Code)
		}
		b.login("alice", right)
		if body := b.get("/account").Body.String(); strings.Contains(body, "passkey") {
			t.Errorf("%q: offered on the account page", insecure)
		}
		if w := b.json("/account/passkeys/ask", "current_password", right); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d", insecure, w.Code)
		}
	}
}

func TestTheOwnerIsNotifiedOfANewPasskey(t *testing.T) {
	t.Parallel()
	k := newKeyring(t)
	var sent []outbox.Email
	mailer, err := outbox.NewMailer(outbox.MailerConfig{
		Store: outbox.Store{DB: k.db, Now: k.Clock.Now, Log: quiet}, Realm: guard.DefaultRealm, Secret: []byte("the server's secret"), Purpose: outbox.AboutPasskey,
		Find: func(context.Context, string, string) (string, error) { return "alice@example.org", nil },
		Write: func(l outbox.Notice, _ string) (string, string) {
			return k.look.Email(outbox.AboutPasskey, "en", "", l, "")
		},
		Send: func(_ context.Context, m outbox.Email) error { sent = append(sent, m); return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	k.door.Added = mailer
	b := k.browser(page)
	b.login("alice", right)
	k.added(t, b)
	mailer.SendDue(t.Context())
	if len(sent) != 1 || !strings.Contains(sent[0].Text, "A passkey was added to your account alice") || !strings.Contains(sent[0].Text, "192.0.2.1") {
		t.Errorf("%+v", sent)
	}
}
