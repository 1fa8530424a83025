package control_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/database/databasetest"
	"authguard/internal/lists"
	"authguard/internal/operation"
)

// told writes what the world has seen into the audit log.
func (d *desk) told(t *testing.T) {
	t.Helper()
	d.audit.Handle(d.w.Events())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d.audit.Run(ctx)
	d.w.ForgetEvents()
}

func (d *desk) lookUp(t *testing.T, account, address string) *control.LookUp {
	t.Helper()
	d.told(t)
	from, _ := netip.ParseAddr(address)
	l, err := d.LookUp(t.Context(), account, from)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Ensure that the sentence for the caller says what stands in their way, and the next one
// what to do about it: for each way in which somebody cannot log in.
func TestWhyTheyCannotSignInIsOneSentence(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		for _, name := range []string{"ann", "bob", "off", "user", "quiet", "hit"} {
			d.user(t, name, "")
		}
		_, err := d.AddUser(t.Context(), "admin:eve", accounts.Addition{Username: "must", Password: "long enough", Role: accounts.Admin}, "")
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(d.Disable(t.Context(), "admin:eve", "off"))
		must(err)
		must(d.SetPassword(t.Context(), "admin:eve", "must", "long enough too", true, ""))
		must(d.SetPassword(t.Context(), "admin:eve", "user", "long enough too", true, ""))
		const home, cafe = "192.0.2.1", "198.51.100.7"
		d.w.Right(t, "bob", home)
		says := func(account, address, said, next string) {
			t.Helper()
			l := d.lookUp(t, account, address)
			if !strings.Contains(l.Said, said) || !strings.Contains(l.Next, next) {
				t.Errorf("%q at %q:\n said %s\n want %s\n next %s\n want %s", account, address, l.Said, said, l.Next, next)
			}
			if strings.Contains(l.Said, "\n") || strings.Contains(l.Said, "  ") || !strings.HasSuffix(l.Said, ".") {
				t.Errorf("that cannot be read aloud: %q", l.Said)
			}
		}
		says("nobody", "", "There is no account with this name.", "the spelling of the name")
		says("off", "", "Your account is disabled", "enable the account")
		says("must", "", "temporary password", "reset the password")
		says("user", "", "temporary password", "reset the password")
		says("quiet", "", "You can sign in now: the next attempt", "try now")
		says("bob", "", "The last attempt, a moment ago from 192.0.2.1, signed you in", "Was it theirs?")
		says("", cafe, "Your IP address is not limited", "Ask for the user name")
		d.w.Wrong(t, "ann", cafe)
		d.w.Clock.Advance(2 * time.Minute)
		says("ann", "", "The last attempt, 2 minutes ago from 198.51.100.7, had a wrong password", "Caps Lock")
		for range 4 {
			d.w.Wrong(t, "ann", cafe)
			d.w.Clock.Advance(30 * time.Second)
		}
		says("ann", cafe, "so you must solve a CAPTCHA", "verification code")
		says("ann", "", "for your account, not necessarily by you", "verification code")
		p := d.w.Policy()
		p.Account = []guard.Limit{{Failures: 5, Window: 24 * time.Hour, Action: guard.Block}}
		must(d.w.SetPolicy(p))
		says("ann", "", "so sign-ins are blocked for another 23 hours 56 minutes", "Verify the owner's identity, then create a verification code")
		for i := range 5 {
			d.w.Wrong(t, "bob", netip.AddrFrom4([4]byte{203, 0, 113, byte(i)}).String())
		}
		says("bob", "", "Devices and networks from which you have signed in before still work.", "verification code")
		says("bob", home, "You can sign in now", "")
		must(d.w.Mode.Force(captchamode.Override{State: captchamode.ForcedOn, Who: "admin:eve", Why: "drill", Until: d.w.Clock.Now().Add(time.Hour)}))
		says("ann", "", "so sign-ins are blocked for another", "Verify the owner's identity, then create a verification code") // solving a CAPTCHA does not help
		if l := d.lookUp(t, "ann", ""); !strings.Contains(l.Explanation.Summary(), "and would then be blocked") {
			t.Error(l.Explanation.Summary())
		}
		d.w.Mode.Release("admin:eve", "drill")
		_, err = d.List(t.Context(), "admin:eve", lists.Request{Prefix: netip.MustParsePrefix("198.51.100.0/24"), Verdict: lists.Block, For: 2 * time.Hour})
		must(err)
		says("ann", cafe, "blocked your IP address for another 2 hours", "remove the block")
		if l := d.lookUp(t, "", cafe); l.Entry == nil || l.Entry.Prefix.String() != "198.51.100.0/24" {
			t.Errorf("what blocks it: %+v", l.Entry)
		}
	})
}

