package config_test

import (
	"bytes"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/guard"
	"authguard/internal/config"
)

func TestWhatIsWrittenReadsBackTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := anyConfig(t)
		var file bytes.Buffer
		if err := want.WriteWithSecrets(&file); err != nil {
			t.Fatal(err)
		}
		got, err := config.Parse("t.yaml", file.Bytes(), nil)
		if err != nil {
			t.Fatalf("%v\n%s", err, file.String())
		}
		if !reflect.DeepEqual(got.Config, want) {
			t.Fatalf("got  %#v\nwant %#v\n%s", got.Config, want, file.String())
		}
		for _, s := range got.Effective() {
			if s.Origin == "default" {
				t.Fatalf("%s was not written", s.Path)
			}
		}
	})
}

func TestWriteWithholdsSecrets(t *testing.T) {
	t.Parallel()
	c := config.Default()
	c.Accounts = config.Accounts{Source: config.SourceTable, CanonicalQuery: "SELECT 1", Database: "hunter2"}
	c.API.Tokens = []config.Secret{"hunter2hunter2hunter2hunter2hunter2"}
	c.Alerts.To = []config.Secret{"smtp://hunter2@h"}
	var file bytes.Buffer
	if err := c.Write(&file); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(file.String(), "hunter2") || strings.Count(file.String(), "(set)") != 3 {
		t.Errorf("got:\n%s", file.String())
	}
}

// anyConfig draws a config that validates. Ladders keep to the default ones,
// which are reachable, and to single rungs.
func anyConfig(t *rapid.T) config.Config {
	c := config.Default()
	c.Listen = rapid.SampledFrom([]string{":0", "[::1]:8080", "localhost:80"}).Draw(t, "listen")
	c.Data = "d" + anyText.Draw(t, "data")
	c.SecureCookies = rapid.SampledFrom([]config.SecureCookies{"auto", "always", "never"}).Draw(t, "secure")
	c.Session = anySpan(time.Minute, 366*24*time.Hour).Draw(t, "session")
	c.Origin = rapid.SampledFrom([]string{"", "https://a.example:444"}).Draw(t, "origin")
	c.Admin.Listen = rapid.SampledFrom([]string{"", "127.0.0.1:8081"}).Draw(t, "admin")
	c.Proxies = rapid.SliceOfN(rapid.Custom(anyPrefix), 1, 5).Draw(t, "proxies")
	c.Accounts = anyAccounts(t)
	c.Passwords.AtOnce = rapid.IntRange(0, 1024).Draw(t, "at once")
	c.Limits.Account = rapid.SliceOfN(rapid.Custom(anyLimit), 1, 1).Draw(t, "account")
	c.Limits.Hold = anySpan(0, time.Minute).Draw(t, "hold")
	c.Site.Mode.Factor = rapid.Float64Range(1, 1000).Draw(t, "factor")
	c.Site.Mode.AddressShare = rapid.Float64Range(1e-9, 1).Draw(t, "share")
	c.Counters.Memory = config.Size(rapid.IntRange(8*1024, 512<<20).Draw(t, "memory")) * config.KiB
	c.Places.DeviceCookie = rapid.Bool().Draw(t, "device cookie")
	c.Alerts.To = []config.Secret{"smtp://h/?from=x@y&to=a@b,c@d"}
	c.API.Tokens = []config.Secret{"0123456789abcdef0123456789abcdef", "1e100000000000000000000000000000000"}
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

func anyAccounts(t *rapid.T) config.Accounts {
	if rapid.Bool().Draw(t, "htpasswd") {
		return config.Accounts{Source: config.SourceHtpasswd, Htpasswd: "f" + anyText.Draw(t, "path")}
	}
	return config.Accounts{
		Source:         config.SourceQuery,
		Database:       config.Secret("d" + anyText.Draw(t, "dsn")),
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
		Then:     rapid.SampledFrom([]guard.Action{guard.Challenge, guard.Refuse}).Draw(t, "then"),
		Monitor:  rapid.Bool().Draw(t, "monitor"),
	}
}

// anySpan draws whole milliseconds.
func anySpan(least, most time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()), func(ms int64) time.Duration {
		return time.Duration(ms) * time.Millisecond
	})
}
