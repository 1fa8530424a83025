// Package config reads authguard's settings: built-in defaults, overridden by a YAML file, overridden by environment
// variables.
//
// Unknown keys and variables, duplicate keys, values of a wrong type or out of range, and unreachable limits (rule R8)
// are errors. All errors are reported together, each with its line or variable ([Problem]). Every value knows its
// origin ([Loaded.Effective]). Secrets never print ([Secret]).
//
// To add a setting, add a field to [Config] and its meaning to settings.txt. The key is the field's name in snake case,
// inside the keys of the enclosing structs: CAPTCHAMode.CoolDown is captcha_mode.cool_down. Checks that tags cannot
// express belong in validate.go. The tags:
//
//   - key:"tls_ca" is the key if snake case would be wrong; key:"." puts the fields of a struct into the enclosing
//     section.
//   - reload:"live" makes the setting and everything below it reloadable for [Diff]. Omit it for values built once: a
//     listener, a database, a semaphore. bcrypt's cost is built once because R12's dummy hash must change with it.
//   - within:"1m 366d" is the range of a number, size or duration; words:"auto always never" lists the values of a
//     word.
//   - split:"," are the separators of a list's items in a variable; the default is commas and white space.
//   - text:"lines" allows several lines in a text.
//
// The package does not watch the file: to reload, call [Load] again and ask [Diff] what may change without a restart.
package config

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/route"
	"authguard/trusted"
)

// Config holds every setting. Start from [Default]; the zero Config is rejected. Copies share their lists: do not
// modify them.
type Config struct {
	Listen        string        // host:port of the public listener
	Data          string        // folder of the database, snapshot, secrets and socket
	SecureCookies SecureCookies `words:"auto always never"`
	Session       Session
	Origin        string             // public base URL, without a trailing slash; empty: unknown
	Access        []route.AccessRule `reload:"live"` // access rules of the apps behind authguard

	Admin          Admin
	TrustedProxies []netip.Prefix `reload:"live"` // their forwarding header is trusted; none by default
	// ProxyProtocolFrom are load balancers that must name the client with the PROXY protocol before the first byte of
	// HTTP.
	ProxyProtocolFrom []netip.Prefix `reload:"live"`
	// DirectClients are private networks whose machines log in directly. Several accounts at one of their IP addresses are
	// users, not an unconfigured proxy.
	DirectClients []netip.Prefix  `reload:"live"`
	Forwarded     ForwardedHeader `words:"x-forwarded-for forwarded" reload:"live" key:"forwarded_header"`

	Database Secret // PostgreSQL's DSN; empty: SQLite in the data folder
	KeysFile string // file with the secrets; empty: the file keys in the data folder
	Redis    Redis

	Accounts  Accounts
	Passwords Passwords
	// Monitor logs and reports the policy (Limits, Events, Lists and CAPTCHAMode) without enforcing it. Administrators can
	// change it in the running server.
	Monitor      bool        `reload:"live"`
	Limits       Limits      `reload:"live"`
	Fingerprint  Fingerprint `reload:"live"` // for limits.fingerprint
	CAPTCHAMode  CAPTCHAMode `key:"captcha_mode" reload:"live"`
	StepUp       StepUp      `reload:"live"`
	Challenge    Challenge   `reload:"live"`
	KnownClients KnownClients
	Pages        Pages `reload:"live"`
	Counters     Counters
	Audit        Audit `reload:"live"`
	Log          Log
	Metrics      Metrics
	Tracing      Tracing
	Alerts       Alerts `reload:"live"`
	Mail         Mail
	API          API      `reload:"live"`
	Events       []Event  `reload:"live"` // in the file, a mapping of names to limits
	Lists        []List   `reload:"live"` // IP lists maintained by others
	Proxy        Proxy    `reload:"live"`
	Realms       []Realm  `reload:"live"` // in addition to the default realm
	Shutdown     Shutdown `reload:"live"`
}

