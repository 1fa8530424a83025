package config

import (
	"net/netip"
	"time"

	"authguard/captchamode"
	"authguard/guard"
)

// A Config is every setting, with its YAML path where that is not the field's
// name in snake case. Start from [Default]; the zero Config does not validate.
// It is a value: two copies share only their lists, which nobody changes.
type Config struct {
	Listen string // host:port of the doors
	Data   string // folder of the database, the snapshot, the secrets and the socket

	Database Secret // DSN of PostgreSQL; empty: SQLite in the data folder
	KeysFile string // the secrets; empty: the file keys in the data folder
	Redis    Redis

	SecureCookies SecureCookies
	Session       time.Duration // how long a login lasts
	Origin        string        // public base URL, without a trailing slash; empty: unknown

	Admin     Admin
	Proxies   []netip.Prefix  // whose forwarding header is believed; none by default
	Forwarded ForwardedHeader // forwarded_header
	Accounts  Accounts
	Passwords Passwords
	Limits    Limits
	Site      Site
	Challenge Challenge
	Places    Places
	Counters  Counters
	Audit     Audit
	Log       Log
	Alerts    Alerts
	API       API
}

// Redis is where the nodes of a site count together. Without Addresses there is
// one node, which counts in its own memory.
type Redis struct {
	Addresses []string // host:port: the server, any of a Cluster, or the Sentinels
	Mode      RedisMode
	Master    string // how the Sentinels call the master
	Database  int
	Prefix    string // of every key
	Timeout   time.Duration

	Username         string
	Password         Secret
	SentinelUsername string
	SentinelPassword Secret

	TLS     bool
	TLSCA   string // PEM file; empty: the system's
	TLSCert string // PEM file of a client certificate; empty: none
	TLSKey  string
}

// On reports whether there is a Redis.
func (r *Redis) On() bool { return len(r.Addresses) > 0 }

// Admin is the listener for pages, metrics and health.
type Admin struct {
	Listen  string // empty: off
	Session time.Duration
}

// Accounts says where passwords are looked up.
type Accounts struct {
	Source         AccountSource
	Htpasswd       string // path of the file, for SourceHtpasswd
	Database       Secret // DSN, for the two queries
	Query          string // SQL that finds an account's hash, for SourceQuery
	CanonicalQuery string // SQL that finds the one name of an account with several; optional
	CaseSensitive  bool
}

// Passwords bounds the password check (rule R19).
type Passwords struct {
	Cost   int           // bcrypt's, for new hashes
	AtOnce int           // checks at the same time; 0: as many as CPUs
	Queue  int           // checks that may wait for one of those
	Wait   time.Duration // and for how long
}

// Limits is the policy against guessing, and how attempts that come too early
// are held.
type Limits struct {
	// PairDelay delays nothing if its First is zero; see [Config.Policy].
	PairDelay      guard.Delay
	Address        []guard.Limit
	Network        []guard.Limit
	Account        []guard.Limit
	PrivilegedPair []guard.Limit
	LongestCheck   time.Duration // guard.Policy.PendingFor
	Hold           time.Duration // how long an attempt may be held on a timer; 0: answer at once
	Held           int           // attempts held at the same time
	HeldPerAddress int
}

// Site is the site-wide switch: Mode's fields are site.floor and so on.
type Site struct {
	Mode captchamode.Config
	Slow time.Duration // guard.Policy.SiteSlow
}

// Challenge is what a stranger is asked to solve.
type Challenge struct {
	Kind    ChallengeKind
	TTL     time.Duration
	PowCost int // ALTCHA's maxnumber: twice the hashes that a solution takes on average
}

// Places bounds the privileged places of one account (rule R14).
type Places struct {
	PerAccount   int
	TTL          time.Duration // since the last login from there
	DeviceCookie bool
}

// Counters is the memory store of the exact windows.
type Counters struct {
	Memory    Size
	SaveEvery time.Duration
}

// Audit is the record of what was decided.
type Audit struct {
	Keep time.Duration
	Rows int // at most; the oldest go first
}

// Log is the program's own log.
type Log struct {
	Format LogFormat
	Level  LogLevel
}

// Alerts says whom to tell about an attack.
type Alerts struct {
	To      []Secret // shoutrrr URLs
	PerHour int
	Bundle  time.Duration // what happens within this time goes into one message
}

// API is the decision API.
type API struct {
	Tokens []Secret // bearer tokens; none: the API is off
}
