// Package config reads authguard's settings: built-in defaults, overridden by a
// YAML file, overridden by environment variables.
//
// Nothing is guessed. An unknown key or variable, a key set twice, a value of
// the wrong type or out of range, and a limit that can never be reached (rule
// R8) are errors. All are reported at once, each with its line or variable
// ([Problem]). Every value knows its origin ([Loaded.Effective]). Secrets do
// not print ([Secret]).
//
// To add a setting, add a field to [Config] and a row to docs/configuration.md;
// a test compares the two. The key is the field's name in snake case, inside
// the keys of the enclosing structs: Site.Mode.CoolDown is captcha_mode.cool_down.
// Checks that tags cannot express belong in validate.go. The tags:
//
//   - key:"tls_ca" is the key where snake case would be wrong; key:"." puts the
//     fields of a struct into the enclosing section.
//   - reload:"live" makes the setting, and all below it, reloadable for [Diff].
//     Leave it out for what is built once: a listener, a database, a semaphore.
//     bcrypt's cost is built once because R12's dummy hash must change with it.
//   - within:"1m 366d" is the range of a number, a size or a duration, and
//     words:"auto always never" lists the values of a word.
//   - split:"," are the characters that separate a list's items in a variable,
//     if not commas and white space.
//   - text:"lines" allows several lines in a text.
//
// The package does not watch the file: to reload, call [Load] again and ask
// [Diff] what may change without a restart.
package config

import (
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/access"
	"authguard/internal/route"
	"authguard/trusted"
)

// A Config is every setting. Start from [Default]; the zero Config is refused.
// Copies share their lists, which must not be changed.
type Config struct {
	Listen        string        // host:port of the doors
	Data          string        // folder of the database, the snapshot, the secrets and the socket
	SecureCookies SecureCookies `words:"auto always never"`
	Session       Session
	Origin        string        // public base URL, without a trailing slash; empty: unknown
	Access        []access.Rule `reload:"live"` // who may what behind a gateway; see package access

	Admin          Admin
	TrustedProxies []netip.Prefix `reload:"live"` // whose forwarding header is believed; none by default
	// ProxyProtocol are the balancers that must say with the PROXY protocol whom they
	// speak for, before the first byte of HTTP.
	ProxyProtocolFrom []netip.Prefix `reload:"live"`
	// AllowDirect are private networks whose machines log in themselves: several
	// accounts at one of their addresses are people, and no forgotten proxy.
	DirectClients []netip.Prefix  `reload:"live"`
	Forwarded     ForwardedHeader `words:"x-forwarded-for forwarded" reload:"live" key:"forwarded_header"`

	Database Secret // PostgreSQL's DSN; empty: SQLite in the data folder
	KeysFile string // the secrets; empty: the file keys in the data folder
	Redis    Redis

	Accounts  Accounts
	Passwords Passwords
	// Monitor: the policy is logged and reported, and not enforced: all of Limits, Events, Lists and
	// CAPTCHAMode. Administrators can change it in the running server.
	Monitor      bool        `reload:"live"`
	Limits       Limits      `reload:"live"`
	Fingerprint  Fingerprint `reload:"live"` // of clients, for limits.fingerprint
	CAPTCHAMode  CAPTCHAMode `key:"captcha_mode" reload:"live"`
	Challenge    Challenge   `reload:"live"`
	KnownClients KnownClients
	Pages        Pages `reload:"live"`
	Counters     Counters
	Audit        Audit   `reload:"live"`
	Attacks      Attacks `reload:"live"`
	Log          Log
	Metrics      Metrics
	Tracing      Tracing
	Alerts       Alerts `reload:"live"`
	Mail         Mail
	API          API      `reload:"live"`
	Events       []Event  `reload:"live"` // in the file a mapping of names to limits
	Lists        []List   `reload:"live"` // of addresses, that somebody else keeps
	Proxy        Proxy    `reload:"live"`
	Realms       []Realm  `reload:"live"` // beside this one
	Shutdown     Shutdown `reload:"live"`
}

// List is a file of addresses that somebody else keeps, and what becomes of logins from
// there; see lists.Layout for the format.
type List struct {
	Name     string
	File     string
	Format   ListFormat    `words:"plain ipcat scored"` // empty: ListPlain
	Column   int           // of the score, for ListScored; 0: 2
	MinScore float64       // score; those below are left out
	Action   ListVerdict   `words:"limits block allow"` // empty: ListLimits
	Limits   []guard.Limit `split:","`                  // beside limits.address; 0 challenge asks every stranger
}

