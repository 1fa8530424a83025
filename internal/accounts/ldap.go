package accounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-ldap/ldap/v3"
	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/internal/passwords"
)

// A Verifier is a Source that checks passwords itself, in place of telling a hash.
// For a name that nobody has it takes as long as for another (R12). An error means
// that the password could not be checked, right or wrong.
type Verifier interface {
	Source
	Verify(ctx context.Context, name, password string) (Login, bool, error)
}

// LDAPConfig says where a directory is, and who is who there. URL and either Filter
// with Base, or UserDN, are required.
type LDAPConfig struct {
	URL      string      // ldap://host:port or ldaps://host:port
	StartTLS bool        // of ldap://
	TLS      *tls.Config // nil: the system's authorities
	// BindDN and Password are of the account that searches; without it nobody does,
	// anonymously.
	BindDN, Password string
	Base             string
	// Filter finds an entry by a name, {name}, such as (|(uid={name})(mail={name})).
	Filter string
	// UserDN is the entry itself, such as uid={name},ou=people,dc=example,dc=org.
	UserDN string
	// Name, Mail and Groups are attributes: the canonical name, the e-mail address,
	// and the groups' DNs. Defaults uid, mail, memberOf.
	Name, Mail, Groups string
	// GroupFilter, if set, finds the groups of an entry, {dn}, below Base instead:
	// (member={dn}).
	GroupFilter string
	// Normalise is guard's.
	Normalise func(string) (string, error)
	Now       func() time.Time // default time.Now
}

// LDAP is a Source that checks passwords by a bind to a directory, RFC 4511. It
// follows no referrals and writes nothing. It is safe for concurrent use.
type LDAP struct {
	config   LDAPConfig
	searches *connections // bound as the account that searches
	binds    *connections // bound as whoever logged in last

	mu     sync.Mutex
	seen   *lru.Cache[string, sighting]
	lately [32]time.Duration // how long the last binds of entries took
	bound  int
}

var _ Verifier = (*LDAP)(nil)

// A sighting is what a name was found to be.
type sighting struct {
	entry *entryOf // nil: nobody
	at    time.Time
	tried time.Time // when the directory was last asked for it
}

// An entryOf is one person in the directory.
type entryOf struct {
	dn     string
	usable bool
	login  Login
}

const (
	// seenFor is how long an entry is not asked for again by sessions, and for the one
	// name of an account. A password is always checked by the directory.
	seenFor = 15 * time.Second
	// goOnFor is how long what was found counts while the directory is away: sessions
	// that are open go on.
	goOnFor = time.Hour
	names   = 10_000
)

// NewLDAP checks the configuration. It does not connect.
func NewLDAP(c LDAPConfig) (*LDAP, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ldap" && u.Scheme != "ldaps":
		return nil, errors.New("accounts: ldap: url: must be ldap://host or ldaps://host")
	case (c.Filter == "") == (c.UserDN == ""):
		return nil, errors.New("accounts: ldap: one of filter and user_dn must be set")
	case !strings.Contains(c.Filter+c.UserDN, "{name}"):
		return nil, errors.New("accounts: ldap: filter or user_dn: must contain {name}")
	case c.Base == "" && (c.Filter != "" || c.GroupFilter != ""):
		return nil, errors.New("accounts: ldap: base: must be set, because filter or group_filter is")
	}
	for _, filter := range []string{c.Filter, c.GroupFilter} {
		if _, err := ldap.CompileFilter(strings.NewReplacer("{name}", "x", "{dn}", "x").Replace(cmp.Or(filter,
			"(a=b)"))); err != nil {
			return nil, fmt.Errorf("accounts: ldap: filter %s: %w", filter, err)
		}
	}
	if _, err := ldap.ParseDN(strings.ReplaceAll(c.UserDN, "{name}", "x")); err != nil {
		return nil, fmt.Errorf("accounts: ldap: user_dn: %w", err)
	}
	c.Name, c.Mail, c.Groups = cmp.Or(c.Name, "uid"), cmp.Or(c.Mail, "mail"), cmp.Or(c.Groups, "memberOf")
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &LDAP{config: c}
	l.seen, err = lru.New[string, sighting](names)
	l.searches = newConnections(func() (*ldap.Conn, error) { return dial(c, u, c.BindDN, c.Password) })
	l.binds = newConnections(func() (*ldap.Conn, error) { return dial(c, u, "", "") })
	return l, err
}

