package pages

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"authguard/internal/attacks"
	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/metrics"
)

// Asks reports whether the page shows the four questions. A quiet site has one line.
func (v NowView) Asks() bool {
	s := v.Overview.Situation
	return s.State != control.NoAttack && s.State != ""
}

// Verdict is that of CAPTCHA mode, unless the situation says more: an attack that the detector does not see, or
// accounts to secure.
func (v NowView) Verdict() verdict {
	said, s := v.Status().Verdict(), v.Overview.Situation
	switch {
	case s.State == control.UnderAttack && s.Of != nil && s.Of.Kind != attacks.Site && said.Tone != "attack":
		said.Headline, said.Tone = kindWords(s.Of.Kind), "slow"
	case s.State == control.AttackOver && !v.Overview.State.On:
		said.Headline, said.Tone = "Attack stopped", "slow"
	case s.State == control.AccountsOpen && said.Tone != "attack":
		said.Headline, said.Tone = "No attack — possibly compromised accounts not secured", "slow"
	}
	return said
}

func kindWords(kind string) string {
	return map[string]string{attacks.Site: "Attack on the site", attacks.Account: "Brute force against one account",
		attacks.Address: "Brute force from one IP address", attacks.Spray: "Password spraying"}[kind]
}

// AttackURL returns the page of the situation's attack, with a fragment.
func (v NowView) AttackURL(fragment string) string {
	return v.At("/attacks/"+url.PathEscape(v.Overview.Situation.Of.ID)) + fragment
}

// Shape describes the situation's attack in a few words.
func (v NowView) Shape() string {
	a := v.Overview.Situation.Attack()
	words := slices.Clone(a.Shapes)
	if len(words) == 0 {
		words = []string{strings.ToLower(kindWords(v.Overview.Situation.Of.Kind))}
	}
	return strings.Join(append(words, events.Count(int(a.Addresses), "IP address"), events.Count(int(a.Accounts),
		"user name")), ", ")
}

// StoppedWord answers the second question.
func (v NowView) StoppedWord() string {
	return map[string]string{control.Yes: "Yes", control.Partly: "In part", control.No: "No"}[v.Overview.Situation.Stopped.Answer]
}

// OpenElsewhere returns the number of accounts to secure after other attacks.
func (v NowView) OpenElsewhere() int {
	return max(0, v.Overview.Situation.Entered.OpenInAll-v.Overview.Situation.Entered.Open)
}

// Switching returns the page with the form of CAPTCHA mode open at "on", "off" or "auto".
func (v NowView) Switching(to string) string { return with(v.Here(), "switch="+to) + "#switch" }

// Mode returns what the form of CAPTCHA mode has selected: Preset, or the mode in force.
func (v NowView) Mode() string {
	if slices.Contains([]string{"auto", "on", "off"}, v.Preset) {
		return v.Preset
	}
	return cmp.Or(string(v.Overview.State.Override.State), "auto")
}

// SetupDone returns the number of steps that are done.
func (v NowView) SetupDone() (n int) {
	for _, s := range v.Overview.Setup {
		if s.Done {
			n++
		}
	}
	return n
}

// others are the names that do not stand out, in words; empty for none.
func others(r metrics.Rest, one string) string {
	if r.Names == 0 {
		return ""
	}
	each := "1 try each"
	if r.Most > 1 {
		each = fmt.Sprintf("1–%s tries each", comma(r.Most))
	}
	return fmt.Sprintf("%s, %s: nothing to block", events.Count(r.Names, "other "+one), each)
}

func with(path, parameter string) string {
	if strings.Contains(path, "?") {
		return path + "&" + parameter
	}
	return path + "?" + parameter
}
