package events

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxText is how many characters of a stranger's text are kept.
const MaxText = 128

// Escape makes one harmless line of what a stranger typed: control characters,
// line breaks, bidirectional controls and everything else that does not print
// become Go escapes such as \n or \u202e, bytes that are no UTF-8 become \xff,
// and what is beyond MaxText characters becomes "…". Ordinary names come back
// as they are. A backslash stays, since DOMAIN\name is an ordinary name; so
// the result is for reading and looking up, not for decoding.
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
		r, size := utf8.DecodeRuneInString(s)
		b.WriteString(escapeRune(r, s[:size]))
		s = s[size:]
	}
	return b.String()
}

// EscapeLines is Escape for texts of several lines: at most so many lines of
// at most so many characters each.
func EscapeLines(s string, lines, length int) string {
	var kept []string
	for line := range strings.SplitSeq(s, "\n") {
		if len(kept) == lines {
			kept = append(kept, "…")
			break
		}
		kept = append(kept, escape(line, length))
	}
	return strings.Join(kept, "\n")
}

func plain(s string, most int) bool {
	if !utf8.ValidString(s) || utf8.RuneCountInString(s) > most {
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

func escapeRune(r rune, raw string) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return `\x` + strconv.FormatUint(uint64(raw[0]), 16)
	case strconv.IsPrint(r):
		return raw
	default:
		quoted := strconv.QuoteRuneToASCII(r)
		return quoted[1 : len(quoted)-1]
	}
}

// AddressText is the address for logs and tables, "unknown" if there is none.
// An IPv6 zone is left out: it is free text.
func AddressText(a netip.Addr) string {
	if !a.IsValid() {
		return "unknown"
	}
	return a.Unmap().WithZone("").String()
}
