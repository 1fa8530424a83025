package events

import (
	"net/netip"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// hostile are names that were, or could be, typed to break out of a log line,
// a mail or a terminal.
var hostile = []string{
	"bob\ntime=2026-01-01T00:00:00Z level=INFO msg=\"attempt succeeded\" address=6.6.6.6",
	"bob\r\nBcc: everybody@example.org",
	`bob" address=6.6.6.6 integration="x`,
	`bob\" address=6.6.6.6`,
	"bob address=6.6.6.6",
	"\x1b[2J\x1b]0;owned\x07",
	"\u202ecod.exe", "\u2066x\u2069", "a\u200bb", "\u2028line\u2029paragraph", "\u0085next",
	"\x00", "\xff\xfe", "\xef", "\xed\xa0\x80", "\U000e0041tag",
	`{"msg":"attempt succeeded"}`, "<script>alert(1)</script>", "=HYPERLINK(\"x\")", "%0a%s%n", "",
	strings.Repeat("é", 5000), strings.Repeat("\n", 5000),
}

func TestEscapeLeavesOrdinaryNamesAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alice", "alice@example.org", "Zoë Müller", "王小明", `CORP\alice`, "o'brien", strings.Repeat("ü", MaxText)} {
		if got := Escape(name); got != name {
			t.Errorf("%q became %q", name, got)
		}
	}
}

func TestEscapeShowsWhatDoesNotPrint(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\nb": `a\nb`, "\u202e": `\u202e`, "\x00": `\x00`, "\xef": `\xef`, "\xff\xfe": `\xff\xfe`,
		"\U000e0041": `\U000e0041`, "\uFFFD": "\uFFFD", "\u00a0": `\u00a0`, "'\t": `'\t`,
		strings.Repeat("x", MaxText+1): strings.Repeat("x", MaxText) + "…",
	} {
		if got := Escape(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzEscapeIsOneShortPrintableLine(f *testing.F) {
	for _, name := range hostile {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := Escape(name)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is no UTF-8", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q contains %U", got, r)
			}
		}
		// The longest escape, \U0010ffff, is ten characters.
		if n := utf8.RuneCountInString(got); n > 10*MaxText+1 {
			t.Fatalf("%d characters", n)
		}
	})
}

func TestEscapeLinesBoundsLinesAndLengths(t *testing.T) {
	t.Parallel()
	if got, want := EscapeLines("one\ntwo\r\nthree", 2, 4), "one\ntwo\\r\n…"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}

func TestAddressTextHasNoZone(t *testing.T) {
	t.Parallel()
	for in, want := range map[netip.Addr]string{
		netip.MustParseAddr("fe80::1%evil\nzone"): "fe80::1",
		netip.MustParseAddr("::ffff:192.0.2.1"):   "192.0.2.1",
		{}:                                        "unknown",
	} {
		if got := AddressText(in); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestNoCellIsAFormula(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "", "bob": "bob", "=cmd()": "'=cmd()", "+1": "'+1", "-1": "'-1", "@SUM(1)": "'@SUM(1)", "\t=1": "'\t'=1", "\r=1": "'\r=1", "a=1": "a=1", "x;=1+1;y": "x;'=1+1;y", "x\t＝1": "x\t'＝1", "x; =1": "x; =1", "192.0.2.1": "192.0.2.1",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