// FindForLogin implements Source. What was found is believed for some seconds.
func (l *LDAP) FindForLogin(ctx context.Context, name string) (Login, bool, error) {
	e, err := l.find(ctx, name)
	if e == nil || err != nil {
		return Login{}, false, err
	}
	return e.login, true, nil
}

// CanonicalOf is the name in the directory of the entry that a name finds; the name
// itself if there is none.
func (l *LDAP) CanonicalOf(ctx context.Context, name string) (string, error) {
	e, err := l.find(ctx, name)
	if e == nil || err != nil {
		return name, err
	}
	return e.login.Account, nil
}

// Verify implements Verifier. An empty password is wrong before anybody is asked: a
// directory takes a bind without one for anonymous, and lets it in (RFC 4513, 5.1.2).
func (l *LDAP) Verify(ctx context.Context, name, password string) (Login, bool, error) {
	if password == "" {
		return Login{}, false, nil
	}
	e, err := l.look(ctx, name)
	if err != nil {
		return Login{}, false, err
	}
	if e == nil {
		return Login{}, false, l.pretend(ctx, password)
	}
	began := l.config.Now()
	ok, err := l.bind(ctx, e.dn, password)
	if err != nil {
		return Login{}, false, err
	}
	l.took(l.config.Now().Sub(began))
	return e.login, ok && e.usable, nil
}

func (l *LDAP) bind(ctx context.Context, dn, password string) (ok bool, err error) {
	err = l.binds.do(ctx, func(c *ldap.Conn) error { return c.Bind(dn, password) })
	switch {
	case err == nil:
		return true, nil
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication,
		ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax):
		return false, nil
	}
	return false, fmt.Errorf("accounts: ldap: bind: %w", err)
}

// pretend binds as nobody. A directory answers that without computing a hash, so it
// takes as long as one of the last binds of somebody did.
func (l *LDAP) pretend(ctx context.Context, password string) error {
	timer := time.NewTimer(l.sample())
	defer timer.Stop()
	if _, err := l.bind(ctx, "cn="+rand.Text()+","+cmp.Or(l.config.Base, "dc=invalid"), password); err != nil {
		return err
	}
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *LDAP) took(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lately[l.bound%len(l.lately)] = d
	l.bound++
}

// sample is how long one of the last binds took.
func (l *LDAP) sample() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bound == 0 {
		return 0
	}
	var at [4]byte
	_, _ = rand.Read(at[:])
	return l.lately[int(binary.BigEndian.Uint32(at[:]))%min(l.bound, len(l.lately))]
}

// find is look, or what it found some seconds ago; what it found within the hour, if
// the directory is away now.
func (l *LDAP) find(ctx context.Context, name string) (*entryOf, error) {
	l.mu.Lock()
	before, ok := l.seen.Get(name)
	l.mu.Unlock()
	now := l.config.Now()
	if ok && now.Sub(before.tried) < seenFor {
		return before.entry, nil
	}
	e, err := l.look(ctx, name)
	if err == nil || !ok || before.entry == nil || now.Sub(before.at) >= goOnFor {
		return e, err
	}
	before.tried = now
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen.Add(name, before)
	return before.entry, nil
}

// look asks the directory for a name; nil if nobody has it.
func (l *LDAP) look(ctx context.Context, name string) (e *entryOf, err error) {
	err = l.searches.do(ctx, func(c *ldap.Conn) error {
		e, err = l.search(c, name)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("accounts: ldap: search: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.config.Now()
	l.seen.Add(name, sighting{e, now, now})
	return e, nil
}

func (l *LDAP) search(c *ldap.Conn, name string) (*entryOf, error) {
	base, scope, filter := l.config.Base, ldap.ScopeWholeSubtree, strings.ReplaceAll(l.config.Filter, "{name}",
		ldap.EscapeFilter(name))
	if l.config.UserDN != "" {
		base, scope, filter = strings.ReplaceAll(l.config.UserDN, "{name}", ldap.EscapeDN(name)), ldap.ScopeBaseObject,
			"(objectClass=*)"
	}
	found, err := c.Search(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 2, int(queryTime/time.Second), false,
		filter,
		append([]string{l.config.Name, l.config.Mail, l.config.Groups}, states...), nil))
	switch {
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax) && l.config.UserDN != "":
		found = new(ldap.SearchResult)
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) || err == nil && len(found.Entries) > 1:
		return nil, errors.New("more than one entry for a name, so users could log in as each other: make the filter more " +
			"specific")
	case err != nil:
		return nil, err
	}
	if len(found.Entries) == 0 {
		if l.config.GroupFilter != "" { // as for somebody (R12)
			_, err = l.groups(c, "cn=nobody,"+l.config.Base)
		}
		return nil, err
	}
	return l.person(c, found.Entries[0])
}