// Session is a login.
type Session struct {
	Lifetime time.Duration `within:"1m 366d"` // used or not
	// Domain is where it is good beside the host of the origin: there and at every name
	// below; empty: nowhere.
	Domain string
}

// Proxy stands before the login of an app that cannot be changed.
type Proxy struct {
	Upstream        string        // base URL of the app; empty: there is no proxy
	Preset          string        // routes of an app that is known here, which come before Routes
	Routes          []Route       // that are guarded
	Timeout         time.Duration `within:"1s 10m"`     // for the app's answer on a guarded route
	ResponseTimeout time.Duration `within:"1s 24h"`     // for the head of its answer to anything else
	MaxBody         Size          `within:"1KiB 16MiB"` // of a request to a guarded route
}

// A Route is a guarded route of the app, with limits of its own where it has any.
type Route struct {
	route.Spec `key:"."`
	Limits     RouteLimits
}

// RouteLimits are the limits of a route's counters; those that are left out are the
// site's.
type RouteLimits struct {
	Address     []guard.Limit `split:","`
	Network     []guard.Limit `split:","`
	Account     []guard.Limit `split:","`
	Pair        []guard.Limit `split:","`
	KnownClient []guard.Limit `split:","`
}

// Guarded are all routes: the preset's, and the proxy's own.
func (p *Proxy) Guarded() []Route {
	preset, _ := Preset(p.Preset) // which was checked
	return append(preset, p.Routes...)
}