// List is an IP list maintained by others, and its action on logins from there. The limit "0 challenge" challenges
// every unknown client on it. See lists.Layout for the format.
type List struct {
	Name     string
	File     string
	Format   ListFormat    `words:"plain ipcat scored"` // empty: ListPlain
	Column   int           // column of the score, for ListScored; 0: 2
	MinScore float64       // entries with a lower score are ignored
	Action   ListVerdict   `words:"limits block allow"` // empty: ListLimits
	Limits   []guard.Limit `split:","`                  // in addition to limits.address
}

// Session configures user sessions.
type Session struct {
	Lifetime time.Duration `within:"1m 366d"` // absolute, even for sessions in use
	// Domain is the cookie's domain: the session is valid there and on every subdomain. Empty: only on the origin's host.
	Domain string
}

// Proxy protects the login of an app that cannot be changed.
type Proxy struct {
	Upstream        string        // base URL of the app; empty: the proxy is off
	Preset          string        // built-in routes of a known app, which come before Routes
	Routes          []Route       // guarded routes
	Timeout         time.Duration `within:"1s 10m"`           // for the app's response on a guarded route
	ResponseTimeout time.Duration `within:"1s 24h"`           // for the response header on all other routes
	MaxBody         Size          `within:"1KiB 16MiB"`       // of a request to a guarded route
	Script          ProxyScript   `words:"auto always never"` // whether the app's pages get the script for challenges
	Probe           bool          // test each route's success with one made-up login
}

// Route is a guarded route of the app. Empty Limits inherit the site's.
type Route struct {
	route.Spec `key:"."`
	Limits     RouteLimits
}

// RouteLimits are the limits of a route's counters. Empty lists inherit the site's.
type RouteLimits struct {
	Address     []guard.Limit `split:","`
	Network     []guard.Limit `split:","`
	Account     []guard.Limit `split:","`
	Pair        []guard.Limit `split:","`
	KnownClient []guard.Limit `split:","`
}

// Guarded returns all routes: the preset's, then the proxy's own.
func (p *Proxy) Guarded() []Route {
	preset, _ := Preset(p.Preset) // validated by Load
	return append(preset, p.Routes...)
}

// GuardedPaths lists the paths of Guarded once each: several routes may share one.
func (p *Proxy) GuardedPaths() string {
	var paths []string
	for _, one := range p.Guarded() {
		if !slices.Contains(paths, one.Path) {
			paths = append(paths, one.Path)
		}
	}
	return strings.Join(paths, ", ")
}

// Specs returns all routes without their limits.
func (p *Proxy) Specs() (all []route.Spec) {
	for _, one := range p.Guarded() {
		all = append(all, one.Spec)
	}
	return all
}

// PolicyOf returns the policy of a route's counters.
func (c Config) PolicyOf(r Route) guard.Policy {
	p, own := c.Policy(), r.Limits
	p.Events = nil // events belong to the site
	for _, one := range []struct {
		site *[]guard.Limit
		own  []guard.Limit
	}{
		{&p.Address, own.Address}, {&p.Network, own.Network}, {&p.Account, own.Account}, {&p.Pair, own.Pair},
		{&p.KnownClient, own.KnownClient},
	} {
		if len(one.own) > 0 {
			*one.site = one.own
		}
	}
	return p
}

// Shutdown configures graceful shutdown.
type Shutdown struct {
	// Delay is how long the server keeps serving after the signal. It is not ready during that time, and each response
	// closes its connection.
	Delay time.Duration `within:"0s 5m"`
	// Timeout is how long requests in progress may take after Delay.
	Timeout time.Duration `within:"1s 1h"`
}

// Admin is the listener of the admin console, metrics and health.
type Admin struct {
	Listen  string        // host:port; empty: off
	Session time.Duration `within:"1m 30d"` // lifetime of an administrator's session, used or not
	Idle    time.Duration `within:"1m 30d"` // a session that is unused for so long ends
	MFA     MFA           `words:"optional required" reload:"live"`
	// TrustedProxies are trusted on this listener only, and Config.TrustedProxies are not: a proxy of the public listener
	// need not be trusted for administrators.
	TrustedProxies []netip.Prefix `reload:"live"`
	// URLs are the admin console's base URLs, without a trailing slash. Alerts contain the first one. Their hosts are
	// accepted besides IP addresses and localhost.
	URLs []string `key:"urls" reload:"live"`
}

