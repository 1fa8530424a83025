package events

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// MaxText is the maximum number of characters kept of text from a client.
const MaxText = 128

// Escape makes text from a client safe to print on one line. Non-printing characters, such as line breaks and
// bidirectional controls, become Go escapes (\n, \u202e). Invalid UTF-8 becomes \xff, and everything after MaxText
// characters "…". Ordinary names do not change. A backslash stays because DOMAIN\name is an ordinary name, so the
// result can be searched for but not decoded.
func Escape(s string) string { return escape(s, MaxText) }

func escape(s string, most int) string {
	if plain(s, most) {
		return s
	}
	var b strings.Builder
	for n := 0; len(s) > 0; n++ {
		if n == most {
			b.WriteRune('…')
			break
		}
		_, size := utf8.DecodeRuneInString(s)
		one := s[:size]
		if one != `"` && one != `\` {
			one = strings.Trim(strconv.Quote(one), `"`)
		}
		b.WriteString(one)
		s = s[size:]
	}
	return b.String()
}

// About returns an estimate within 1 % as Count does: "about 2,791 IP addresses". Below 100 the error is less than one.
func About(n int64, noun string) string {
	if n < 100 {
		return Count(int(n), noun)
	}
	return "about " + Count(int(n), noun)
}

// Count returns a number with its noun, which it puts into the plural: "1 entry", "1,234 entries".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, ok := strings.CutSuffix(noun, "ry"); ok { // entry, but not day
		noun = stem + "rie"
	}
	if strings.HasSuffix(noun, "s") { // address
		noun += "e"
	}
	return humanize.Comma(int64(n)) + " " + noun + "s"
}

// EscapeLines escapes a text of several lines: at most lines lines, each of at most length characters.
func EscapeLines(s string, lines, length int) string {
	kept := strings.SplitN(s, "\n", lines+1)
	for i, line := range kept[:min(lines, len(kept))] {
		kept[i] = escape(line, length)
	}
	if len(kept) > lines {
		kept[lines] = "…"
	}
	return strings.Join(kept, "\n")
}

func plain(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most &&
		!strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
}

// AddressText returns the IP address for logs and tables; "unknown" if invalid. It omits the IPv6 zone, which is free
// text.
func AddressText(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.Unmap().WithZone("").String()
}

// Cell makes text safe as a CSV cell that a spreadsheet opens. It puts an apostrophe before a formula, also one in
// full-width characters (CWE-1236). It treats text after a semicolon or tab the same way: where those separate cells,
// as in Excel in half of Europe, quotes for commas do not help.
func Cell(s string) string {
	var b strings.Builder
	begins := true
	for _, r := range s {
		if begins && strings.ContainsRune("=+-@\t\r\n|%＝＋－＠", r) {
			b.WriteByte('\'')
		}
		begins = r == ';' || r == '\t'
		b.WriteRune(r)
	}
	return b.String()
}

// PrefixesOf returns what the guard counts as one IP address (IPv6: /64) and as its network (/24 or /48).
func PrefixesOf(a netip.Addr) (address, network netip.Prefix) {
	a = a.Unmap().WithZone("")
	small, large := 64, 48
	if a.Is4() {
		small, large = 32, 24
	}
	address, _ = a.Prefix(small) // neither can fail
	network, _ = a.Prefix(large)
	return address, network
}

// Rate formats failures per minute: 1,000,000 or 12.3.
func Rate(perMinute float64) string { return humanize.Commaf(math.Round(10*perMinute) / 10) }
