package config

import (
	"errors"
	"slices"
	"strings"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/trusted"
)

// Policy is the settings that a decision depends on. A pair delay whose first
// is zero delays nothing.
func (c Config) Policy() guard.Policy {
	l := c.Limits
	if l.PairDelay.First == 0 {
		l.PairDelay = guard.Delay{}
	}
	return guard.Policy{
		PairDelay:      l.PairDelay,
		Address:        l.Address,
		Network:        l.Network,
		Account:        l.Account,
		PrivilegedPair: l.PrivilegedPair,
		SiteSlow:       c.Site.Slow,
		PendingFor:     l.LongestCheck,
		Places:         trusted.Limits{Places: c.Places.PerAccount, TTL: c.Places.TTL},
		Devices:        c.Places.DeviceCookie,
	}
}

// Mode is the settings of the site-wide switch.
func (c Config) Mode() captchamode.Config { return c.Site.Mode }

// conflicts looks at the settings together, and asks the guard and the
// site-wide mode about theirs (rule R8 above all).
func (l *loader) conflicts() {
	c := &l.loaded.Config
	l.known = slices.Clone(l.problems)
	l.accountConflicts(&c.Accounts)
	l.redisConflicts(&c.Redis)
	l.unless(c.Admin.Listen != c.Listen || strings.HasSuffix(c.Listen, ":0"), "admin.listen", "listen",
		"must differ from listen: the administrator's pages need an address of their own")
	l.unless(c.Limits.HeldPerAddress <= c.Limits.Held, "limits.held_per_address", "limits.held",
		"must be at most limits.held (%d)", c.Limits.Held)
	if err := errors.Join(c.Policy().Validate(), c.Mode().Validate()); err != nil {
		for line := range strings.Lines(err.Error()) {
			path, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
			l.unless(false, path, because(path), "%s", text)
		}
	}
}

// because is the setting that may make the one at path a problem: the delay's
// numbers bound each other, and how fast a place's budget is used up.
func because(path string) string {
	switch {
	case partOf(path, "limits.pair_delay"), partOf(path, "limits.privileged_pair"):
		return "limits.pair_delay"
	case path == "site.ceiling":
		return "site.floor"
	default:
		return ""
	}
}

func (l *loader) redisConflicts(r *Redis) {
	set := r.Mode != RedisStandalone || r.Master != "" || r.Username != "" || r.Password != "" || r.TLS
	l.unless(r.On() || !set, "redis.addresses", "redis", "must say where Redis is, because other settings of redis are there")
	l.unless(r.Mode != RedisStandalone || len(r.Addresses) <= 1, "redis.addresses", "redis.mode",
		"must be one server; for several set redis.mode to cluster, or to sentinel")
	l.unless(r.Mode != RedisSentinel || r.Master != "", "redis.master", "redis.mode",
		"must be the Sentinels' name for the master, because redis.mode is sentinel")
	l.unless(r.Mode == RedisSentinel || r.Master == "", "redis.master", "redis.mode",
		"is not used unless redis.mode is sentinel: set that, or leave this out")
	l.unless(r.Mode != RedisCluster || r.Database == 0, "redis.database", "redis.mode", "must be 0: a Cluster has no other")
	l.unless(r.TLS || r.TLSCA+r.TLSCert+r.TLSKey == "", "redis.tls", "redis", "must be true, because certificates are set")
	l.unless((r.TLSCert == "") == (r.TLSKey == ""), "redis.tls_cert", "redis.tls_key",
		"must be set together with redis.tls_key")
}

func (l *loader) accountConflicts(a *Accounts) {
	const source, unused = "accounts.source", "is not used while accounts.source is %s: set that, or leave this out"
	l.unless(a.Source != SourceHtpasswd || a.Htpasswd != "", "accounts.htpasswd", source,
		"must name the file, because accounts.source is htpasswd")
	l.unless(a.Source == SourceHtpasswd || a.Htpasswd == "", "accounts.htpasswd", source, unused, a.Source)
	l.unless(a.Source != SourceQuery || a.Query != "", "accounts.query", source,
		"must be the SQL that finds an account's hash, because accounts.source is query")
	l.unless(a.Source == SourceQuery || a.Query == "", "accounts.query", source, unused, a.Source)
	asks := "accounts.canonical_query" // the setting that needs a database
	if a.Source == SourceQuery {
		asks = source
	}
	queries := a.Source == SourceQuery || a.CanonicalQuery != ""
	l.unless(!queries || a.Database != "", "accounts.database", asks, "must be the database to ask, because %s asks one", asks)
	l.unless(queries || a.Database == "", "accounts.database", source, unused, a.Source)
}