// Hosts returns the host names of the admin console; IP addresses are always accepted.
func (a *Admin) Hosts() (names []string) {
	for _, base := range a.URLs {
		u, _ := url.Parse(base) // validated
		if _, err := netip.ParseAddr(u.Hostname()); err != nil {
			names = append(names, u.Hostname())
		}
	}
	return names
}

// Redis holds the counters that the nodes of a site share. Without Addresses there is one node, which counts in its own
// memory.
type Redis struct {
	Addresses []string      // host:port of the server, of any Cluster nodes, or of the Sentinels
	Mode      RedisMode     `words:"standalone sentinel cluster"`
	Master    string        // the Sentinels' name for the master
	Prefix    string        // of every key
	Timeout   time.Duration `within:"10ms 5s"` // for one decision; then the node uses its local store

	Username         string // ACL user; empty: the default user
	Password         Secret
	SentinelUsername string // ACL user of the Sentinels
	SentinelPassword Secret

	TLS     bool
	TLSCA   string `key:"tls_ca"`   // PEM file; empty: the system's
	TLSCert string `key:"tls_cert"` // PEM file of a client certificate and its private key; empty: none
}

// On reports whether Redis is configured.
func (r *Redis) On() bool { return len(r.Addresses) > 0 }

// Accounts configures the password database.
type Accounts struct {
	Source         AccountSource `words:"table htpasswd query ldap"`
	Htpasswd       string        // path of the file, for SourceHtpasswd
	Database       Secret        // DSN for the queries
	Query          string        `text:"lines"` // SQL that returns an account's hash, for SourceQuery
	CanonicalQuery string        `text:"lines"` // SQL that returns the canonical name of an account with aliases; optional
	LDAP           LDAP          `key:"ldap"`
	CaseSensitive  bool          // treat Ann and ann as two accounts
}

// LDAP is a directory that checks passwords by bind, for SourceLDAP.
type LDAP struct {
	URL      string `key:"url"`       // ldap:// or ldaps://
	StartTLS bool   `key:"start_tls"` // encrypt ldap://
	TLSCA    string `key:"tls_ca"`    // PEM file; empty: the system's authorities
	BindDN   string `key:"bind_dn"`   // DN of the search account; empty: anonymous
	Password Secret // of the search account
	Base     string // base DN of users and groups
	User     string // search filter, in parentheses, or DN of a user's entry; contains {name}
	Name     string // attribute of the canonical name
	Mail     string // attribute of the email address
	Groups   string // attribute of the groups' DNs, or a search filter for them that contains {dn}
}

// Passwords bounds the password check (rule R19).
type Passwords struct {
	Cost          int           `within:"10 16"`    // bcrypt cost of new hashes
	MaxConcurrent int           `within:"0 1024"`   // concurrent checks; 0: the number of CPUs
	MaxQueued     int           `within:"1 100000"` // checks waiting in the queue
	QueueTimeout  time.Duration `within:"10ms 1m"`  // maximum wait in the queue
	Leaked        Leaked        `reload:"live"`
}

// Leaked is what happens to passwords that are known from leaks.
type Leaked struct {
	File         string // made by authguard password-list build; empty: new passwords must not be common
	Action       string `words:"step-up alert off"` // at a login
	NewPasswords string `words:"reject accept"`
}

// Limits is the brute-force policy, including how delayed attempts are held.
type Limits struct {
	PairDelay    PairDelay
	Address      []guard.Limit `split:","`
	Network      []guard.Limit `split:","`
	Account      []guard.Limit `split:","` // unknown clients only
	Fingerprint  []guard.Limit `split:","` // unknown clients only, by client fingerprint
	Site         []guard.Limit `split:","` // all unknown clients together
	Pair         []guard.Limit `split:","` // unknown clients only
	KnownClient  []guard.Limit `split:","`
	Spray        Spray
	CheckTimeout time.Duration // guard.Policy.CheckTimeout
	// DelayUpTo is how long the server may hold a delayed attempt; 0: answer at once.
	DelayUpTo time.Duration `within:"0s 1m"`
}

// Fingerprint configures the client fingerprint.
type Fingerprint struct {
	Headers []string // headers that the fingerprint is made from
}

