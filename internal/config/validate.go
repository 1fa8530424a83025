package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"
	"golang.org/x/text/language"

	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/outbox"
	"authguard/internal/route"
)

// unless reports a problem with the setting at path if ok is false. If another setting causes it, because is that
// setting's path. It stays silent if either could not be parsed, because that value is unknown.
func (l *loader) unless(ok bool, path, because, format string, args ...any) {
	if ok {
		return
	}
	from := l.locate(path, because)
	if !slices.ContainsFunc(l.known, func(p Problem) bool {
		return p.Source == from.Source && touches(p.Path, path) || touches(p.Path, because)
	}) {
		for i, arg := range args {
			if text, ok := arg.(string); ok {
				args[i] = credentials.ReplaceAllString(text, "$1***@")
			}
		}
		l.problem(from, path, format, args...)
	}
}

// credentials match a user name and a password in a URL, even in a malformed one.
var credentials = regexp.MustCompile(`(//|^|")[^/@\s"]*:\S*@`)

func (l *loader) check(path, text string, check func(string) error) {
	if text != "" {
		err := check(text)
		l.unless(err == nil, path, "", "%s", strings.TrimPrefix(fmt.Sprint(err), "alerts: "))
	}
}

// bounds checks a setting against its tags.
func (l *loader) bounds(s setting) {
	if words := strings.Fields(s.tag.Get("words")); len(words) > 0 {
		all, each := []string{s.at.String()}, "must be"
		if s.at.Kind() == reflect.Slice {
			all, each = s.at.Interface().([]string), "each must be"
		}
		for _, one := range all {
			l.unless(slices.Contains(words, one), s.path, "", "%s one of %s, not %.60q", each, strings.Join(words, ", "), one)
		}
	}
	if least, most, ok := strings.Cut(s.tag.Get("within"), " "); ok {
		l.unless(s.at.Int() >= s.number(least), s.path, "", "must be at least %s", least)
		l.unless(s.at.Int() <= s.number(most), s.path, "", "must be at most %s", most)
	}
}

// number parses a bound like the setting's own text.
func (s setting) number(text string) int64 {
	one := setting{at: reflect.New(s.at.Type()).Elem()}
	if err := one.set(text); err != nil {
		panic(err) // a bug in this package
	}
	return one.at.Int()
}

// validate checks each setting by itself. conflicts leaves most of limits and captcha_mode to the packages that know
// their bounds.
func (l *loader) validate() {
	c := &l.loaded.Config
	l.known = slices.Clone(l.problems)
	for _, s := range l.settings {
		l.bounds(s)
	}
	const empty = "must not be empty: remove the key for the default"
	l.unless(c.Listen != "", "listen", "", empty)
	l.unless(c.Data != "", "data", "", empty)
	l.unless(c.Redis.Prefix != "", "redis.prefix", "", empty)
	l.check("listen", c.Listen, listenable)
	l.check("origin", c.Origin, baseURL)
	l.check("proxy.upstream", c.Proxy.Upstream, baseURL)
	l.check("tracing.endpoint", c.Tracing.Endpoint, baseURL)
	l.check("admin.listen", c.Admin.Listen, listenable)
	for i, u := range c.Admin.URLs {
		l.check(fmt.Sprintf("admin.urls[%d]", i), u, baseURL)
	}
	l.check("database", c.Database.Reveal(), postgres)
	for i, address := range c.Redis.Addresses {
		l.unless(reachable(address), fmt.Sprintf("redis.addresses[%d]", i), "",
			"must be a host and a port such as redis.internal:6379, not %.60q", address)
	}
	at, prefix := c.Metrics.Server()
	l.unless(at == "" || reachable(at) && prefixPattern.MatchString(prefix), "metrics.statsd", "",
		"must be a host and a port such as 127.0.0.1:8125, or with a prefix 127.0.0.1:8125/authguard, not %.60q",
		c.Metrics.StatsD)
	// A brace would change the key's slot in a Cluster.
	l.unless(!strings.ContainsAny(c.Redis.Prefix, "{}"), "redis.prefix", "", "must not contain a brace")
	l.identity()
	l.unless(c.CAPTCHAMode.CoolDown.Max >= time.Second, "captcha_mode.cool_down", "", "must be at least 1s")
	for i, to := range c.Alerts.To {
		l.check(fmt.Sprintf("alerts.to[%d]", i), to.Reveal(), alerts.Check)
	}
	l.unless(c.Alerts.FailureRatio >= 0 && c.Alerts.FailureRatio <= 100, "alerts.failure_ratio", "",
		"must be from 0 to 100, such as 0.2 for one failure in five logins that succeed")
	l.lists()
	l.check("challenge.verify_url", c.Challenge.VerifyURL, remote.CheckVerify)
	l.unless(c.Challenge.SiteKey == "" || siteKeyPattern.MatchString(c.Challenge.SiteKey), "challenge.site_key", "",
		"must be the site key that the provider gave you: 10 to 100 letters, digits, - and _")
	l.pages()
	l.check("mail.from", c.Mail.From, outbox.CheckSender)
	_, err := language.Parse(c.Mail.Language)
	l.unless(err == nil, "mail.language", "", `must be the tag of a language such as "de" or "pt-BR"`)
	if c.Mail.Server != "" {
		_, err := outbox.NewMailServer(c.Mail.Server.Reveal(), c.Mail.From)
		l.unless(err == nil, "mail.server", "", "%v", err)
	}
	l.tokens()
}

