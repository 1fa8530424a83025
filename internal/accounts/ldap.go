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

	"authguard/internal/config"
	"authguard/internal/passwords"
)

// Verifier is a Source that checks passwords itself instead of returning a hash. An unknown name takes as long as a
// known one (R12). The name is the canonical one that was counted, else the error is ErrNotCounted. An error means that
// the password was not checked.
type Verifier interface {
	Source
	Verify(ctx context.Context, name, password string) (Login, bool, error)
}

// LDAPConfig configures a directory. URL and User are required, and Base for a search filter.
type LDAPConfig struct {
	URL      string      // ldap://host:port or ldaps://host:port
	StartTLS bool        // for ldap://
	TLS      *tls.Config // nil: the system's authorities
	// BindDN and Password are the search account's; empty: anonymous.
	BindDN, Password string
	Base             string
	// User is the search filter for an entry by {name}, such as (|(uid={name})(mail={name})), or the entry's DN, such as
	// uid={name},ou=people,dc=example,dc=org.
	User string
	// Name, Mail and Groups are the attributes of the canonical name, the email address and the groups' DNs. Defaults:
	// uid, mail, memberOf. Groups can also be a search filter for the groups of the entry {dn} below Base: (member={dn}).
	Name, Mail, Groups string
	// Normalise is package guard's.
	Normalise func(string) (string, error)
	Now       func() time.Time // default time.Now
}

// isFilter reports whether a text is a search filter, which is in parentheses (RFC 4515).
func isFilter(text string) bool { return strings.HasPrefix(text, "(") }

// LDAP is a Source that checks passwords by a bind to a directory, RFC 4511. It follows no referrals and writes
// nothing. It is safe for concurrent use.
type LDAP struct {
	config   LDAPConfig
	searches *connections // bound as the search account
	binds    *connections // bound as the last user

	mu     sync.Mutex
	seen   *lru.Cache[string, sighting]
	lately [32]time.Duration // durations of the last binds of existing entries
	bound  int
}

var _ Verifier = (*LDAP)(nil)

type sighting struct {
	entry *entryOf // nil: no entry
	at    time.Time
	tried time.Time // last query to the directory
}

type entryOf struct {
	dn     string
	usable bool
	login  Login
}

const (
	// seenFor is how long sessions and canonical names use a cached entry. The directory checks every password.
	seenFor = 15 * time.Second
	// goOnFor is how long a cached entry stays valid while the directory is unavailable, so that open sessions continue.
	goOnFor = time.Hour
	names   = 10_000
)

// OpenLDAP creates a directory from the settings. It does not connect.
func OpenLDAP(a config.LDAP, normalise func(string) (string, error)) (*LDAP, error) {
	trusted, err := config.Redis{TLS: true, TLSCA: a.TLSCA}.Encryption()
	if err != nil {
		return nil, fmt.Errorf("accounts.ldap.%w", err)
	}
	return NewLDAP(LDAPConfig{
		URL: a.URL, StartTLS: a.StartTLS, TLS: trusted, BindDN: a.BindDN, Password: a.Password.Reveal(), Base: a.Base,
		User: a.User, Name: a.Name, Mail: a.Mail, Groups: a.Groups, Normalise: normalise,
	})
}