// R23: ensure that places are listed although only digests of them are kept: by the
// addresses that the audit log has, and the others as a number.
func TestR23PlacesAreNamedByTheAuditLog(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *sql.DB) {
		d := newDesk(t, db)
		d.user(t, "ann", "ann@example.org")
		d.w.Right(t, "ann", "192.0.2.9")
		d.w.ForgetEvents() // no row was kept of it
		d.w.Clock.Advance(time.Hour)
		d.w.Right(t, "ann", "192.0.2.1")
		d.w.Clock.Advance(time.Hour)
		d.w.Right(t, "ann", "2001:db8::7")
		d.w.Clock.Advance(time.Hour)
		d.w.Wrong(t, "ann", "203.0.113.5")
		l := d.lookUp(t, "Ann@Example.org", "")
		if len(l.Places) != 2 || l.Unnamed != 1 || l.Places[0].Address.String() != "2001:db8::7" || l.Places[1].Address.String() != "192.0.2.1" {
			t.Fatalf("%+v, %d without a name", l.Places, l.Unnamed)
		}
		if ago := l.Now.Sub(l.Places[1].Last); ago != 2*time.Hour {
			t.Errorf("last used %v ago", ago)
		}
		if l.Failures != 1 || l.LastLogin.IsZero() || len(l.Recent) != 4 || l.Recent[0].What != "wrong password" || l.Recent[1].What != "signed in" {
			t.Errorf("%+v, %+v", l.Outcome, l.Recent)
		}
		if l := d.lookUp(t, "ann", "192.0.2.9"); l.Unnamed != 0 || len(l.Places) != 3 {
			t.Errorf("the address that is asked about has a name: %+v, %d", l.Places, l.Unnamed)
		}
		if err := d.RemoveKnownClients(t.Context(), "admin:eve", "ann", netip.MustParseAddr("2001:db8::7")); err != nil {
			t.Fatal(err)
		}
		if l := d.lookUp(t, "ann", ""); len(l.Places) != 1 || l.Unnamed != 1 {
			t.Errorf("one was forgotten: %+v, %d", l.Places, l.Unnamed)
		}
		if err := d.RemoveKnownClients(t.Context(), "admin:eve", "ann", netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		if l := d.lookUp(t, "ann", ""); len(l.Places)+l.Unnamed != 0 || l.Forgotten.IsZero() {
			t.Errorf("all were forgotten: %+v, %d", l.Places, l.Unnamed)
		}
	})
}

// A directory stands in for another program's accounts.
type directory map[string]accounts.Login

func (d directory) FindForLogin(_ context.Context, name string) (accounts.Login, bool, error) {
	login, found := d[name]
	if login.Account == "broken" {
		return login, false, context.DeadlineExceeded
	}
	return login, found, nil
}

