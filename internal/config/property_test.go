package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"pgregory.net/rapid"

	"authguard/guard"
)

// file is every setting as JSON, which is YAML, too.
func file(c Config) []byte {
	data, err := json.Marshal(sectionsOf(settings(&c)))
	if err != nil {
		panic(err)
	}
	return data
}

func sectionsOf(all []setting) map[string]any {
	sections := map[string]any{}
	for _, s := range all {
		in, rest := sections, s.path
		for {
			name, below, deeper := strings.Cut(rest, ".")
			if !deeper {
				in[name] = plain(s)
				break
			}
			if in[name] == nil {
				in[name] = map[string]any{}
			}
			in, rest = in[name].(map[string]any), below
		}
	}
	return sections
}

// plain is a setting as JSON would say it.
func plain(s setting) any {
	switch v := s.at.Interface().(type) {
	case int, float64, bool:
		return v
	case []Event:
		events := map[string]any{}
		for _, e := range v {
			limits := []string{}
			for _, l := range e.Limits {
				limits = append(limits, show(l))
			}
			events[e.Name] = limits
		}
		return events
	}
	if s.section() {
		items := []any{}
		for i := range s.at.Len() {
			items = append(items, sectionsOf(fields(setting{at: s.at.Index(i)})))
		}
		return items
	}
	if s.at.Kind() == reflect.Slice {
		return append([]string{}, texts(s)...)
	}
	return texts(s)[0]
}

// texts is the items of a setting, secrets included.
func texts(s setting) []string {
	if s.at.Kind() == reflect.Slice {
		var all []string
		for i := range s.at.Len() {
			all = append(all, texts(setting{at: s.at.Index(i)})...)
		}
		return all
	}
	if s.at.Kind() == reflect.String {
		return []string{s.at.String()}
	}
	if s.part() { // which is shown rounded
		return []string{fmt.Sprint(s.at.Float())}
	}
	return []string{s.show()}
}

// anyConfig draws a config that validates. Limits keep to the default ones,
// which are reachable, and to single limits.
func anyConfig(t *rapid.T) Config {
	c := Default()
	c.Listen = rapid.SampledFrom([]string{":0", "[::1]:8080", "localhost:80"}).Draw(t, "listen")
	c.Data = "d" + anyText.Draw(t, "data")
	c.SecureCookies = rapid.SampledFrom([]SecureCookies{"auto", "always", "never"}).Draw(t, "secure")
	c.Session.Lifetime = anySpan(time.Minute, 366*24*time.Hour).Draw(t, "session")
	c.Origin = rapid.SampledFrom([]string{"", "https://a.example:444"}).Draw(t, "origin")
	c.Admin.Listen = rapid.SampledFrom([]string{"", "127.0.0.1:8081"}).Draw(t, "admin")
	c.TrustedProxies = rapid.SliceOfN(rapid.Custom(anyPrefix), 1, 5).Draw(t, "proxies")
	c.Accounts = anyAccounts(t)
	c.Passwords.MaxConcurrent = rapid.IntRange(0, 1024).Draw(t, "at once")
	c.Limits.Account = rapid.SliceOfN(rapid.Custom(anyLimit), 1, 1).Draw(t, "account")
	c.Limits.Spray = Spray{Accounts: rapid.IntRange(3, 16).Draw(t, "spray"), Monitor: rapid.Bool().Draw(t, "spray monitor")}
	c.Limits.DelayUpTo = anySpan(0, time.Minute).Draw(t, "hold")
	first := anySpan(time.Millisecond, time.Minute).Draw(t, "delay")
	c.Limits.PairDelay = rapid.SampledFrom([]PairDelay{{}, {After: 2, First: first, Max: first + time.Second, Window: time.Hour, Monitor: true}}).Draw(t, "pair delay")
	if c.Limits.PairDelay.After > 0 {
		c.Limits.KnownClient = nil // it might be too slow to reach these
	}
	low := rapid.IntRange(1, 500).Draw(t, "threshold")
	c.CAPTCHAMode.Threshold = Threshold{rapid.Float64Range(1.001, 1000).Draw(t, "factor"), low, low + rapid.IntRange(0, 9).Draw(t, "above")}
	cool := anySpan(time.Second, time.Hour).Draw(t, "cool-down")
	c.CAPTCHAMode.CoolDown = CoolDown{cool, cool + anySpan(0, time.Hour).Draw(t, "longer")}
	c.CAPTCHAMode.AddressShare = rapid.Float64Range(1e-9, 1).Draw(t, "share")
	c.Counters.Memory = Size(rapid.IntRange(16*1024, 512<<20).Draw(t, "memory")) * KiB
	c.KnownClients.DeviceCookie = rapid.Bool().Draw(t, "device cookie")
	c.Alerts.To = []Secret{"smtp://h/?from=x@y&to=a@b,c@d"}
	c.API.Tokens = []Secret{"0123456789abcdef0123456789abcdef", "1e100000000000000000000000000000000"}
	return c
}