// NewLDAP checks the configuration. It does not connect.
func NewLDAP(c LDAPConfig) (*LDAP, error) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ldap" && u.Scheme != "ldaps":
		return nil, errors.New("accounts: ldap: url: must be ldap://host or ldaps://host")
	case !strings.Contains(c.User, "{name}"):
		return nil, errors.New("accounts: ldap: user: must contain {name}")
	case c.Base == "" && (isFilter(c.User) || isFilter(c.Groups)):
		return nil, errors.New("accounts: ldap: base: must be set, because user or groups is a search filter")
	}
	example := strings.NewReplacer("{name}", "x", "{dn}", "x")
	for _, filter := range []string{c.User, c.Groups} {
		if !isFilter(filter) {
			continue
		}
		if _, err := ldap.CompileFilter(example.Replace(filter)); err != nil {
			return nil, fmt.Errorf("accounts: ldap: filter %s: %w", filter, err)
		}
	}
	if _, err := ldap.ParseDN(example.Replace(c.User)); !isFilter(c.User) && err != nil {
		return nil, fmt.Errorf("accounts: ldap: user: %w", err)
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

// FindForLogin implements Source. Results are cached for seenFor.
func (l *LDAP) FindForLogin(ctx context.Context, name string) (Login, bool, error) {
	e, err := l.find(ctx, name)
	if e == nil || err != nil {
		return Login{}, false, err
	}
	return e.login, true, nil
}

// CanonicalOf returns the canonical name of the entry with this name; the name itself if none exists.
func (l *LDAP) CanonicalOf(ctx context.Context, name string) (string, error) {
	e, err := l.find(ctx, name)
	if e == nil || err != nil {
		return name, err
	}
	return e.login.Account, nil
}

// Verify implements Verifier. It rejects an empty password without a query: a directory treats a bind without one as
// anonymous and accepts it (RFC 4513, 5.1.2).
func (l *LDAP) Verify(ctx context.Context, name, password string) (Login, bool, error) {
	if password == "" {
		return Login{}, false, nil
	}
	e, err := l.look(ctx, name)
	if err != nil {
		return Login{}, false, err
	}
	if e == nil {
		return Login{}, false, l.dummyBind(ctx, password)
	}
	if e.login.Account != name {
		return Login{}, false, ErrNotCounted
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

// dummyBind binds as a DN that does not exist. A directory answers that without computing a hash, so pretend takes as
// long as a recent bind of an existing entry (R12).
func (l *LDAP) dummyBind(ctx context.Context, password string) error {
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

// find returns the cached entry if it is newer than seenFor, or else searches. While the directory is unavailable, it
// accepts an entry up to goOnFor old.
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
	base, scope, filter := l.config.Base, ldap.ScopeWholeSubtree, strings.ReplaceAll(l.config.User, "{name}",
		ldap.EscapeFilter(name))
	byDN := !isFilter(l.config.User)
	if byDN {
		base, scope, filter = strings.ReplaceAll(l.config.User, "{name}", ldap.EscapeDN(name)), ldap.ScopeBaseObject,
			"(objectClass=*)"
	}
	found, err := c.Search(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 2, int(queryTime/time.Second), false,
		filter,
		append([]string{l.config.Name, l.config.Mail, l.config.Groups}, states...), nil))
	switch {
	case ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax) && byDN:
		found = new(ldap.SearchResult)
	case ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) || err == nil && len(found.Entries) > 1:
		return nil, errors.New("more than one entry for a name, so users could log in as each other: make the filter more " +
			"specific")
	case err != nil:
		return nil, err
	}
	if len(found.Entries) == 0 {
		if isFilter(l.config.Groups) { // takes as long as for an existing entry (R12)
			_, err = l.groups(c, "cn=nobody,"+l.config.Base)
		}
		return nil, err
	}
	return l.person(c, found.Entries[0])
}

// states are attributes that show whether an entry may log in and whether its password changed: of Active Directory,
// OpenLDAP's ppolicy, shadow accounts and 389 Directory Server.
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
	if isFilter(l.config.Groups) {
		if groups, err = l.groups(c, e.DN); err != nil {
			return nil, err
		}
	}
	p.login.Groups = groupNames(groups)
	return p, nil
}

func (l *LDAP) groups(c *ldap.Conn, dn string) (all []string, err error) {
	filter := strings.ReplaceAll(l.config.Groups, "{dn}", ldap.EscapeFilter(dn))
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

// groupNames returns the first value of each DN: editors for cn=editors,ou=groups. A value that is not a DN stays as it
// is.
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

// mayLogIn checks the lock attributes: some directories accept the password of a locked account.
func mayLogIn(e *ldap.Entry) bool {
	control, _ := strconv.ParseInt(e.GetEqualFoldAttributeValue("userAccountControl"), 10, 64)
	const disabled = 0x2
	return control&disabled == 0 && !strings.EqualFold(e.GetEqualFoldAttributeValue("nsAccountLock"), "true") &&
		// permanent locks; temporary ones end by themselves
		!strings.HasPrefix(e.GetEqualFoldAttributeValue("pwdAccountLockedTime"), "000001010000")
}

// versionOf changes when the entry's password changes, if the directory has that time, or when another entry gets the
// name.
func versionOf(e *ldap.Entry) int64 {
	digest := sha256.New()
	for _, name := range states[:] {
		if name != "pwdAccountLockedTime" && name != "userAccountControl" {
			fmt.Fprintf(digest, "%q", e.GetEqualFoldAttributeValues(name))
		}
	}
	return int64(binary.BigEndian.Uint64(digest.Sum(nil)) >> 1)
}

// Try connects as the search account and searches for a name that does not exist.
func (l *LDAP) Try(ctx context.Context) error {
	_, err := l.look(ctx, "authguard-doctor")
	return err
}