// PolicyOf is the policy of the counters that a route has.
func (c Config) PolicyOf(r Route) guard.Policy {
	p, own := c.Policy(), r.Limits
	p.Events = nil // those are the site's
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

// Shutdown is how the server ends.
type Shutdown struct {
	// Delay is how long it goes on after it was told to, not ready, with every answer
	// closing its connection.
	Delay time.Duration `within:"0s 5m"`
	// Within is how long requests that are being answered then may go on.
	Timeout time.Duration `within:"1s 1h"`
}

// Admin is the listener for pages, metrics and health.
type Admin struct {
	Listen  string        // host:port; empty: off
	Session time.Duration `within:"1m 30d"` // how long an administrator's login lasts, used or not
	Idle    time.Duration `within:"1m 30d"` // after how long unused it ends
	// MFA says whether every administrator needs one.
	MFA MFA `words:"optional required" reload:"live"`
	// Proxies are believed here and nowhere else, and Config.Proxies not here:
	// whoever may speak for the visitors of the doors need not for administrators.
	TrustedProxies []netip.Prefix `reload:"live"`
	// names that the listener may be called by, beside IP addresses and localhost
	Hosts []string `reload:"live"`
	// URL is the base URL by which administrators call it, without a trailing slash, for what
	// is sent to them; empty: unknown.
	URL string `reload:"live"`
}

// Redis is where the nodes of a site count together. Without Addresses there is
// one node, which counts in its own memory.
type Redis struct {
	Addresses []string      // host:port of the server, of any of a Cluster's nodes, or of the Sentinels
	Mode      RedisMode     `words:"standalone sentinel cluster"`
	Master    string        // the Sentinels' name for the master
	Database  int           `within:"0 1000000"` // 0 in a Cluster
	Prefix    string        // of every key
	Timeout   time.Duration `within:"10ms 5s"` // for one decision; after that the node decides alone

	Username         string // ACL user; empty: the default user
	Password         Secret
	SentinelUsername string // ACL user of the Sentinels
	SentinelPassword Secret

	TLS     bool
	TLSCA   string `key:"tls_ca"`   // PEM file; empty: the system's
	TLSCert string `key:"tls_cert"` // PEM file of a client certificate; empty: none
	TLSKey  string `key:"tls_key"`  // PEM file of its key
}

// On reports whether there is a Redis.
func (r *Redis) On() bool { return len(r.Addresses) > 0 }

// Accounts says where passwords are looked up.
type Accounts struct {
	Source         AccountSource `words:"table htpasswd query ldap"`
	Htpasswd       string        // path of the file, for SourceHtpasswd
	Database       Secret        // DSN for the queries
	Query          string        `text:"lines"` // SQL that finds an account's hash, for SourceQuery
	CanonicalQuery string        `text:"lines"` // SQL that finds the one name of an account with several; optional
	LDAP           LDAP          `key:"ldap"`
	CaseSensitive  bool          // whether Ann and ann are two accounts
}

// LDAP is a directory that checks passwords by a bind, for SourceLDAP.
type LDAP struct {
	URL         string `key:"url"`       // ldap:// or ldaps://
	StartTLS    bool   `key:"start_tls"` // encrypts ldap://
	TLSCA       string `key:"tls_ca"`    // PEM file; empty: the system's authorities
	BindDN      string `key:"bind_dn"`   // of the account that searches; empty: anonymous
	Password    Secret // of that account
	Base        string // DN below which people and groups are
	Filter      string // that finds {name}
	UserDN      string `key:"user_dn"` // of {name}, in place of a filter
	Name        string // attribute of the canonical name
	Mail        string // attribute of the e-mail address
	Groups      string // attribute of the groups' DNs
	GroupFilter string // that finds the groups of {dn}, in place of that attribute
}

// Passwords bounds the password check (rule R19).
type Passwords struct {
	Cost          int           `within:"10 16"`    // bcrypt's, for new hashes
	MaxConcurrent int           `within:"0 1024"`   // checks at the same time; 0: as many as CPUs
	MaxQueued     int           `within:"1 100000"` // checks that may wait for one of those
	QueueTimeout  time.Duration `within:"10ms 1m"`  // how long they may wait
}

// Limits is the policy against guessing, and how attempts that come too early
// are held.
type Limits struct {
	PairDelay    guard.PairDelay // delays nothing if its First is zero; see [Config.Policy]
	Address      []guard.Limit   `split:","`
	Network      []guard.Limit   `split:","`
	Account      []guard.Limit   `split:","` // strangers only
	Fingerprint  []guard.Limit   `split:","` // strangers only, by what their clients look like
	Site         []guard.Limit   `split:","` // strangers only, all together
	Pair         []guard.Limit   `split:","` // strangers only
	KnownClient  []guard.Limit   `split:","`
	Spray        guard.Spray     // recognises nothing if its Accounts is zero
	CheckTimeout time.Duration   // guard.Policy.PendingFor
	// how long an attempt may be held on a timer; 0: answer at once
	DelayUpTo            time.Duration `within:"0s 1m"`
	MaxDelayed           int           `within:"1 1000000"` // attempts held at the same time
	MaxDelayedPerAddress int           `within:"1 1000000"` // of those, from one address
}

// Fingerprint is what a client looks like.
type Fingerprint struct {
	Headers []string // whose values count
}

// Site is the site-wide switch.
type CAPTCHAMode struct {
	Mode          captchamode.Config `key:"."`
	ThrottleDelay time.Duration      // guard.Policy.SiteSlow
}

// Challenge is what a stranger is asked to solve.
type Challenge struct {
	Kind      ChallengeKind `words:"both image pow turnstile hcaptcha recaptcha friendly"`
	TTL       time.Duration `within:"30s 1h"`    // how long there is time for it
	PowCost   int           `within:"100 20000"` // derivations that a solution takes on average, at the lowest level
	SiteKey   string        // of a provider on the web: public
	SecretKey Secret        // of a provider on the web
	VerifyURL string        `key:"verify_url"` // URL of its siteverify; empty: where the provider says
}

// Remote reports whether challenges are those of a provider on the web.
func (c *Challenge) Remote() bool { return remote.Known(string(c.Kind)) }

// Places bounds the privileged places of one account (rule R14).
type KnownClients struct {
	MaxPerAccount         int           // the least recently used goes first
	TTL                   time.Duration `within:"1h 1000d"` // since the last login from there
	MaxAccountsPerAddress int           `within:"2 1000"`   // accounts that one address may be a place of (R30)
	DeviceCookie          bool          `reload:"live"`     // remember browsers, too
}

// Pages is what the pages for the public show of their site. The files are read
// at the start and on reload.
type Pages struct {
	Name    string // the site's; empty: authguard's
	Logo    string // path of an SVG, PNG or JPEG file; empty: none
	Color   string // #rrggbb; empty: authguard's
	HelpURL string `key:"help_url"` // https: or mailto: URL of "Need help?"; empty: no such link
	Texts   string // path of a folder with texts in further languages; empty: none
}

// Counters is the memory store of the exact windows.
type Counters struct {
	Memory       Size          `within:"16MiB 512GiB"` // when it is used up, the guard gets stricter
	SaveInterval time.Duration `within:"100ms 1m"`     // what a power cut can lose
}

// Audit is the record of what was decided.
type Audit struct {
	Retention      time.Duration `within:"1h 7320d"`
	AdminRetention time.Duration `within:"1h 7320d"`    // what administrators and the mode did
	MaxSize        Size          `within:"16MiB 16TiB"` // with its indexes; what goes first is in internal/audit
}

// Attacks is how long attacks are kept, with who was logged in to during them.
type Attacks struct {
	Retention time.Duration `within:"1d 7320d"`
}

// Log is the program's own log.
type Log struct {
	Format LogFormat `words:"text json"`
	Level  LogLevel  `words:"debug info warn error" reload:"live"`
}

// Metrics are where numbers are sent, beside /metrics of the administration.
type Metrics struct {
	StatsD string `key:"statsd"` // host:port; empty: nowhere
	Prefix string // of the names there
}

// Tracing is where OpenTelemetry's traces are sent.
type Tracing struct {
	Endpoint   string  // base URL of a collector; empty: nowhere
	SampleRate float64 `unit:"part"` // of requests that are traced, above 0 and at most 1
}

// Alerts says whom to notify of an attack.
type Alerts struct {
	To              []Secret       `split:" \t\r\n"`  // addresses of channels, which may contain commas
	MaxPerHour      int            `within:"1 10000"` // messages; the rest are counted and summed up
	GroupWait       time.Duration  `within:"0s 1h"`   // what happens within this time goes into one message
	QuietHours      string         // hours in which only what is important goes out; empty: none
	PrivateNetworks []netip.Prefix // networks, beside the internet, that web hooks may be in
	// FailureRatio is how many logins may fail for each that succeeds, whatever is usual;
	// 0: nobody is told.
	FailureRatio float64
}

// Mail is where one-time codes are sent from, to the owners of accounts.
type Mail struct {
	Server Secret // smtp:// or smtps:// URL; empty: nobody can have a code sent
	From   string // an address, or a name and an address in angle brackets
	// NewPlace has the owner of an account told of each login from a new place.
	NotifyNewClient bool
	Language        string // of what owners are told; a tag such as de
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
		Passwords:     Passwords{Cost: 12, MaxQueued: 256, QueueTimeout: 3 * time.Second},
		Limits: Limits{
			PairDelay: policy.PairDelay,
			Address:   policy.Address, Network: policy.Network, Account: policy.Account, KnownClient: policy.KnownClient,
			Spray: policy.Spray, CheckTimeout: policy.CheckTimeout, MaxDelayed: 20_000, MaxDelayedPerAddress: 100,
		},
		Fingerprint: Fingerprint{Headers: []string{"User-Agent", "Accept", "Accept-Language", "Accept-Encoding"}},
		CAPTCHAMode: CAPTCHAMode{Mode: captchamode.DefaultConfig(), ThrottleDelay: policy.ThrottleDelay},
		Challenge:   Challenge{Kind: KindBoth, TTL: 5 * time.Minute, PowCost: 2_000},
		KnownClients: KnownClients{MaxPerAccount: policy.KnownClients.Places, TTL: policy.KnownClients.TTL,
			MaxAccountsPerAddress: policy.KnownClients.Sharers, DeviceCookie: true},
		Counters: Counters{Memory: 256 * MiB, SaveInterval: 2 * time.Second},
		Attacks:  Attacks{Retention: 365 * day},
		Audit:    Audit{Retention: 90 * day, AdminRetention: 730 * day, MaxSize: 2 * GiB},
		Log:      Log{Format: FormatText, Level: LevelInfo},
		Metrics:  Metrics{Prefix: "authguard"},
		Tracing:  Tracing{SampleRate: 1},
		Alerts:   Alerts{MaxPerHour: 20, GroupWait: 30 * time.Second, FailureRatio: 0.2},
		Mail:     Mail{Language: "en"},
		Proxy:    Proxy{Timeout: 30 * time.Second, ResponseTimeout: 5 * time.Minute, MaxBody: 64 * KiB},
		Shutdown: Shutdown{Delay: time.Second, Timeout: 15 * time.Second},
	}
}

// Policies are those of all counters: of every realm, and of the routes that have
// limits of their own.
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

// Policy returns the settings that a decision depends on. A pair delay whose
// first delay is zero delays nothing.
func (c Config) Policy() guard.Policy {
	l := c.Limits
	if l.PairDelay.First == 0 {
		l.PairDelay = guard.PairDelay{}
	}
	return guard.Policy{
		PairDelay:     l.PairDelay,
		Address:       l.Address,
		Network:       l.Network,
		Account:       l.Account,
		KnownClient:   l.KnownClient,
		Fingerprint:   l.Fingerprint,
		Site:          l.Site,
		Pair:          l.Pair,
		Spray:         l.Spray,
		ThrottleDelay: c.CAPTCHAMode.ThrottleDelay,
		CheckTimeout:  l.CheckTimeout,
		KnownClients: trusted.Limits{Places: c.KnownClients.MaxPerAccount, TTL: c.KnownClients.TTL,
			Sharers: c.KnownClients.MaxAccountsPerAddress},
		Devices: c.KnownClients.DeviceCookie,
		Events:  eventsOf(c.Events),
		Lists:   c.namedLists(),
	}
}
