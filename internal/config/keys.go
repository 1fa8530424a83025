package config

import (
	"slices"
	"time"

	"authguard/failures"
)

// A key is one setting: a row of the table.
type key struct {
	path   string
	value  value
	live   bool // a reload may change it; see Diff for what that asks
	secret bool
}

func fixed(path string, v value) key { return key{path: path, value: v} }
func live(path string, v value) key  { return key{path: path, value: v, live: true} }
func (k key) hidden() key            { k.secret = true; return k }
func (k key) variable() string       { return variable(k.path) }

// keys is every setting of c, in the order of its fields.
//
// A key is fixed if what it sets is built once: a listener, a database, a
// semaphore's width. bcrypt's cost is fixed because the dummy hash of R12 must
// change together with it.
func keys(c *Config) []key {
	return slices.Concat(
		serverKeys(c), nodeKeys(c), accountKeys(&c.Accounts), passwordKeys(&c.Passwords), limitsKeys(&c.Limits),
		siteKeys(&c.Site), challengeKeys(c), upkeepKeys(c), tellKeys(c),
	)
}

func serverKeys(c *Config) []key {
	return []key{
		fixed("listen", endpoint(&c.Listen)),
		fixed("data", text(&c.Data, notEmpty, oneLine)),
		fixed("secure_cookies", word(&c.SecureCookies, SecureAuto, SecureAlways, SecureNever)),
		fixed("session", span(&c.Session, time.Minute, 366*day)),
		fixed("origin", baseURL(&c.Origin)),
		fixed("admin.listen", optionalEndpoint(&c.Admin.Listen)),
		fixed("admin.session", span(&c.Admin.Session, time.Minute, 30*day)),
		live("proxies", networks(&c.Proxies)),
		live("forwarded_header", word(&c.Forwarded, XForwardedFor, Forwarded)),
	}
}

func nodeKeys(c *Config) []key {
	r := &c.Redis
	return []key{
		fixed("database", text(&c.Database, oneLine, postgres)).hidden(),
		fixed("keys_file", text(&c.KeysFile, oneLine)),
		fixed("redis.addresses", endpoints(&r.Addresses)),
		fixed("redis.mode", word(&r.Mode, RedisStandalone, RedisSentinel, RedisCluster)),
		fixed("redis.master", text(&r.Master, oneLine)),
		fixed("redis.database", number(&r.Database, 0, 1_000_000)),
		fixed("redis.prefix", text(&r.Prefix, notEmpty, oneLine, noBraces)),
		fixed("redis.timeout", span(&r.Timeout, 10*time.Millisecond, 5*time.Second)),
		fixed("redis.username", text(&r.Username, oneLine)),
		fixed("redis.password", text(&r.Password, oneLine)).hidden(),
		fixed("redis.sentinel_username", text(&r.SentinelUsername, oneLine)),
		fixed("redis.sentinel_password", text(&r.SentinelPassword, oneLine)).hidden(),
		fixed("redis.tls", flag(&r.TLS)),
		fixed("redis.tls_ca", text(&r.TLSCA, oneLine)),
		fixed("redis.tls_cert", text(&r.TLSCert, oneLine)),
		fixed("redis.tls_key", text(&r.TLSKey, oneLine)),
	}
}

func accountKeys(a *Accounts) []key {
	return []key{
		fixed("accounts.source", word(&a.Source, SourceTable, SourceHtpasswd, SourceQuery)),
		fixed("accounts.htpasswd", text(&a.Htpasswd, oneLine)),
		fixed("accounts.database", text(&a.Database, oneLine)).hidden(),
		fixed("accounts.query", text(&a.Query)),
		fixed("accounts.canonical_query", text(&a.CanonicalQuery)),
		fixed("accounts.case_sensitive", flag(&a.CaseSensitive)),
	}
}

