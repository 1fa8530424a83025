package pages

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"authguard/captchamode"
	"authguard/internal/attacks"
	"authguard/internal/control"
)

func TestNumbersHaveCommas(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := comma(n); got != want {
			t.Errorf("%d is %q, not %q", n, got, want)
		}
	}
}

func TestMomentsAreReadNextToNow(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		at        time.Time
		text, ago string
	}{
		{noon.Add(-3 * time.Second), "12:00", "now"},
		{noon.Add(-5 * time.Minute), "11:55", "5 minutes ago"},
		{noon.Add(2 * time.Hour), "14:00", "in 2 hours"},
		{noon.Add(-72 * time.Hour), "2026-03-11 12:00", "3 days ago"},
		{noon.AddDate(-1, 0, 0), "2025-03-14 12:00", "365 days ago"},
		{time.Time{}, "", ""},
	} {
		if m := newMoment(noon, tc.at); m.Text != tc.text || m.Ago != tc.ago {
			t.Errorf("%v is %q, %q", tc.at, m.Text, m.Ago)
		}
	}
}

func TestInvisibleCharactersAreShown(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"alice": "alice", "a b": "a b", "": "empty", "é": "é", "مدير": "مدير",
		"a\u202eb": "a⟨U+202E⟩b", "\u200b": "⟨U+200B⟩", "a\u00a0": "a⟨U+00A0⟩", "a\nb": "a⟨U+000A⟩b", "\xff": "⟨0xFF⟩",
	} {
		if got := newName(in).Full; got != want {
			t.Errorf("%q is shown as %q, not %q", in, got, want)
		}
	}
}

func TestLongNamesAreCut(t *testing.T) {
	t.Parallel()
	n := newName(strings.Repeat("é", 100_000))
	if !n.Cut || utf8.RuneCountInString(n.Pieces[0].Text) != shownRunes || utf8.RuneCountInString(n.Full) != titleRunes {
		t.Errorf("cut %v: %d runes shown, %d in the title", n.Cut, len(n.Pieces[0].Text), len(n.Full))
	}
}

func FuzzNamesNeverHideAnything(f *testing.F) {
	for _, s := range []string{"", "alice", hostile, "\u2066x\u2069", "e\u0301"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, p := range newName(s).Pieces {
			if !utf8.ValidString(p.Text) || strings.ContainsFunc(p.Text, func(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl) }) {
				t.Errorf("%q is drawn as %q", s, p.Text)
			}
		}
	})
}

// Measured before: "Under attack" eight minutes after the last guess, and "No attack" with an account to secure.
func TestTheHeadlineIsOfNowAndNotCalmWhileAccountsAreOpen(t *testing.T) {
	t.Parallel()
	v := answered(NowView{Overview: control.Overview{State: captchamode.State{Level: captchamode.Attack, On: true, Low: noon}}})
	if got := v.Verdict(); got.Headline != "Attack stopped — CAPTCHA mode still on" || got.Tone == "attack" {
		t.Errorf("during the cool-down: %+v", got)
	}
	v = answered(NowView{Overview: control.Overview{Unsecured: []attacks.Attack{{Compromised: attacks.Compromised{Lost: 7, Open: 1}}}}})
	if got := v.Verdict(); got.Tone == "quiet" || !strings.Contains(got.Headline, "not secured") {
		t.Errorf("with an account to secure: %+v", got)
	}
}

// Measured before: the beginning of throttling was called "CAPTCHA mode off".
func TestTheHistoryNamesThrottling(t *testing.T) {
	t.Parallel()
	const calm, slow, attack = captchamode.Calm, captchamode.Slow, captchamode.Attack
	for want, s := range map[string]captchamode.Switch{
		"Throttling unknown clients": {WasLevel: calm, Level: slow},
		"Throttling off":             {WasLevel: slow, Level: calm},
		"CAPTCHA mode on":            {WasLevel: slow, Level: attack, On: true},
		"CAPTCHA mode off":           {WasLevel: attack, WasOn: true, Level: calm},
	} {
		if got := change(s).To(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTheHeadlineSaysWhoDecides(t *testing.T) {
	t.Parallel()
	on, off := captchamode.Override{State: captchamode.ForcedOn}, captchamode.Override{State: captchamode.ForcedOff}
	for want, state := range map[string]captchamode.State{
		"No attack":                              {},
		"Throttling unknown clients":             {Level: captchamode.Slow},
		"Under attack — CAPTCHA mode on":         {Level: captchamode.Attack, On: true},
		"Attack stopped — CAPTCHA mode still on": {On: true},
		"CAPTCHA mode on":                        {On: true, Override: on},
		"Under attack — CAPTCHA mode forced off": {Level: captchamode.Attack, Override: off},
	} {
		if got := (status{State: state}).Verdict(); got.Headline != want || got.Meaning == "" || got.Tone == "" {
			t.Errorf("%+v is %q", state, got)
		}
	}
}