// CAPTCHAMode is the site-wide switch.
type CAPTCHAMode struct {
	Threshold     Threshold
	Baseline      float64 // captchamode.Config.Baseline
	ThrottleAt    float64 `unit:"part"` // captchamode.Config.ThrottleAt
	CoolDown      CoolDown
	AddressShare  float64       `unit:"part"` // captchamode.Config.AddressShare
	Monitor       bool          // captchamode.Config.Monitor
	ThrottleDelay time.Duration // guard.Policy.ThrottleDelay
}

// StepUp is when an unknown client needs more than the right password (rule R32).
type StepUp struct {
	While        []string `words:"throttling captcha elevated"`
	WithoutEmail string   `words:"challenge block"` // where no verification code can be sent
	Monitor      bool
}

func (s StepUp) policy(leaked bool) guard.StepUp {
	return guard.StepUp{
		Leaked:     leaked,
		Throttling: slices.Contains(s.While, "throttling"), Captcha: slices.Contains(s.While, "captcha"),
		Elevated: slices.Contains(s.While, "elevated"), BlockWithoutCode: s.WithoutEmail == "block",
		Monitor: s.Monitor && (leaked || len(s.While) > 0),
	}
}

// Mode returns what the switch itself needs.
func (c CAPTCHAMode) Mode() captchamode.Config {
	return captchamode.Config{
		ThresholdMultiplier: c.Threshold.Multiplier, ThresholdMin: c.Threshold.Min, ThresholdMax: c.Threshold.Max,
		Baseline: c.Baseline, ThrottleAt: c.ThrottleAt, CoolDown: c.CoolDown.Max, CoolDownMin: c.CoolDown.Min,
		AddressShare: c.AddressShare, Monitor: c.Monitor,
	}
}

func captchaModeOf(c captchamode.Config, delay time.Duration) CAPTCHAMode {
	return CAPTCHAMode{
		Threshold: Threshold{c.ThresholdMultiplier, c.ThresholdMin, c.ThresholdMax}, Baseline: c.Baseline,
		ThrottleAt: c.ThrottleAt, CoolDown: CoolDown{c.CoolDownMin, c.CoolDown}, AddressShare: c.AddressShare,
		Monitor: c.Monitor, ThrottleDelay: delay,
	}
}

// Challenge configures what unknown clients have to solve.
type Challenge struct {
	Kind      ChallengeKind `words:"both image pow turnstile hcaptcha recaptcha friendly"`
	PowCost   int           `within:"100 20000"` // average derivations per solution, at the lowest level
	SiteKey   string        // public key of a CAPTCHA provider
	SecretKey Secret        // secret of a CAPTCHA provider
	VerifyURL string        `key:"verify_url"` // URL of the provider's siteverify; empty: the provider's default
}

// Remote reports whether a CAPTCHA provider on the web serves the challenges.
func (c *Challenge) Remote() bool { return remote.Known(string(c.Kind)) }

// Preferred returns the kind of package challenge.
func (c *Challenge) Preferred() string {
	if c.Remote() {
		return challenge.KindRemote
	}
	return string(c.Kind)
}

// Provider configures the provider on the web; zero for none.
func (c Config) Provider() remote.Config {
	of := c.Challenge
	if !of.Remote() {
		return remote.Config{}
	}
	origin, _ := url.Parse(c.Origin) // validated
	return remote.Config{
		Service: string(of.Kind), SiteKey: of.SiteKey, Secret: of.SecretKey.Reveal(), Verify: of.VerifyURL,
		Hosts: []string{strings.ToLower(origin.Hostname())},
	}
}

// ClientHeaders returns the headers of the client fingerprint; none if no limit uses it.
func (c Config) ClientHeaders() []string {
	if len(c.Limits.Fingerprint) == 0 {
		return nil
	}
	return c.Fingerprint.Headers
}

// KnownClients bounds the known clients of one account (rule R14).
type KnownClients struct {
	MaxPerAccount         int           // the least recently used is removed first
	TTL                   time.Duration `within:"1h 1000d"` // since the last login from that client
	MaxAccountsPerAddress int           `within:"2 1000"`   // accounts with the same IP address as known client (R30)
	DeviceCookie          bool          `reload:"live"`     // recognize browsers, too
}