// anyText has what breaks hand-written YAML: quotes, colons, emoji, words that
// look like other types.
var anyText = rapid.Custom(func(t *rapid.T) string {
	text := rapid.OneOf(
		rapid.StringMatching(`[ -~]{0,20}`),
		rapid.StringOfN(rapid.RuneFrom([]rune("a é\"'\\:#-\u2028\u00a0\ufeff\U0001F600{}[]%@`!&*|>")), 0, 20, -1),
		rapid.SampledFrom([]string{"", "null", "true", "1e3", "~", "0x10", " lead", "trail ", "a: b", "- a", "a #b"}),
	).Draw(t, "text")
	return text
})

func anyAccounts(t *rapid.T) Accounts {
	if rapid.Bool().Draw(t, "htpasswd") {
		return Accounts{Source: SourceHtpasswd, Htpasswd: "f" + anyText.Draw(t, "path")}
	}
	if rapid.Bool().Draw(t, "ldap") {
		return Accounts{Source: SourceLDAP, LDAP: LDAP{
			URL: "ldaps://x", BindDN: "d" + anyText.Draw(t, "bind"), Password: Secret("p" + anyText.Draw(t, "secret")), Base: "b" + anyText.Draw(t, "base"),
			User: "({name}" + anyText.Draw(t, "filter"), Name: anyText.Draw(t, "name"), Mail: anyText.Draw(t, "mail"), Groups: "g" + anyText.Draw(t, "groups"),
		}}
	}
	return Accounts{
		Source:         SourceQuery,
		Database:       Secret("d" + anyText.Draw(t, "dsn")),
		Query:          "SELECT\n\t" + anyText.Draw(t, "query") + "\n",
		CanonicalQuery: anyText.Draw(t, "canonical"),
		CaseSensitive:  rapid.Bool().Draw(t, "case"),
	}
}

func anyPrefix(t *rapid.T) netip.Prefix {
	bytes := rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "address")
	if rapid.Bool().Draw(t, "IPv6") {
		bytes = append([]byte{0x20, 1}, append(bytes, make([]byte, 10)...)...)
	}
	a, _ := netip.AddrFromSlice(bytes)
	p, _ := a.Prefix(rapid.IntRange(1, a.BitLen()).Draw(t, "bits"))
	return p
}

func anyLimit(t *rapid.T) guard.Limit {
	return guard.Limit{
		Failures: rapid.IntRange(1, 4000).Draw(t, "failures"),
		Window:   anySpan(time.Second, 14*24*time.Hour).Draw(t, "window"),
		Action:   rapid.SampledFrom([]guard.Action{guard.Challenge, guard.Block}).Draw(t, "then"),
		Monitor:  rapid.Bool().Draw(t, "monitor"),
	}
}

// anySpan draws whole milliseconds.
func anySpan(least, most time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()), func(ms int64) time.Duration {
		return time.Duration(ms) * time.Millisecond
	})
}