// Ensure that nobody is told "no such account" of one that is kept elsewhere.
func TestAnAccountThatIsKeptElsewhereIsLookedUpThere(t *testing.T) {
	t.Parallel()
	db := databasetest.SQLite(t)
	people := directory{"ann": {Account: "ann"}, "off": {Account: "off"}, "broken": {Account: "broken"}}
	usable := people["ann"]
	usable.Password.Usable = true
	people["ann"] = usable
	app := false
	d := newDeskWith(t, db, func(c *control.Config) {
		c.Elsewhere, c.Source = "ldap", people
		c.App = func(context.Context) (bool, error) { return app, nil }
	})
	notes := func(name string) (string, *accounts.Standing) {
		t.Helper()
		l := d.lookUp(t, name, "")
		return strings.Join(l.Explanation.Notes, "; "), l.Account
	}
	for name, want := range map[string]struct{ state, note string }{
		"ann":    {accounts.Active, ""},
		"off":    {accounts.Disabled, "disabled in its source (accounts.source is ldap)"},
		"nobody": {accounts.NoAccount, "(accounts.source is ldap) has no account of this name"},
		"broken": {accounts.NotKnown, "is currently unavailable"},
	} {
		if note, is := notes(name); is.State != want.state || is.Kept != "ldap" || !strings.Contains(note, want.note) || (note == "") != (want.note == "") {
			t.Errorf("%s: %+v, %q", name, is, note)
		}
	}
	app = true
	if note, is := notes("nobody"); is.State != accounts.NotKnown || is.Kept != accounts.InApp || !strings.Contains(note, "only the app knows") {
		t.Errorf("behind an app: %+v, %q", is, note)
	}
	if note, err := d.Accounts.Unknown(t.Context(), "nobody"); note != "" || err != nil {
		t.Errorf("unlocking warns of %q, %v", note, err)
	}
}

// Ensure that a network is looked up: what blocks it, what is listed within it, its counter
// and what came from there; and that a larger range says what to look up.
func TestANetworkIsLookedUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	if err := d.Force(t.Context(), "admin:eve", captchamode.ForcedOff, time.Hour, "its limits alone"); err != nil {
		t.Fatal(err)
	}
	look := func(network string) *control.NetworkLookUp {
		t.Helper()
		n, err := d.LookUpNetwork(t.Context(), netip.MustParsePrefix(network))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := look("198.51.100.0/24"); !n.Open || len(n.Lines) == 0 || len(n.Entries)+len(n.Recent) != 0 {
		t.Errorf("%+v", n)
	}
	for i := range 60 {
		d.w.Wrong(t, fmt.Sprint("someone", i), fmt.Sprintf("198.51.100.%d", i))
	}
	d.told(t)
	if n := look("198.51.100.0/24"); n.Open || !strings.Contains(n.Said, "too many wrong passwords") || len(n.Recent) != 30 {
		t.Errorf("full: %+v", n)
	}
	if n := look("198.51.100.64/26"); n.Open || n.Counted.String() != "198.51.100.0/24" {
		t.Errorf("a part of it: %+v", n)
	}
	if n := look("198.51.96.0/20"); !n.Open || n.Counted.IsValid() || !strings.Contains(n.Next, "198.51.96.0/24") {
		t.Errorf("more than it: %+v", n)
	}
	for _, one := range []string{"198.51.100.0/24", "198.51.100.7/32"} {
		if _, err := d.List(t.Context(), "admin:eve", lists.Request{Prefix: netip.MustParsePrefix(one), Verdict: lists.Block}); err != nil {
			t.Fatal(err)
		}
	}
	if n := look("198.51.100.0/24"); n.Open || !n.Exactly || len(n.Entries) != 2 || !strings.Contains(n.Said, "blocked your network") {
		t.Errorf("blocked: %+v", n)
	}
}

// Ensure that a user is signed out everywhere, on record with the reason, and an
// administrator is not.
func TestAUserIsSignedOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t, databasetest.SQLite(t))
	d.user(t, "ann", "ann@example.org")
	d.openSession(t, "ann", "one")
	d.openSession(t, "ann", "two")
	if _, err := d.do(t.Context(), "admin:eve", accounts.EndUserSessions{OfAccount: of("Ann@example.org"), Because: because("a lost phone")}); err != nil {
		t.Error(err)
	}
	if row := d.recorded(t); row.Decision != "user-sessions" || row.Account != "ann" || row.Detail != "2 sessions: a lost phone" {
		t.Errorf("%+v", row)
	}
	if l, err := d.LookUp(t.Context(), "ann", netip.Addr{}); err != nil || l.Sessions != 0 {
		t.Errorf("%+v %v", l, err)
	}
	if _, err := d.AddAdministrator(t.Context(), "admin:eve", "root", "", "on call"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.do(t.Context(), "admin:eve", accounts.EndUserSessions{OfAccount: of("root"), Because: because("")}); !errors.Is(err, operation.ErrAsked) {
		t.Error(err)
	}
}
