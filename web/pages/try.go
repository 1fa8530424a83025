package pages

import (
	"fmt"
	"net/url"
	"time"

	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/internal/policy"
	"authguard/internal/replay"
	"authguard/internal/times"
)

// TryView tries other numbers of limits, and overrides the limits with them. Its forms post to /policy/try and
// /policy/limits.
type TryView struct {
	Admin
	Set policy.LimitSet
	// Limits are the numbers as typed, or those in force.
	Limits string
	// Trial is nil before numbers are tried.
	Trial *control.Trial
	// Problem is the handler's sentence about invalid numbers, and Refused about those that cannot be an override.
	Problem, Refused string
	// Fresh is set if the administrator signed in recently. Without it limits cannot be overridden.
	Fresh bool
}

// RenderTry draws the page.
func RenderTry(v TryView) ([]byte, error) { return render("try", v) }

// Frame returns the page's title and layout.
func (v TryView) Frame() frame { return frame{Title: v.Title() + " · Admin console", Wide: true} }

// Title names the page.
func (v TryView) Title() string { return "Try other numbers: " + lowerFirst(LimitSetTitle(v.Set.Name)) }

// TryAt returns the URL of the page for a set of limits.
func TryAt(limitSet, realm string) string {
	q := url.Values{"limit": {limitSet}}
	if realm = events.RealmName(realm); realm != "" {
		q.Set("realm", realm)
	}
	return "/policy/try?" + q.Encode()
}

// Holds returns the durations of an override, the default first.
func (TryView) Holds() []choice {
	return []choice{{"24h", "1 day"}, {"1h", "1 hour"}, {"168h", "1 week"}, {"720h", "30 days"}}
}

// An effect is one number under the limits in force and under those that were tried.
type effect struct {
	Name  string
	Cells [2]cell
}

// Effects compares the limits.
func (v TryView) Effects() []effect {
	all := []effect{{Name: "Guesses checked"}, {Name: "Guesses stopped"}, {Name: "Users affected"},
		{Name: "Logins that failed for users"}, {Name: "CAPTCHA mode on"}}
	for i, r := range []replay.Result{v.Trial.Today, v.Trial.Tried} {
		by, on := r.Guesses.Stopped, "never"
		if r.ModeOn > 0 {
			on = times.FormatDuration(r.ModeOn.Round(time.Minute))
		}
		how := ""
		if stopped(by) > 0 {
			how = fmt.Sprintf("%s challenged, %s delayed, %s blocked", comma(int(by[0])), comma(int(by[1])), comma(int(by[2])))
		}
		for j, c := range []cell{{Text: comma(int(r.Guesses.Checked))}, {comma(int(stopped(by))), how},
			{Text: comma(int(r.Logins.People))}, {Text: comma(int(r.Logins.KeptOut))}, {Text: on}} {
			all[j].Cells[i] = c
		}
	}
	return all
}

func stopped(by [3]int64) int64 { return by[0] + by[1] + by[2] }

// Sum compares the limits in one sentence.
func (v TryView) Sum() string {
	a, b := v.Trial.Today, v.Trial.Tried
	guesses := int(stopped(b.Guesses.Stopped) - stopped(a.Guesses.Stopped))
	users := int(b.Logins.People - a.Logins.People)
	if guesses == 0 && users == 0 {
		return "No difference to the limits in force."
	}
	return fmt.Sprintf("%s stopped, and %s affected than with the limits in force.", moreOf(guesses, "guess", "guesses"),
		moreOf(users, "user", "users"))
}

// moreOf returns "3 more guesses" or "2 fewer guesses".
func moreOf(n int, one, many string) string {
	word := many
	if n == 1 || n == -1 {
		word = one
	}
	if n < 0 {
		return comma(-n) + " fewer " + word
	}
	return comma(n) + " more " + word
}
