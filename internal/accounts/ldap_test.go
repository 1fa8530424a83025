package accounts_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"authguard/internal/accounts"
	"authguard/internal/testing/ldaptest"
)

// trusting is TLS that believes the directory's certificate alone.
func trusting(t *testing.T, d *ldaptest.Directory) *tls.Config {
	t.Helper()
	raw, err := os.ReadFile(d.CA)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(raw)
	return &tls.Config{RootCAs: pool}
}

// directory is how a site finds its people: by uid or mail.
func directory(t *testing.T, d *ldaptest.Directory, change func(*accounts.LDAPConfig)) *accounts.LDAP {
	t.Helper()
	c := accounts.LDAPConfig{
		URL: d.TLSURL, TLS: trusting(t, d), BindDN: ldaptest.Reader, Password: ldaptest.Password,
		Base: ldaptest.Base, User: "(&(objectClass=inetOrgPerson)(|(uid={name})(mail={name})))", Normalise: normalise,
	}
	if change != nil {
		change(&c)
	}
	l, err := accounts.NewLDAP(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// verify checks a password as a login does: by the canonical name.
func verify(t *testing.T, l *accounts.LDAP, name, password string, want bool) accounts.Login {
	t.Helper()
	canonical, err := l.CanonicalOf(t.Context(), name)
	if err != nil {
		t.Errorf("%q: %v", name, err)
	}
	login, ok, err := l.Verify(t.Context(), canonical, password)
	if ok != want || err != nil {
		t.Errorf("%q with %q: %v, %v", name, password, ok, err)
	}
	return login
}

// Everything in one directory: starting slapd costs the most.
func TestADirectoryChecksPasswords(t *testing.T) {
	t.Parallel()
	d := ldaptest.New(t)
	kim := d.Person(t, "Kim", "{SSHA}B78Gg/25oeE+NpWLtzBhZIFYKJilVIqR", "mail: kim@example.org") // "correct horse"
	lee := d.Person(t, "lee", "{CRYPT}"+sha512Crypt, "mail: lee@example.org")
	d.Person(t, "al*", "star")
	d.Add(t, "cn=editors,ou=groups,"+ldaptest.Base, "objectClass: groupOfNames", "cn: editors", "member: "+kim, "member: "+lee)
	d.Add(t, "cn=staff,ou=groups,"+ldaptest.Base, "objectClass: groupOfNames", "cn: staff", "member: "+kim)
	l := directory(t, d, nil)

	t.Run("people by every name", func(t *testing.T) {
		for _, name := range []string{"kim", "KIM", "Kim@example.org"} {
			login := verify(t, l, name, "correct horse", true)
			if login.Account != "kim" || login.Email != "kim@example.org" || !slices.Equal(login.Groups, []string{"editors", "staff"}) {
				t.Errorf("%s: %+v", name, login)
			}
			if canonical, err := l.CanonicalOf(t.Context(), name); canonical != "kim" || err != nil {
				t.Errorf("%s is %s, %v", name, canonical, err)
			}
			verify(t, l, name, "wrong", false)
		}
		verify(t, l, "lee", "correct horse", true)
		if canonical, err := l.CanonicalOf(t.Context(), "nobody"); canonical != "nobody" || err != nil {
			t.Errorf("%s, %v", canonical, err)
		}
	})
	t.Run("R1 no password is checked by a name that was not counted", func(t *testing.T) {
		for _, password := range []string{"correct horse", "wrong"} {
			login, ok, err := l.Verify(t.Context(), "kim@example.org", password)
			if ok || !errors.Is(err, accounts.ErrNotCounted) || login.Account != "" {
				t.Errorf("%s: %+v, %v, %v", password, login, ok, err)
			}
		}
	})
	t.Run("no password is wrong", func(t *testing.T) {
		verify(t, l, "kim", "", false) // slapd would say yes: RFC 4513, 5.1.2
	})
	t.Run("R23 a name is a name", func(t *testing.T) {
		for _, name := range []string{"*", "k*", "kim)(uid=*", "*)(objectClass=*", `kim\2a`, "k\x00im", "kim,ou=people", "kim+cn=kim", "#kim", `"kim"`} {
			verify(t, l, name, "correct horse", false)
			verify(t, l, name, "star", false)
		}
		verify(t, l, "al*", "star", true)
		verify(t, l, "al*", "correct horse", false)
	})
	t.Run("by its DN", func(t *testing.T) {
		d.Add(t, "ou=robots,ou=people,"+ldaptest.Base, "objectClass: organizationalUnit", "ou: robots")
		d.Add(t, "uid=robot,ou=robots,ou=people,"+ldaptest.Base, "objectClass: inetOrgPerson", "uid: robot", "cn: robot", "sn: robot", "userPassword: correct horse")
		l := directory(t, d, func(c *accounts.LDAPConfig) {
			c.User, c.Groups = "uid={name},ou=people,"+ldaptest.Base, "(member={dn})"
		})
		if login := verify(t, l, "KIM", "correct horse", true); login.Account != "kim" || !slices.Equal(login.Groups, []string{"editors", "staff"}) {
			t.Errorf("%+v", login)
		}
		for _, name := range []string{"kim,ou=people", "kim+cn=Kim", "nobody", "x,cn=reader", "robot,ou=robots", "*", `kim\`, "#6b"} {
			verify(t, l, name, "correct horse", false)
			verify(t, l, name, ldaptest.Password, false)
		}
		verify(t, l, "al*", "star", true)
	})
	t.Run("StartTLS, and a certificate that is not believed", func(t *testing.T) {
		l := directory(t, d, func(c *accounts.LDAPConfig) { c.URL, c.StartTLS = d.URL, true })
		verify(t, l, "kim", "correct horse", true)
		for _, url := range []string{d.URL, d.TLSURL} {
			l := directory(t, d, func(c *accounts.LDAPConfig) { c.URL, c.StartTLS, c.TLS = url, url == d.URL, nil })
			if _, ok, err := l.Verify(t.Context(), "kim", "correct horse"); ok || err == nil {
				t.Errorf("%s: %v, %v", url, ok, err)
			}
		}
	})
	t.Run("two people of one name are nobody's login", func(t *testing.T) {
		one, two := d.Person(t, "tom1", "tom's password", "mail: tom@example.org"), d.Person(t, "tom2", "tom's password", "mail: tom@example.org")
		defer d.Remove(t, one)
		defer d.Remove(t, two)
		if _, ok, err := l.Verify(t.Context(), "tom@example.org", "tom's password"); ok || err == nil {
			t.Errorf("%v, %v", ok, err)
		}
	})
	t.Run("a search account that is not let in is no wrong password", func(t *testing.T) {
		l := directory(t, d, func(c *accounts.LDAPConfig) { c.Password = "another" })
		for _, name := range []string{"kim", "nobody"} {
			if _, ok, err := l.Verify(t.Context(), name, "correct horse"); ok || err == nil {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
		}
	})
	t.Run("forty at once", func(t *testing.T) {
		var all sync.WaitGroup
		for i := range 40 {
			all.Go(func() {
				password := map[bool]string{true: "correct horse", false: fmt.Sprint("wrong", i)}[i%2 == 0]
				if _, ok, err := l.Verify(t.Context(), "lee", password); ok != (i%2 == 0) || err != nil {
					t.Errorf("%s: %v, %v", password, ok, err)
				}
			})
		}
		all.Wait()
	})
	t.Run("R12 nobody takes as long as somebody", func(t *testing.T) {
		slow := directory(t, d, nil)
		slow.Took(40 * time.Millisecond)
		began := time.Now()
		verify(t, slow, "nobody", "x", false)
		if took := time.Since(began); took < 40*time.Millisecond {
			t.Errorf("%v", took)
		}
	})
	t.Run("open sessions go on for an hour", func(t *testing.T) {
		var later atomic.Int64
		l := directory(t, d, func(c *accounts.LDAPConfig) {
			c.Now = func() time.Time { return noon.Add(time.Duration(later.Load())) }
		})
		at := func(after time.Duration, name string, found, fails bool) {
			t.Helper()
			later.Store(int64(after))
			if _, ok, err := l.FindForLogin(t.Context(), name); ok != found || (err != nil) != fails {
				t.Errorf("%s after %v: %v, %v", name, after, ok, err)
			}
		}
		gone := d.Person(t, "gone", "secret")
		at(0, "kim", true, false)
		at(0, "gone", true, false)
		at(0, "nobody", false, false)
		d.Remove(t, gone)
		at(14*time.Second, "gone", true, false)
		at(16*time.Second, "gone", false, false)
		d.Kill()
		at(59*time.Minute, "kim", true, false)
		at(59*time.Minute, "nobody", false, true)
		at(59*time.Minute, "gone", false, true)
		if _, ok, err := l.Verify(t.Context(), "kim", "correct horse"); ok || err == nil {
			t.Errorf("a password while it is away: %v, %v", ok, err)
		}
		at(61*time.Minute, "kim", false, true)
		d.Start(t)
		at(62*time.Minute, "kim", true, false)
	})
	t.Run("R27 away, right and wrong are errors, and back it works", func(t *testing.T) {
		for _, away := range []struct {
			name         string
			go_, return_ func()
		}{
			{"killed", d.Kill, func() { d.Start(t) }},
			{"hanging", func() { d.Hang(t) }, func() { d.Continue(t) }},
		} {
			away.go_()
			var all sync.WaitGroup
			for name, password := range map[string]string{"kim": "correct horse", "lee": "wrong", "nobody": "x"} {
				all.Go(func() {
					if _, ok, err := l.Verify(t.Context(), name, password); ok || err == nil {
						t.Errorf("%s, %s: %v, %v", away.name, name, ok, err)
					}
				})
			}
			all.Wait()
			away.return_()
			verify(t, l, "kim", "correct horse", true)
			verify(t, l, "kim", "wrong", false)
			verify(t, l, "nobody", "wrong", false)
		}
	})
}

// What directories say of accounts that are disabled, and of new passwords.
func TestDisabledEntriesAndNewPasswordsAreSeen(t *testing.T) {
	t.Parallel()
	entry := func(attributes ...string) *ldap.Entry {
		values := map[string][]string{"entryUUID": {"1"}}
		for i := 0; i < len(attributes); i += 2 {
			values[attributes[i]] = []string{attributes[i+1]}
		}
		return ldap.NewEntry("uid=kim,dc=x", values)
	}
	for _, test := range []struct {
		entry *ldap.Entry
		may   bool
	}{
		{entry(), true},
		{entry("userAccountControl", "512"), true}, {entry("userAccountControl", "514"), false}, {entry("useraccountcontrol", "66050"), false},
		{entry("nsAccountLock", "TRUE"), false}, {entry("nsAccountLock", "false"), true},
		{entry("pwdAccountLockedTime", "000001010000Z"), false},
		{entry("pwdAccountLockedTime", "20261122120000Z"), true}, // by guesses: it passes, and is nobody's way to end sessions
	} {
		if accounts.MayLogIn(test.entry) != test.may {
			t.Errorf("%+v: %v", test.entry.Attributes[0], !test.may)
		}
	}
	before := accounts.VersionOf(entry("pwdChangedTime", "1"))
	for _, same := range []*ldap.Entry{entry("pwdChangedTime", "1", "mail", "x"), entry("pwdChangedTime", "1", "pwdAccountLockedTime", "2")} {
		if accounts.VersionOf(same) != before {
			t.Errorf("%+v: another version", same)
		}
	}
	for _, other := range []*ldap.Entry{entry("pwdChangedTime", "2"), entry("pwdChangedTime", "1", "entryUUID", "2"), entry("pwdLastSet", "1"), entry("shadowLastChange", "1")} {
		if accounts.VersionOf(other) == before {
			t.Errorf("%+v: the same version", other)
		}
	}
}

func TestALDAPConfigurationThatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []accounts.LDAPConfig{
		{URL: "http://x", Base: "dc=x", User: "(uid={name})"},
		{URL: "ldap://x", Base: "dc=x"},
		{URL: "ldap://x", Base: "dc=x", User: "(uid=kim)"},
		{URL: "ldap://x", Base: "dc=x", User: "(uid={name}"},
		{URL: "ldap://x", User: "(uid={name})"},
		{URL: "ldap://x", User: "{name}"},
		{URL: "ldap://x", User: "uid={name},dc=x", Groups: "(member={dn})"},
	} {
		if _, err := accounts.NewLDAP(c); err == nil {
			t.Errorf("%+v was taken", c)
		}
	}
}