func passwordKeys(p *Passwords) []key {
	return []key{
		fixed("passwords.cost", number(&p.Cost, 10, 16)),
		fixed("passwords.at_once", number(&p.AtOnce, 0, 1024)),
		fixed("passwords.queue", number(&p.Queue, 0, 100_000)),
		fixed("passwords.wait", span(&p.Wait, 0, time.Minute)),
	}
}

func limitsKeys(l *Limits) []key {
	return []key{
		live("limits.pair_delay.after", number(&l.PairDelay.After, 1, 1000)),
		live("limits.pair_delay.first", span(&l.PairDelay.First, 0, time.Hour)),
		live("limits.pair_delay.max", span(&l.PairDelay.Max, time.Millisecond, failures.MaxWindow)),
		live("limits.pair_delay.window", span(&l.PairDelay.Window, time.Millisecond, failures.MaxWindow)),
		live("limits.pair_delay.monitor", flag(&l.PairDelay.Monitor)),
		live("limits.address", limits(&l.Address)),
		live("limits.network", limits(&l.Network)),
		live("limits.account", limits(&l.Account)),
		live("limits.privileged_pair", limits(&l.PrivilegedPair)),
		live("limits.longest_check", span(&l.LongestCheck, 100*time.Millisecond, time.Minute)),
		live("limits.hold", span(&l.Hold, 0, time.Minute)),
		live("limits.held", number(&l.Held, 1, 1_000_000)),
		live("limits.held_per_address", number(&l.HeldPerAddress, 1, 1_000_000)),
	}
}

func siteKeys(s *Site) []key {
	m := &s.Mode
	return []key{
		live("site.floor", number(&m.Floor, 1, 1_000_000)),
		live("site.ceiling", number(&m.Ceiling, 1, 1_000_000)),
		live("site.factor", decimal(&m.Factor, 1, 1000)),
		live("site.normal", decimal(&m.Normal, 0, 1_000_000)),
		live("site.slow_part", part(&m.SlowPart, false)),
		live("site.leave_part", part(&m.LeavePart, false)),
		live("site.cool_down", span(&m.CoolDown, time.Second, 7*day)),
		live("site.address_share", part(&m.AddressShare, true)),
		live("site.slow", span(&s.Slow, 0, time.Minute)),
	}
}

func challengeKeys(c *Config) []key {
	return []key{
		live("challenge.kind", word(&c.Challenge.Kind, KindImage, KindPow)),
		live("challenge.ttl", span(&c.Challenge.TTL, 30*time.Second, time.Hour)),
		live("challenge.pow_cost", number(&c.Challenge.PowCost, 1000, 10_000_000)),
		fixed("places.per_account", number(&c.Places.PerAccount, 1, 100)),
		fixed("places.ttl", span(&c.Places.TTL, time.Hour, 1000*day)),
		live("places.device_cookie", flag(&c.Places.DeviceCookie)),
	}
}

func upkeepKeys(c *Config) []key {
	return []key{
		fixed("counters.memory", size(&c.Counters.Memory, 8*MiB, 512*GiB)),
		fixed("counters.save_every", span(&c.Counters.SaveEvery, 100*time.Millisecond, time.Minute)),
		live("audit.keep", span(&c.Audit.Keep, time.Hour, 20*366*day)),
		live("audit.rows", number(&c.Audit.Rows, 1000, 1_000_000_000)),
		fixed("log.format", word(&c.Log.Format, FormatText, FormatJSON)),
		live("log.level", word(&c.Log.Level, LevelDebug, LevelInfo, LevelWarn, LevelError)),
	}
}

func tellKeys(c *Config) []key {
	return []key{
		live("alerts.to", channels(&c.Alerts.To)).hidden(),
		live("alerts.per_hour", number(&c.Alerts.PerHour, 1, 10_000)),
		live("alerts.bundle", span(&c.Alerts.Bundle, 0, time.Hour)),
		live("api.tokens", tokens(&c.API.Tokens)).hidden(),
	}
}
