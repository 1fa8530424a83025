package lists_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"authguard/guard"
	"authguard/internal/lists"
	"authguard/internal/testing/doctest"
)

// some are ranges of every shape: one with a hole, single addresses, both families,
// with and without an end.
func some() []guard.Listing {
	return []guard.Listing{
		block("192.0.2.0/24", 1), allow("192.0.2.0/25", 0), block("198.51.100.7/32", 0),
		block("2001:db8:7::/48", 2), block("2001:db8::1/128", 0), block("::ffff:203.0.113.0/120", 0),
	}
}

func export(verdict guard.Verdict, listed []guard.Listing) lists.Export {
	word := map[guard.Verdict]string{guard.Blocked: "blocked", guard.Allowed: "allowed"}[verdict]
	return lists.Export{Verdict: word, At: noon, Ranges: lists.Cover(listed, verdict, noon), Name: "authguard"}
}

func format(t *testing.T, name string) lists.ExportFormat {
	t.Helper()
	all := lists.ExportFormats()
	i := slices.IndexFunc(all, func(f lists.ExportFormat) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("there is no format %s", name)
	}
	return all[i]
}

func blocked(t *testing.T, name string, listed ...guard.Listing) string {
	t.Helper()
	return string(format(t, name).Text(export(guard.Blocked, listed)))
}

// without comments.
func bare(text string) string {
	return regexp.MustCompile(`(?m)^[#!].*\n`).ReplaceAllString(text, "")
}

func TestEachFormatSaysTheSame(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"pf":         "192.0.2.128/25\n198.51.100.7/32\n203.0.113.0/24\n2001:db8::1/128\n2001:db8:7::/48\n",
		"nginx":      "deny 192.0.2.128/25;\ndeny 198.51.100.7/32;\ndeny 203.0.113.0/24;\ndeny 2001:db8::1/128;\ndeny 2001:db8:7::/48;\n",
		"nginx-map":  "192.0.2.128/25 1;\n198.51.100.7/32 1;\n203.0.113.0/24 1;\n2001:db8::1/128 1;\n2001:db8:7::/48 1;\n",
		"haproxy":    "192.0.2.128/25 blocked\n198.51.100.7/32 blocked\n203.0.113.0/24 blocked\n2001:db8::1/128 blocked\n2001:db8:7::/48 blocked\n",
		"hosts.deny": "ALL: 192.0.2.128/255.255.255.128\nALL: 198.51.100.7\nALL: 203.0.113.0/255.255.255.0\nALL: [2001:db8::1]/128\nALL: [2001:db8:7::]/48\n",
		"cisco": "no ip access-list extended authguard-blocked4\nip access-list extended authguard-blocked4\n" +
			" deny ip 192.0.2.128 0.0.0.127 any\n deny ip host 198.51.100.7 any\n deny ip 203.0.113.0 0.0.0.255 any\n permit ip any any\n exit\n" +
			"no ipv6 access-list authguard-blocked6\nipv6 access-list authguard-blocked6\n" +
			" deny ipv6 host 2001:db8::1 any\n deny ipv6 2001:db8:7::/48 any\n permit ipv6 any any\n exit\n",
		"nft": "add table inet authguard\nadd set inet authguard blocked4 { type ipv4_addr; flags interval, timeout; }\nflush set inet authguard blocked4\n" +
			"add element inet authguard blocked4 {\n\t192.0.2.128/25 timeout 3600s,\n\t198.51.100.7/32,\n\t203.0.113.0/24,\n}\n" +
			"add set inet authguard blocked6 { type ipv6_addr; flags interval, timeout; }\nflush set inet authguard blocked6\n" +
			"add element inet authguard blocked6 {\n\t2001:db8::1/128,\n\t2001:db8:7::/48 timeout 7200s,\n}\n",
	} {
		if got := bare(blocked(t, name, some()...)); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	var said struct {
		Verdict string
		Ranges  []struct{ CIDR, Expires string }
	}
	if err := json.Unmarshal([]byte(blocked(t, "json", some()...)), &said); err != nil || said.Verdict != "blocked" ||
		len(said.Ranges) != 5 || said.Ranges[0].CIDR != "192.0.2.128/25" || said.Ranges[0].Expires != "2026-03-01T13:00:00Z" || said.Ranges[1].Expires != "" {
		t.Errorf("%+v, %v", said, err)
	}
}