// Pages is the appearance of the public pages. The files are read at start and on reload.
type Pages struct {
	Name      string // the site's name; empty: authguard's
	Logo      string // path of an SVG, PNG or JPEG file; empty: none
	Color     string // #rrggbb; empty: authguard's
	HelpURL   string `key:"help_url"`   // https: or mailto: URL of "Need help?"; empty: no such link
	ForgotURL string `key:"forgot_url"` // https: or mailto: URL of "Forgot your password?"; empty: no such link
	Texts     string // folder with texts in further languages; empty: none
}

// Counters is the memory store of the sliding windows.
type Counters struct {
	Memory       Size          `within:"16MiB 512GiB"` // when it is full, decisions get stricter
	SaveInterval time.Duration `within:"100ms 1m"`     // what a power failure can lose
}

// Audit configures the record of decisions.
type Audit struct {
	Retention time.Duration `within:"1h 7320d"`
	// AdminRetention is for operations of administrators, changes of CAPTCHA mode, and attacks with the accounts that
	// logged in during them.
	AdminRetention time.Duration `within:"1d 7320d"`
	MaxRows        int           `within:"10000 1000000000"` // internal/audit defines what is removed first
}

// Log is the program's own log.
type Log struct {
	Format LogFormat `words:"text json"`
	Level  LogLevel  `words:"debug info warn error" reload:"live"`
}

// Metrics configures StatsD. The admin listener serves /metrics regardless.
type Metrics struct {
	StatsD string `key:"statsd"` // host:port, or host:port/prefix; empty: nowhere
}

// Server returns the StatsD server's host:port, and the prefix of all names.
func (m *Metrics) Server() (at, prefix string) {
	at, prefix, _ = strings.Cut(m.StatsD, "/")
	return at, cmp.Or(prefix, "authguard")
}

// Tracing configures the export of OpenTelemetry traces.
type Tracing struct {
	Endpoint string // base URL of a collector; empty: nowhere
}

// Alerts configures notifications about attacks.
type Alerts struct {
	To              []Secret       `split:" \t\r\n"`  // channel addresses, which may contain commas
	MaxPerHour      int            `within:"1 10000"` // further messages are counted and summarized
	GroupWait       time.Duration  `within:"0s 1h"`   // events within this time share one message
	PrivateNetworks []netip.Prefix // non-public networks that webhooks may connect to
	// FailureRatio is the ratio of failed to successful logins that triggers an alert, whatever the baseline. 0 turns this
	// alert off.
	FailureRatio float64
}

// Mail sends verification codes and notifications to account owners.
type Mail struct {
	Server Secret // smtp:// or smtps:// URL; empty: no email
	From   string // an address, or a name and an address in angle brackets
	// NotifyNewClient emails the account's owner about each login from an unknown client.
	NotifyNewClient bool
	PasswordReset   bool   // links to reset a forgotten password, in authguard's own table
	Language        string // of emails to owners; a tag such as de
}

// API is the decision API.
type API struct {
	Tokens []Secret // bearer tokens; none: the API is off
}

const day = 24 * time.Hour

