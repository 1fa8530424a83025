package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"regexp"
	"time"
)

// An Export is what an edge is told.
type Export struct {
	Verdict string // "blocked" or "allowed"
	At      time.Time
	Ranges  []Range // as Cover gives them
	// Name is what the set, table or access list is called; see [Name].
	Name string
}

// Name is what may be a name in every format.
var Name = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,15}$`)

// A Format is how one kind of edge reads ranges. Every text of it is complete: it
// takes the place of the one before, and one without ranges is as good as any.
type Format struct {
	Name string
	For  string // what reads it
	// Longest is how long an entry can last by itself; beyond that it ends and has to
	// be told anew. Zero: the format does not know when an entry ends, and has to be
	// told when it does.
	Longest time.Duration

	comment string
	write   func(*bytes.Buffer, Export)
}

// Formats are all there are.
func Formats() []Format {
	const ever = 1<<63 - 1
	return []Format{
		{"json", "programs", 0, "", writeJSON},
		{"nft", "nft -f", ever, "#", writeNft},
		// The kernel counts in milliseconds of 32 bits.
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

// Text is the export in this format.
func (f Format) Text(e Export) []byte {
	var b bytes.Buffer
	if f.comment != "" {
		fmt.Fprintf(&b, "%s %s. Written by \"authguard ip export %s --format %s\"; changes are overwritten.\n", f.comment,
			Count(e), e.Verdict, f.Name)
		if first := First(e.Ranges); f.Longest == 0 && !first.IsZero() {
			fmt.Fprintf(&b, "%s The first one expires at %s: export again then.\n", f.comment, first.UTC().Format(time.RFC3339))
		}
	}
	f.write(&b, e)
	return b.Bytes()
}

// Count is how many ranges there are, in words.
func Count(e Export) string {
	if len(e.Ranges) == 1 {
		return "1 range is " + e.Verdict
	}
	return fmt.Sprintf("%d ranges are %s", len(e.Ranges), e.Verdict)
}

// First is when the first of the ranges ends; zero if none does.
func First(ranges []Range) (first time.Time) {
	for _, r := range ranges {
		if !r.Until.IsZero() && (first.IsZero() || r.Until.Before(first)) {
			first = r.Until
		}
	}
	return first
}

// each is a line for each range, by verdict or the same for both.
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

// A family is one of the two that most tools keep apart.
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

// left is how many seconds a range has; 0 if it never ends. An entry may end a second
// late, never early.
func (r Range) left(now time.Time, longest time.Duration) int64 {
	if r.Until.IsZero() {
		return 0
	}
	left := min(r.Until.Sub(now), longest)
	return max(1, int64((left+time.Second-1)/time.Second))
}

// writeNft makes two sets. nft takes a file as a whole or not at all, so no packet
// meets a set that is half full.
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
			b.WriteString(",\n") // nft takes one at the end too
		}
		if len(of.ranges) > 0 {
			b.WriteString("}\n")
		}
	}
}

// writeIpset fills a new set and has it change places with the one in use.
func writeIpset(b *bytes.Buffer, e Export) {
	for _, of := range families(e) {
		set := e.Name + "-" + e.Verdict + of.digit
		for _, one := range []string{set, set + "-new"} {
			fmt.Fprintf(b, "create %s hash:net family %s maxelem 1048576 timeout 0 -exist\n", one, of.ipset)
		}
		fmt.Fprintf(b, "flush %s-new\n", set)
		for _, r := range of.ranges {
			whole := []netip.Prefix{r.Prefix}
			if r.Prefix.Bits() == 0 { // which hash:net cannot hold
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

// writeHosts is for hosts_access(5): masks, and IPv6 in brackets. hosts.allow has the
// same form.
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

// mask of an IPv4 range.
func mask(p netip.Prefix) netip.Addr {
	bits := uint32(0xffffffff) << (32 - p.Bits())
	return netip.AddrFrom4([4]byte{byte(bits >> 24), byte(bits >> 16), byte(bits >> 8), byte(bits)})
}

// wildcard is the mask as Cisco writes it: ones where anything goes.
func wildcard(p netip.Prefix) netip.Addr {
	m := mask(p).As4()
	return netip.AddrFrom4([4]byte{^m[0], ^m[1], ^m[2], ^m[3]})
}

// writeCisco makes two access lists anew. An access list ends with an unwritten
// "deny": one of blocked ranges has to permit the rest, even if there are none.
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