// states are attributes that say whether an entry may log in, and whether it has
// another password than before: of Active Directory, of OpenLDAP's ppolicy, of shadow
// accounts and of 389 Directory Server.
var states = []string{"entryUUID", "pwdChangedTime", "pwdAccountLockedTime", "pwdLastSet", "userAccountControl",
	"shadowLastChange", "nsAccountLock"}

func (l *LDAP) person(c *ldap.Conn, e *ldap.Entry) (*entryOf, error) {
	values := e.GetEqualFoldAttributeValues(l.config.Name)
	if len(values) == 0 {
		return nil, fmt.Errorf("an entry has no %s: set accounts.ldap.name to an attribute that all entries have",
			l.config.Name)
	}
	slices.Sort(values)
	account, err := l.config.Normalise(values[0])
	if err != nil {
		return nil, fmt.Errorf("%s of an entry is not a valid name: %w", l.config.Name, err)
	}
	usable := mayLogIn(e)
	p := &entryOf{dn: e.DN, usable: usable, login: Login{Account: account, Password: passwords.Stored{Usable: usable},
		Role: User, Version: versionOf(e)}}
	if mail := strings.TrimSpace(e.GetEqualFoldAttributeValue(l.config.Mail)); printable(mail) {
		p.login.Email = mail
	}
	groups := e.GetEqualFoldAttributeValues(l.config.Groups)
	if l.config.GroupFilter != "" {
		if groups, err = l.groups(c, e.DN); err != nil {
			return nil, err
		}
	}
	p.login.Groups = groupNames(groups)
	return p, nil
}

func (l *LDAP) groups(c *ldap.Conn, dn string) (all []string, err error) {
	filter := strings.ReplaceAll(l.config.GroupFilter, "{dn}", ldap.EscapeFilter(dn))
	found, err := c.Search(ldap.NewSearchRequest(l.config.Base, ldap.ScopeWholeSubtree, ldap.NeverDerefAliases, 0,
		int(queryTime/time.Second), false, filter, []string{"1.1"}, nil))
	if err != nil {
		return nil, fmt.Errorf("groups: %w", err)
	}
	for _, e := range found.Entries {
		all = append(all, e.DN)
	}
	return all, nil
}

// groupNames are the first values of DNs: editors of cn=editors,ou=groups. Of a value
// that is no DN it is that.
func groupNames(values []string) (all []string) {
	for _, value := range values {
		if dn, err := ldap.ParseDN(value); err == nil && len(dn.RDNs) > 0 && len(dn.RDNs[0].Attributes) > 0 {
			value = dn.RDNs[0].Attributes[0].Value
		}
		if !strings.Contains(value, ",") && printable(value) { // the header's separator
			all = append(all, strings.TrimSpace(value))
		}
	}
	return groupsOf(all)
}

// mayLogIn: a directory may take the password of an account that is locked, if
// whoever asks is not the program that the lock is for.
func mayLogIn(e *ldap.Entry) bool {
	control, _ := strconv.ParseInt(e.GetEqualFoldAttributeValue("userAccountControl"), 10, 64)
	const disabled = 0x2
	return control&disabled == 0 && !strings.EqualFold(e.GetEqualFoldAttributeValue("nsAccountLock"), "true") &&
		// for good; others pass by themselves
		!strings.HasPrefix(e.GetEqualFoldAttributeValue("pwdAccountLockedTime"), "000001010000")
}

// versionOf changes when the entry gets another password, where the directory tells
// when that was, or when it is another entry of the same name.
func versionOf(e *ldap.Entry) int64 {
	digest := sha256.New()
	for _, name := range states[:] {
		if name != "pwdAccountLockedTime" && name != "userAccountControl" {
			fmt.Fprintf(digest, "%q", e.GetEqualFoldAttributeValues(name))
		}
	}
	return int64(binary.BigEndian.Uint64(digest.Sum(nil)) >> 1)
}

// Try connects, as the account that searches, and looks for a name that nobody has.
func (l *LDAP) Try(ctx context.Context) error {
	_, err := l.look(ctx, "authguard-doctor")
	return err
}