// Default returns the settings without a file and without variables.
func Default() Config {
	policy := guard.DefaultPolicy()
	return Config{
		Listen:        "127.0.0.1:8080",
		Data:          "./authguard-data",
		SecureCookies: SecureAuto,
		Session:       Session{Lifetime: 12 * time.Hour},
		Admin:         Admin{Listen: "127.0.0.1:8081", Session: 12 * time.Hour, Idle: 30 * time.Minute, MFA: MFAOptional},
		Forwarded:     XForwardedFor,
		Redis:         Redis{Mode: RedisStandalone, Prefix: "ag:", Timeout: 250 * time.Millisecond},
		Accounts:      Accounts{Source: SourceTable, LDAP: LDAP{Name: "uid", Mail: "mail", Groups: "memberOf"}},
		Passwords: Passwords{Cost: 12, MaxQueued: 256, QueueTimeout: 3 * time.Second,
			Leaked: Leaked{Action: "step-up", NewPasswords: "reject"}},
		Limits: Limits{
			PairDelay: PairDelay(policy.PairDelay),
			Address:   policy.Address, Network: policy.Network, Account: policy.Account, KnownClient: policy.KnownClient,
			Spray: Spray(policy.Spray), CheckTimeout: policy.CheckTimeout,
		},
		Fingerprint: Fingerprint{Headers: []string{"User-Agent", "Accept", "Accept-Language", "Accept-Encoding"}},
		CAPTCHAMode: captchaModeOf(captchamode.DefaultConfig(), policy.ThrottleDelay),
		StepUp:      StepUp{While: []string{"throttling", "captcha", "elevated"}, WithoutEmail: "challenge"},
		Challenge:   Challenge{Kind: KindBoth, PowCost: 2_000},
		KnownClients: KnownClients{MaxPerAccount: policy.KnownClients.MaxClients, TTL: policy.KnownClients.TTL,
			MaxAccountsPerAddress: policy.KnownClients.Sharers, DeviceCookie: true},
		Counters: Counters{Memory: 256 * MiB, SaveInterval: 2 * time.Second},
		Audit:    Audit{Retention: 90 * day, AdminRetention: 730 * day, MaxRows: 5_000_000},
		Log:      Log{Format: FormatText, Level: LevelInfo},
		Alerts:   Alerts{MaxPerHour: 20, GroupWait: 30 * time.Second, FailureRatio: 0.2},
		Mail:     Mail{Language: "en", PasswordReset: true},
		Proxy: Proxy{Timeout: 30 * time.Second, ResponseTimeout: 5 * time.Minute, MaxBody: 64 * KiB, Script: ScriptAuto,
			Probe: true},
		Shutdown: Shutdown{Delay: time.Second, Timeout: 15 * time.Second},
	}
}

// Policies returns the policies of all counters: of every realm, and of routes with limits of their own.
func (c Config) Policies() []guard.Policy {
	all := []guard.Policy{c.Policy()}
	for _, r := range c.Proxy.Guarded() {
		all = append(all, c.PolicyOf(r))
	}
	for _, r := range c.Realms {
		all = append(all, c.In(r).Policies()...)
	}
	return all
}

// Longest returns the longest window and check timeout of all realms and routes: they share one store.
func (c Config) Longest() (window, checkTimeout time.Duration) {
	for _, p := range c.Policies() {
		window, checkTimeout = max(window, p.Retain()), max(checkTimeout, p.CheckTimeout)
	}
	return window, checkTimeout
}

// Alerting returns the settings of alerts.
func (c Config) Alerting() alerts.Config {
	a := alerts.Config{Bundle: c.Alerts.GroupWait, PerHour: c.Alerts.MaxPerHour, Private: c.Alerts.PrivateNetworks,
		FailureRatio: c.Alerts.FailureRatio, Node: alerts.NodeName(c.Listen)}
	if len(c.Admin.URLs) > 0 {
		a.URL = c.Admin.URLs[0]
	}
	for _, to := range c.Alerts.To {
		a.To = append(a.To, to.Reveal())
	}
	return a
}

// Policy returns the settings that a decision depends on.
func (c Config) Policy() guard.Policy {
	l := c.Limits
	return guard.Policy{
		PairDelay:     guard.PairDelay(l.PairDelay),
		Address:       l.Address,
		Network:       l.Network,
		Account:       l.Account,
		KnownClient:   l.KnownClient,
		Fingerprint:   l.Fingerprint,
		Site:          l.Site,
		Pair:          l.Pair,
		Spray:         guard.Spray(l.Spray),
		StepUp:        c.StepUp.policy(c.Passwords.Leaked.Action == "step-up"),
		ThrottleDelay: c.CAPTCHAMode.ThrottleDelay,
		CheckTimeout:  l.CheckTimeout,
		KnownClients: trusted.Limits{MaxClients: c.KnownClients.MaxPerAccount, TTL: c.KnownClients.TTL,
			Sharers: c.KnownClients.MaxAccountsPerAddress},
		Devices: c.KnownClients.DeviceCookie,
		Events:  eventsOf(c.Events),
		Lists:   c.namedLists(),
	}
}