func (l *loader) pages() {
	c := &l.loaded.Config
	l.unless(utf8.RuneCountInString(c.Pages.Name) <= 60, "pages.name", "", "must have at most 60 characters")
	l.unless(c.Pages.Color == "" || colorPattern.MatchString(c.Pages.Color), "pages.color", "",
		`must be a color such as "#0f665e", in quotation marks`)
	l.check("pages.help_url", c.Pages.HelpURL, helpURL)
	l.check("pages.forgot_url", c.Pages.ForgotURL, helpURL)
}

func (l *loader) tokens() {
	for i, t := range l.loaded.Config.API.Tokens {
		l.unless(tokenPattern.MatchString(t.Reveal()), fmt.Sprintf("api.tokens[%d]", i), "",
			"must be at least 32 letters, digits and -._~+/: make one with openssl rand -hex 32")
		l.unless(!strings.HasPrefix(strings.ToLower(t.Reveal()), "replace-this"), fmt.Sprintf("api.tokens[%d]", i), "",
			"is a placeholder: create a token with authguard token create NAME instead")
	}
}

var (
	tokenPattern   = regexp.MustCompile(`^[A-Za-z0-9._~+/-]{32,}=*$`) // RFC 6750's b64token, at least 128 bits in hex
	siteKeyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{10,100}$`)
	colorPattern   = regexp.MustCompile(`^#[0-9A-Fa-f]{6}$`)
	prefixPattern  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)
	hostPattern    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$`)
)

// reachable reports whether s is a host and a port to connect to.
func reachable(s string) bool {
	host, port, _ := net.SplitHostPort(s)
	return listenable(s) == nil && host != "" && port != "0"
}

// listenable checks a host and port to listen on.
func listenable(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("must be a host and a port such as 127.0.0.1:8080, [::1]:8080 or :8080, not %.60q", s)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("must end in a port from 0 to 65535, not %.60q", port)
	}
	// A name of digits and dots is a mistyped IPv4 address.
	name := hostPattern.MatchString(host) && strings.Trim(host, "0123456789.") != ""
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !name {
		return fmt.Errorf("must begin with an IP address or a host name, not %.60q", host)
	}
	return nil
}

// baseURL checks a service's URL. The error does not repeat a password.
func baseURL(s string) error {
	u, err := url.Parse(s)
	if strings.Contains(s, "@") {
		return errors.New("must be a scheme and a host such as https://login.example.org, without a user name and password")
	}
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.Scheme+"://"+u.Host != s {
		if !strings.Contains(s, "://") && baseURL("http://"+s) == nil {
			return fmt.Errorf("needs a scheme: write http://%[1]s or https://%[1]s", s)
		}
		return fmt.Errorf("must be a scheme and a host such as https://login.example.org, without a path, not %.60q", s)
	}
	return nil
}

func helpURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "https" || u.Host == "" || u.User != nil) && (u.Scheme != "mailto" ||
		!strings.Contains(u.Opaque, "@")) {
		return fmt.Errorf("must be a URL such as https://example.org/help or mailto:help@example.org, not %.60q", s)
	}
	return nil
}

// postgres checks a PostgreSQL DSN. The error does not repeat it.
func postgres(dsn string) error {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Host == "" && u.Query().Get("host") == "" {
		return errors.New("must be a URL such as postgres://user:password@host:5432/authguard; remove the key for SQLite " +
			"in the data folder")
	}
	return nil
}

// parseNetwork parses a CIDR, or an IP address as a network of one.
func parseNetwork(s string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	switch {
	case err != nil:
		return p, fmt.Errorf("must be an IP address or a network such as 10.0.0.0/8, not %.60q", s)
	case p.Addr().Is4In6():
		return p, errors.New("must be written as an IPv4 network, such as 10.0.0.0/8")
	case p.Bits() == 0:
		return p, errors.New("would let every client choose its IP address: list only your proxies")
	case p != p.Masked():
		return p, fmt.Errorf("has bits beyond its length: write %s or %s", p.Masked(), p.Addr())
	default:
		return p, nil
	}
}

// conflicts checks the settings together, including the checks of packages guard and captchamode (rule R8 above all).
func (l *loader) conflicts() {
	c := &l.loaded.Config
	l.known = slices.Clone(l.problems)
	l.accountConflicts(&c.Accounts)
	l.redisConflicts(&c.Redis)
	l.challengeConflicts(&c.Challenge)
	l.proxyConflicts(&c.Proxy)
	l.forwardAuthConflicts(c)
	l.unless(c.Mail.Server == "" || c.Mail.From != "", "mail.from", "mail.server",
		"must be the sender's address, such as login@example.org, because mail.server is set")
	l.unless(!c.Mail.NotifyNewClient || c.Mail.Server != "", "mail.server", "mail.notify_new_client",
		"must be the mail server's URL, because mail.notify_new_client is set")
	l.unless(!c.Mail.NotifyNewClient || c.Origin != "", "origin", "mail.notify_new_client",
		"must be set, because mail.notify_new_client is set: the email's link leads there")
	l.unless(c.Mail.Server != "" || c.Mail.From == "", "mail.server", "mail.from",
		"must be the mail server's URL, because mail.from is set")
	l.unless(c.Pages.Logo == "" || c.Pages.Name != "", "pages.name", "pages.logo",
		"must be set, because pages.logo is set: it is the logo's text alternative")
	l.unless(c.Admin.Listen != c.Listen || strings.HasSuffix(c.Listen, ":0"), "admin.listen", "listen",
		"must differ from listen: the admin pages need their own address")
	if err := errors.Join(c.Policy().Validate(), c.CAPTCHAMode.Mode().Validate()); err != nil {
		for line := range strings.Lines(err.Error()) {
			path, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			if m := limitPattern.FindStringSubmatch(path); m != nil && l.unread(m[1]+"[") {
				continue // a limit that could not be parsed invalidates the others
			}
			l.unless(false, path, because(path), "%s", text)
		}
	}
}

// limitPattern is the path of a limit, or of a part of one.
var limitPattern = regexp.MustCompile(`^(.*limits(?:\.\w+)?|events\.[\w-]+)\[\d+\]`)

// unread reports whether a setting with this path prefix could not be parsed.
func (l *loader) unread(begins string) bool {
	return slices.ContainsFunc(l.known, func(p Problem) bool { return strings.HasPrefix(p.Path, begins) })
}

// because returns the setting that may cause the problem at path. The values of the pair delay limit each other, and
// determine how fast an account and IP pair uses up its limits.
func because(path string) string {
	switch {
	case partOf(path, "limits.pair_delay"), partOf(path, "limits.pair"), partOf(path, "limits.known_client"):
		return "limits.pair_delay"
	default:
		return ""
	}
}

func (l *loader) redisConflicts(r *Redis) {
	set := r.Mode != RedisStandalone || r.Master != "" || r.Username != "" || r.Password != "" || r.TLS
	l.unless(r.On() || !set, "redis.addresses", "redis",
		"must be the address of Redis, because other settings of redis are set")
	l.unless(r.Mode != RedisStandalone || len(r.Addresses) <= 1, "redis.addresses", "redis.mode",
		"must be one server: for several set redis.mode to cluster or sentinel")
	l.unless(r.Mode != RedisSentinel || r.Master != "", "redis.master", "redis.mode",
		"must be the Sentinels' name for the master, because redis.mode is sentinel")
	l.unless(r.Mode == RedisSentinel || r.Master == "", "redis.master", "redis.mode",
		"is used with redis.mode: sentinel only: set that, or remove this")
	l.unless(r.TLS || r.TLSCA+r.TLSCert == "", "redis.tls", "redis", "must be true, because certificates are set")
}

func (l *loader) challengeConflicts(c *Challenge) {
	const kind, needed = "challenge.kind", "must be set, because challenge.kind is %s"
	if c.Remote() {
		l.unless(c.SiteKey != "", "challenge.site_key", kind, needed, c.Kind)
		l.unless(c.SecretKey != "", "challenge.secret_key", kind, needed, c.Kind)
		l.unless(l.loaded.Config.Origin != "", "origin", kind, needed+": only solutions from that host are accepted", c.Kind)
		return
	}
	const unused = "is not used with challenge.kind: %s. Set that to your provider, or remove this"
	l.unless(c.SiteKey == "", "challenge.site_key", kind, unused, c.Kind)
	l.unless(c.SecretKey == "", "challenge.secret_key", kind, unused, c.Kind)
	l.unless(c.VerifyURL == "", "challenge.verify_url", kind, unused, c.Kind)
}

func (l *loader) forwardAuthConflicts(c *Config) {
	const path, because = "session.domain", "origin"
	if d := c.Session.Domain; d != "" {
		_, literal := netip.ParseAddr(d)
		plain := literal != nil && hostPattern.MatchString(d) && d == strings.ToLower(d) && strings.Contains(d, ".")
		suffix, _ := publicsuffix.PublicSuffix(d)
		origin, _ := url.Parse(c.Origin)
		switch {
		case !plain:
			l.unless(false, path, "", "must be a name in small letters such as example.org, without a dot in front and "+
				"without a port, not %.60q", d)
		case suffix == d:
			l.unless(false, path, "", "is a public suffix: sites of other owners below %s would get these cookies", d)
		case c.Origin == "":
			l.unless(false, path, because, "needs origin, the address of the login page, such as https://login.%s", d)
		case origin != nil:
			host := strings.ToLower(origin.Hostname())
			l.unless(host == d || strings.HasSuffix(host, "."+d), path, because,
				"must be the end of origin's host (%s), or browsers reject the cookie", host)
		}
	}
	_, err := route.CompileAccess(c.Access)
	for line := range strings.Lines(fmt.Sprint(err)) {
		if at, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			l.unless(false, "access"+at, "", "%s", text)
		}
	}
}

func (l *loader) proxyConflicts(p *Proxy) {
	_, err := Preset(p.Preset)
	l.unless(err == nil, "proxy.preset", "", "%v", err)
	routes := p.Preset != "" || len(p.Routes) > 0
	l.unless(p.Upstream != "" || !routes, "proxy.upstream", "proxy",
		"must be the app's base URL, such as http://127.0.0.1:8000, because proxy.routes is set")
	l.unless(p.Upstream == "" || routes, "proxy.routes", "proxy.upstream",
		"or proxy.preset (%s) must be set to protect the app's login; "+
			"detect it with authguard proxy detect --upstream URL", strings.Join(Presets(), ", "))
	seen := map[string]RouteLimits{}
	for i, r := range p.Routes {
		at := fmt.Sprintf("proxy.routes[%d].", i)
		_, err := route.Compile(r.Spec)
		policy := l.loaded.PolicyOf(r).Validate()
		for line := range strings.Lines(fmt.Sprint(errors.Join(err, policy))) {
			if path, text, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
				l.unless(false, at+path, "", "%s", text)
			}
		}
		limits, twice := seen[r.Name]
		l.unless(!twice || len(r.Limits.all()) == 0 || reflect.DeepEqual(limits, r.Limits), at+"limits", "",
			"must be set at the first route named %s: they share counters", r.Name)
		if seen[r.Name] = r.Limits; twice {
			seen[r.Name] = limits
		}
		l.unless(r.Name != "login" || len(r.Limits.all()) == 0, at+"limits", "",
			"must not be set: the route named login uses the top-level limits")
	}
}

func (l RouteLimits) all() []guard.Limit {
	return slices.Concat(l.Address, l.Network, l.Account, l.Pair, l.KnownClient)
}

func (l *loader) accountConflicts(a *Accounts) {
	const source, unused = "accounts.source", "is not used with accounts.source: %s. Change that, or remove this"
	l.unless(a.Source != SourceHtpasswd || a.Htpasswd != "", "accounts.htpasswd", source,
		"must be the file's path, because accounts.source is htpasswd")
	l.unless(a.Source == SourceHtpasswd || a.Htpasswd == "", "accounts.htpasswd", source, unused, a.Source)
	l.unless(a.Source != SourceQuery || a.Query != "", "accounts.query", source,
		"must be the SQL query for an account's hash, because accounts.source is query")
	l.unless(a.Source == SourceQuery || a.Query == "", "accounts.query", source, unused, a.Source)
	l.ldapConflicts(a)
	asks := "accounts.canonical_query" // the setting that needs a database
	if a.Source == SourceQuery {
		asks = source
	}
	queries := a.Source == SourceQuery || a.CanonicalQuery != ""
	l.unless(!queries || a.Database != "", "accounts.database", asks, "must be the database's URL, because %s needs it",
		asks)
	l.unless(queries || a.Database == "", "accounts.database", source, unused, a.Source)
}

// ldapConflicts checks accounts.ldap. It rejects settings that send passwords unencrypted over a network.
func (l *loader) ldapConflicts(a *Accounts) {
	const source, at = "accounts.source", "accounts.ldap."
	if a.Source != SourceLDAP {
		l.unless(a.LDAP.URL == "", at+"url", source, "is not used with accounts.source: %s. Change that, or remove this",
			a.Source)
		return
	}
	l.unless(a.LDAP.URL != "", at+"url", source,
		"must be the directory's URL, such as ldaps://ldap.example.org, because accounts.source is ldap")
	if a.LDAP.URL == "" {
		return
	}
	u, err := url.Parse(a.LDAP.URL)
	good := err == nil && (u.Scheme == "ldap" || u.Scheme == "ldaps") && u.Host != "" && u.Path == ""
	l.unless(good, at+"url", "", "must be ldaps://host, or ldap://host with start_tls, without a path, not %.60q",
		a.LDAP.URL)
	if good {
		ip, _ := netip.ParseAddr(u.Hostname())
		l.unless(u.Scheme == "ldaps" || a.LDAP.StartTLS || u.Hostname() == "localhost" || ip.IsLoopback(), at+"url",
			at+"start_tls",
			"would send passwords unencrypted: write ldaps://, or set accounts.ldap.start_tls")
		l.unless(u.Scheme == "ldap" || !a.LDAP.StartTLS, at+"start_tls", at+"url",
			"must be false: ldaps:// is already encrypted")
	}
	l.unless(strings.Contains(a.LDAP.User, "{name}"), at+"user", "",
		"must be a filter such as (uid={name}), or the DN of a user's entry, and contain {name}")
	l.unless(!isFilter(a.LDAP.Groups) || strings.Contains(a.LDAP.Groups, "{dn}"), at+"groups", "",
		"must contain {dn} for the user's DN")
	l.unless(a.LDAP.Base != "" || !isFilter(a.LDAP.User) && !isFilter(a.LDAP.Groups), at+"base", at+"user",
		"must be the DN of the subtree with the users, such as dc=example,dc=org")
	l.unless((a.LDAP.BindDN == "") == (a.LDAP.Password == ""), at+"password", at+"bind_dn",
		"must be set together with accounts.ldap.bind_dn")
}

// isFilter reports whether an LDAP setting is a search filter.
func isFilter(text string) bool { return strings.HasPrefix(text, "(") }

var headerPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// changing are headers, or their prefixes, whose values vary between requests of one client or come from a proxy.
var changing = []string{
	"authorization", "cf-", "connection", "content-", "cookie", "date", "dnt-", "expect", "fly-", "forwarded", "host",
	"if-", "idempotency-", "origin",
	"proxy-", "range", "referer", "sec-fetch-", "sec-websocket-", "traceparent", "tracestate", "transfer-encoding",
	"true-client-ip", "via", "x-csrf", "x-forwarded", "x-real-ip", "x-request-id", "x-xsrf",
}

// identity checks the headers of the client fingerprint.
func (l *loader) identity() {
	c, seen := &l.loaded.Config, map[string]bool{}
	l.unless(len(c.Fingerprint.Headers) <= 16, "fingerprint.headers", "", "must be at most 16, not %d",
		len(c.Fingerprint.Headers))
	l.unless(len(c.Fingerprint.Headers) > 0 || len(c.Limits.Fingerprint) == 0, "fingerprint.headers", "",
		"must be set, because limits.fingerprint uses these headers")
	for i, name := range c.Fingerprint.Headers {
		at, small := fmt.Sprintf("fingerprint.headers[%d]", i), strings.ToLower(name)
		l.unless(headerPattern.MatchString(name), at, "", "must be the name of a header such as User-Agent, not %.60q", name)
		l.unless(!slices.ContainsFunc(changing, func(c string) bool { return strings.HasPrefix(small, c) }), at, "",
			"must not be %.60q: its value changes between requests of the same client", name)
		l.unless(!seen[small], at, "", "is a duplicate")
		seen[small] = true
	}
}