// Whatever is listed, each line that is no comment is of the documented form, and what
// it matches is the range: a wildcard mask read as a mask would match another.
func TestWhatPfAndCiscoReadIsTheRange(t *testing.T) {
	t.Parallel()
	four := regexp.MustCompile(`^ deny ip (?:(any)|host (\S+)|(\d+\.\d+\.\d+\.\d+) (\d+\.\d+\.\d+\.\d+)) any$`)
	six := regexp.MustCompile(`^ deny ipv6 (?:(any)|host (\S+)|(\S+/\d+)) any$`)
	rapid.Check(t, func(rt *rapid.T) {
		listed := rapid.SliceOfN(rapid.Custom(listing), 0, 5).Draw(rt, "listed")
		e := export(guard.Blocked, listed)
		var want, pf, cisco []string
		for _, r := range e.Ranges {
			want = append(want, r.Prefix.String())
		}
		for line := range strings.Lines(bare(string(format(t, "pf").Text(e)))) {
			pf = append(pf, strings.TrimSuffix(line, "\n"))
		}
		for line := range strings.Lines(bare(string(format(t, "cisco").Text(e)))) {
			line = strings.TrimSuffix(line, "\n")
			if m := four.FindStringSubmatch(line); m != nil {
				cisco = append(cisco, fourOf(m))
			} else if m := six.FindStringSubmatch(line); m != nil && m[2] != "" {
				cisco = append(cisco, m[2]+"/128")
			} else if m != nil {
				cisco = append(cisco, m[3])
			} else if !regexp.MustCompile(`^(no )?(ip access-list extended|ipv6 access-list) authguard-blocked[46]$|^ permit ip(v6)? any any$|^ exit$`).MatchString(line) {
				rt.Fatalf("%q", line)
			}
		}
		if !slices.Equal(pf, want) || !slices.Equal(cisco, want) {
			rt.Fatalf("%q and %q, want %q", pf, cisco, want)
		}
	})
}

// fourOf is the range of a matched line with a wildcard mask, whose ones are at the end.
func fourOf(m []string) string {
	if m[2] != "" {
		return m[2] + "/32"
	}
	address, wild := netip.MustParseAddr(m[3]), netip.MustParseAddr(m[4]).As4()
	bits := 0
	for _, b := range fmt.Sprintf("%08b%08b%08b%08b", wild[0], wild[1], wild[2], wild[3]) {
		if b == '0' {
			bits++
		}
	}
	return netip.PrefixFrom(address, bits).String()
}

func TestPfReadsOneRangeALine(t *testing.T) {
	t.Parallel()
	conf := doctest.Claimed(t, "docs/how-to/firewall.md")[0].Text
	if !regexp.MustCompile(`(?m)^table <(\w+)> persist file "/\S+"\nblock in quick proto tcp from <\w+> to any port \{ 80 443 \}\n$`).MatchString(conf) {
		t.Errorf("not of pf.conf(5)'s form: %s", conf)
	}
	for line := range strings.Lines(blocked(t, "pf", some()...)) {
		if _, err := netip.ParsePrefix(strings.TrimSpace(line)); err != nil && !strings.HasPrefix(line, "#") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

// An access list that ends without "permit" stops everybody, and most so an empty one.
func TestAnEmptyAccessListLetsEverybodyThrough(t *testing.T) {
	t.Parallel()
	got := bare(blocked(t, "cisco"))
	if strings.Count(got, " permit ip any any\n") != 1 || strings.Count(got, " permit ipv6 any any\n") != 1 || strings.Contains(got, "deny") {
		t.Error(got)
	}
	if got := bare(string(format(t, "cisco").Text(export(guard.Allowed, []guard.Listing{allow("192.0.2.0/24", 0)})))); strings.Contains(got, "any any") ||
		!strings.Contains(got, " permit ip 192.0.2.0 0.0.0.255 any\n") {
		t.Error(got)
	}
}

func TestFormatsThatEndNothingSayWhenTheyAreDue(t *testing.T) {
	t.Parallel()
	for _, f := range lists.ExportFormats() {
		text := string(f.Text(export(guard.Blocked, some())))
		if says := strings.Contains(text, "2026-03-01 13:00:00 UTC") || strings.Contains(text, "2026-03-01T13:00:00Z"); says != (f.Longest == 0) {
			t.Errorf("%s: %s", f.Name, text)
		}
	}
}

func TestNoEntryOfAFormatEndsEarly(t *testing.T) {
	t.Parallel()
	soon := block("192.0.2.7/32", 0)
	soon.Until = noon.Add(1500e6)
	for name, want := range map[string]string{"nft": "timeout 2s,", "ipset": "timeout 2\n"} {
		if got := blocked(t, name, soon); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := blocked(t, "ipset", block("192.0.2.7/32", 24*300)); !strings.Contains(got, "timeout 2147483\n") {
		t.Errorf("ipset: %s", got)
	}
}
