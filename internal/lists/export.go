package lists

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"time"

	"authguard/internal/times"
)

// Export is the content of an export.
type Export struct {
	Verdict string // "blocked" or "allowed"
	At      time.Time
	Ranges  []Range // from Cover
	// Name is the name of the set, table or access list; see [ExportName].
	Name string
}

// ExportName matches names that are valid in every format.
var ExportName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,15}$`)

// ExportFormat is the syntax of one kind of firewall or proxy. Every text is complete: it replaces the previous one, and may
// have no ranges.
type ExportFormat struct {
	Name string
	For  string // what reads it
	// Longest is the maximum timeout of an entry; longer ones must be exported again before it ends. Zero: the format has
	// no timeouts, so export again when an entry expires.
	Longest time.Duration

	comment string
	write   func(*bytes.Buffer, Export)
}

// ExportFormats lists all formats.
func ExportFormats() []ExportFormat {
	const ever = 1<<63 - 1
	return []ExportFormat{
		{"json", "programs", 0, "", writeJSON},
		{"nft", "nft -f", ever, "#", writeNft},
		// The kernel stores milliseconds in 32 bits.
		{"ipset", "ipset restore", 2147483 * time.Second, "#", writeIpset},
		{"nginx", "include in nginx's http, server or location", 0, "#", each(map[string]string{"blocked": "deny %v;",
			"allowed": "allow %v;"})},
		{"nginx-map", "include in nginx's geo", 0, "#", each(map[string]string{"": "%v 1;"})},
		{"haproxy", "a map file of HAProxy", 0, "#", each(map[string]string{"blocked": "%v blocked",
			"allowed": "%v allowed"})},
		{"hosts.deny", "/etc/hosts.deny or hosts.allow", 0, "#", writeHosts},
		{"pf", "a table file of pf; one range a line", 0, "#", each(map[string]string{"": "%v"})},
		{"cisco", "Cisco IOS, in configuration mode", 0, "!", writeCisco},
	}
}

// Text returns the export in this format.
func (f ExportFormat) Text(e Export) []byte {
	var b bytes.Buffer
	if f.comment != "" {
		fmt.Fprintf(&b, "%s %s. Written by \"authguard ip export %s --format %s\"; changes are overwritten.\n", f.comment,
			e.Count(), e.Verdict, f.Name)
		if first := e.First(); f.Longest == 0 && !first.IsZero() {
			fmt.Fprintf(&b, "%s The first one expires at %s: export again then.\n", f.comment, times.Text(first.UTC()))
		}
	}
	f.write(&b, e)
	return b.Bytes()
}

// Count returns the number of ranges in words.
func (e Export) Count() string {
	if len(e.Ranges) == 1 {
		return "1 range is " + e.Verdict
	}
	return fmt.Sprintf("%d ranges are %s", len(e.Ranges), e.Verdict)
}

// First returns when the first range expires; zero if none does.
func (e Export) First() (first time.Time) {
	for _, r := range e.Ranges {
		if !r.Until.IsZero() && (first.IsZero() || r.Until.Before(first)) {
			first = r.Until
		}
	}
	return first
}

// each writes a line per range, by verdict or the same for both.
func each(lines map[string]string) func(*bytes.Buffer, Export) {
	return func(b *bytes.Buffer, e Export) {
		line, ok := lines[e.Verdict]
		if !ok {
			line = lines[""]
		}
		for _, r := range e.Ranges {
			fmt.Fprintf(b, line+"\n", r.Prefix)
		}
	}
}

func writeJSON(b *bytes.Buffer, e Export) {
	out := json.NewEncoder(b)
	out.SetIndent("", "  ")
	_ = out.Encode(struct { // cannot fail
		Verdict string  `json:"verdict"`
		Ranges  []Range `json:"ranges"`
	}{e.Verdict, append([]Range{}, e.Ranges...)})
}

// family is IPv4 or IPv6, which most tools separate.
type family struct {
	digit, nft, ipset string
	ranges            []Range
}

func families(e Export) []family {
	all := []family{{digit: "4", nft: "ipv4_addr", ipset: "inet"}, {digit: "6", nft: "ipv6_addr", ipset: "inet6"}}
	for _, r := range e.Ranges {
		of := &all[0]
		if r.Prefix.Addr().Is6() {
			of = &all[1]
		}
		of.ranges = append(of.ranges, r)
	}
	return all
}

// left returns the remaining seconds of a range; 0: no expiry. It rounds up: an entry may expire a second late, never
// early.
func (r Range) left(now time.Time, longest time.Duration) int64 {
	if r.Until.IsZero() {
		return 0
	}
	left := min(r.Until.Sub(now), longest)
	return max(1, int64((left+time.Second-1)/time.Second))
}

// writeNft writes two sets. nft applies a file atomically, so no packet sees an incomplete set.
func writeNft(b *bytes.Buffer, e Export) {
	fmt.Fprintf(b, "add table inet %s\n", e.Name)
	for _, of := range families(e) {
		set := "inet " + e.Name + " " + e.Verdict + of.digit
		fmt.Fprintf(b, "add set %s { type %s; flags interval, timeout; }\nflush set %[1]s\n", set, of.nft)
		for i, r := range of.ranges {
			if i == 0 {
				fmt.Fprintf(b, "add element %s {\n", set)
			}
			fmt.Fprintf(b, "\t%v", r.Prefix)
			if left := r.left(e.At, 1<<62); left > 0 {
				fmt.Fprintf(b, " timeout %ds", left)
			}
			b.WriteString(",\n") // nft accepts a trailing comma
		}
		if len(of.ranges) > 0 {
			b.WriteString("}\n")
		}
	}
}

// writeIpset fills a new set and swaps it with the one in use.
func writeIpset(b *bytes.Buffer, e Export) {
	for _, of := range families(e) {
		set := e.Name + "-" + e.Verdict + of.digit
		for _, one := range []string{set, set + "-new"} {
			fmt.Fprintf(b, "create %s hash:net family %s maxelem 1048576 timeout 0 -exist\n", one, of.ipset)
		}
		fmt.Fprintf(b, "flush %s-new\n", set)
		for _, r := range of.ranges {
			whole := []netip.Prefix{r.Prefix}
			if r.Prefix.Bits() == 0 { // hash:net cannot hold it
				low, high := halves(r.Prefix)
				whole = []netip.Prefix{low, high}
			}
			for _, p := range whole {
				fmt.Fprintf(b, "add %s-new %v", set, p)
				if left := r.left(e.At, 2147483*time.Second); left > 0 {
					fmt.Fprintf(b, " timeout %d", left)
				}
				b.WriteByte('\n')
			}
		}
		fmt.Fprintf(b, "swap %s-new %[1]s\ndestroy %[1]s-new\n", set)
	}
}

// writeHosts writes hosts_access(5): masks, and IPv6 in brackets. hosts.allow has the same syntax.
func writeHosts(b *bytes.Buffer, e Export) {
	for _, r := range e.Ranges {
		switch p := r.Prefix; {
		case p.Addr().Is6():
			fmt.Fprintf(b, "ALL: [%v]/%d\n", p.Addr(), p.Bits())
		case p.IsSingleIP():
			fmt.Fprintf(b, "ALL: %v\n", p.Addr())
		default:
			fmt.Fprintf(b, "ALL: %v/%v\n", p.Addr(), mask(p))
		}
	}
}

func mask(p netip.Prefix) netip.Addr {
	bits := uint32(0xffffffff) << (32 - p.Bits())
	return netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)})
}

// wildcard returns the inverted mask, as Cisco uses it.
func wildcard(p netip.Prefix) netip.Addr {
	m := mask(p).As4()
	return netip.AddrFrom4([4]byte{^m[0], ^m[1], ^m[2], ^m[3]})
}

// writeCisco replaces two access lists. An access list ends with an implicit deny, so one of blocked ranges must permit
// the rest, even without ranges.
func writeCisco(b *bytes.Buffer, e Export) {
	word := map[string]string{"blocked": "deny", "allowed": "permit"}[e.Verdict]
	list, ip := "ip access-list extended ", "ip"
	for _, of := range families(e) {
		if of.digit == "6" {
			list, ip = "ipv6 access-list ", "ipv6"
		}
		name := list + e.Name + "-" + e.Verdict + of.digit
		fmt.Fprintf(b, "no %s\n%[1]s\n", name)
		for _, r := range of.ranges {
			p, from := r.Prefix, fmt.Sprint(r.Prefix)
			switch {
			case p.Bits() == 0:
				from = "any"
			case p.IsSingleIP():
				from = fmt.Sprint("host ", p.Addr())
			case p.Addr().Is4():
				from = fmt.Sprint(p.Addr(), " ", wildcard(p))
			}
			fmt.Fprintf(b, " %s %s %s any\n", word, ip, from)
		}
		if e.Verdict == "blocked" {
			fmt.Fprintf(b, " permit %s any any\n", ip)
		}
		b.WriteString(" exit\n")
	}
}
