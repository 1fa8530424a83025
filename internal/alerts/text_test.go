package alerts

import (
	"strings"
	"testing"
)

func TestNameLeavesOrdinaryNamesAlone(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"alice", "alice@example.org", "Zoë Müller", `CORP\alice`} {
		if got := Name(name); got != `"`+name+`"` {
			t.Errorf("%q became %s", name, got)
		}
	}
}

func TestR23NameDefusesWhatMailAndChatActOn(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\r\nBcc: all@example.org":   `"a\r\nBcc: all@example.org"`,
		"@everyone":                   `"\x40everyone"`,
		"hi @here":                    `"hi \x40here"`,
		"a@@here":                     `"a\x40\x40here"`,
		"<!channel>":                  `"\x3c!channel\x3e"`,
		"[log in](https://evil.test)": `"\x5blog in\x5d(https:\x2f/evil.test)"`,
		"<img src=x>&amp;":            `"\x3cimg src=x\x3e\x26amp;"`,
		"```":                         `"\x60\x60\x60"`,
		"\u202egnp.exe":               `"\u202egnp.exe"`,
		`a", "b`:                      `"a\", \"b"`,
	} {
		if got := Name(in); got != want {
			t.Errorf("%q became %s, want %s", in, got, want)
		}
	}
}

func TestTitlesAreOneLineOfASCII(t *testing.T) {
	t.Parallel()
	got := titleText("Störung\r\nBcc: x" + strings.Repeat("x", 500))
	if strings.ContainsAny(got, "\r\n") || !strings.HasPrefix(got, `St?rung\r\nBcc: x`) || len(got) > 140 {
		t.Fatalf("%q", got)
	}
}
