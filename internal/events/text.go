package events

import (
	"math"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
)

// MaxText is how many characters of a stranger's text are kept.
const MaxText = 128

// Escape makes one harmless line of what a stranger typed: control characters,
// line breaks, bidirectional controls and everything else that does not print
// become Go escapes such as \n or \u202e, bytes that are not UTF-8 become \xff,
// and everything beyond MaxText characters becomes "…". Ordinary names come
// back unchanged. A backslash stays, since DOMAIN\name is an ordinary name: the
// result can be read and looked up, but not decoded.
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

// EscapeLines escapes a text of several lines: at most that many lines, each of
// at most length characters.
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

// AddressText is the address as logs and tables show it, "unknown" if there is
// none. An IPv6 zone is left out: it is free text.
func AddressText(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.Unmap().WithZone("").String()
}

// Cell is a text as a cell of a CSV file that a spreadsheet opens: one that begins like a
// formula, also in full width, begins with an apostrophe instead (CWE-1236). So does what
// follows a semicolon or a tab in it: where those separate cells, as Excel has it in half of
// Europe, quotes that stand around commas alone do not keep it together.
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

// PrefixesOf are what the guard counts as one address, and the network around it.
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

// Rate is a number of failures per minute as people read it: 1,000,000 or 12.3.
func Rate(perMinute float64) string { return humanize.Commaf(math.Round(10*perMinute) / 10) }
