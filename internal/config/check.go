package config

import (
	"fmt"
	"slices"
	"strings"
)

// A conflict is a setting that another one rules out.
type conflict struct {
	path    string
	because string // the path of the other; empty: the setting rules itself out
	text    string
}

// check looks at the settings together. It says nothing about those that
// could not be read: what they would have been is not known.
func (l *loading) check() {
	unread := slices.Clone(l.problems)
	for _, c := range append(l.loaded.conflicts(), l.loaded.policyConflicts()...) {
		if touches(unread, c.path) || touches(unread, c.because) {
			continue
		}
		o := l.loaded.locate(c.path, c.because)
		l.problem(Problem{Source: o.Source, Line: o.Line, Path: c.path, Text: c.text})
	}
}

// touches tells whether one of the problems is with the setting at path, with
// a part of it or with what it is a part of.
func touches(problems []Problem, path string) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool {
		return partOf(p.Path, path) || partOf(path, p.Path)
	})
}

// partOf tells whether path is whole or below it.
func partOf(path, whole string) bool {
	rest, ok := strings.CutPrefix(path, whole)
	return ok && whole != "" && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

func (c Config) conflicts() []conflict {
	all := slices.Concat(c.Accounts.conflicts(), c.Redis.conflicts())
	add := func(is bool, path, because, text string) {
		if is {
			all = append(all, conflict{path, because, text})
		}
	}
	add(c.Admin.Listen == c.Listen && !strings.HasSuffix(c.Listen, ":0"), "admin.listen", "listen",
		"must differ from listen: the administrator's pages need an address of their own")
	add(c.Site.Mode.Floor > c.Site.Mode.Ceiling, "site.floor", "site.ceiling",
		fmt.Sprintf("must be at most site.ceiling (%d)", c.Site.Mode.Ceiling))
	add(c.Limits.HeldPerAddress > c.Limits.Held, "limits.held_per_address", "limits.held",
		fmt.Sprintf("must be at most limits.held (%d)", c.Limits.Held))
	return all
}

func (r Redis) conflicts() []conflict {
	var all []conflict
	add := func(is bool, path, because, text string) {
		if is {
			all = append(all, conflict{path, because, text})
		}
	}
	set := r.Mode != RedisStandalone || r.Master != "" || r.Username != "" || r.Password != "" || r.TLS
	add(!r.On() && set, "redis.addresses", "redis", "must say where Redis is, because other settings of redis are there")
	add(r.Mode == RedisStandalone && len(r.Addresses) > 1, "redis.addresses", "redis.mode",
		"must be one server; for several set redis.mode to cluster, or to sentinel")
	add(r.Mode == RedisSentinel && r.Master == "", "redis.master", "redis.mode",
		"must be how the Sentinels call the master, because redis.mode is sentinel")
	add(r.Mode != RedisSentinel && r.Master != "", "redis.master", "redis.mode",
		"is not used unless redis.mode is sentinel: set that, or leave this out")
	add(r.Mode == RedisCluster && r.Database != 0, "redis.database", "redis.mode", "must be 0: a Cluster has no other")
	add(!r.TLS && r.TLSCA+r.TLSCert+r.TLSKey != "", "redis.tls", "redis", "must be true, because certificates are set")
	add((r.TLSCert == "") != (r.TLSKey == ""), "redis.tls_cert", "redis.tls_key", "must be set together with redis.tls_key")
	return all
}

func (a Accounts) conflicts() []conflict {
	var all []conflict
	add := func(is bool, path, because, text string) {
		if is {
			all = append(all, conflict{path, because, text})
		}
	}
	queries := a.Source == SourceQuery || a.CanonicalQuery != ""
	unused := fmt.Sprintf("is not used while accounts.source is %s: set that, or leave this out", a.Source)
	add(a.Source == SourceHtpasswd && a.Htpasswd == "", "accounts.htpasswd", "accounts.source",
		"must name the file, because accounts.source is htpasswd")
	add(a.Source != SourceHtpasswd && a.Htpasswd != "", "accounts.htpasswd", "accounts.source", unused)
	add(a.Source == SourceQuery && a.Query == "", "accounts.query", "accounts.source",
		"must be the SQL that finds an account's hash, because accounts.source is query")
	add(a.Source != SourceQuery && a.Query != "", "accounts.query", "accounts.source", unused)
	add(queries && a.Database == "", "accounts.database", queriedBy(a),
		"must be the database to ask, because "+queriedBy(a)+" asks one")
	add(!queries && a.Database != "", "accounts.database", "accounts.source", unused)
	return all
}

// queriedBy is the setting for which a database is needed.
func queriedBy(a Accounts) string {
	if a.Source == SourceQuery {
		return "accounts.source"
	}
	return "accounts.canonical_query"
}
