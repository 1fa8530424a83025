//go:build !race

package simulate_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/replay"
	"authguard/internal/simulate"
	"authguard/internal/testing/doctest"
)

// Without a defense, every right guess gets in. Each defense lets some in.
func TestEveryRightGuessGetsInWhereNothingStopsIt(t *testing.T) {
	t.Parallel()
	attack := small + "attackers: [{kind: spray, from: 12h, for: 4h, attempts: 30000, addresses: 20000}]\n"
	all := happens(t, attack, simulate.Defenses()...)
	none := all[1]
	if none.Name != "none" || none.Guesses != 30000 || none.Checked != 30000 || none.Right == 0 || none.Let != none.Right || none.Lost == 0 || none.Lost > 100 {
		t.Errorf("%+v", none)
	}
	for _, r := range all {
		if r.Logins != none.Logins || r.Guesses != none.Guesses || r.Right != none.Right {
			t.Errorf("%s is about another town: %+v", r.Name, r)
		}
	}
	if all[0].Let*20 > none.Let || all[0].ModeOn == 0 {
		t.Errorf("authguard: %+v", all[0])
	}
}

func TestWhatOthersDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, attack string
		check        func(r simulate.Result) bool
	}{
		{"windows", "{kind: walk, from: 1h, for: 10h, attempts: 6000, addresses: 1}", func(r simulate.Result) bool {
			return r.Checked >= 5*55 && r.Checked <= 5*61 // five every ten minutes
		}},
		{"windows", "{kind: spray, from: 1h, for: 10h, attempts: 6000, addresses: 6000}", func(r simulate.Result) bool { return r.Checked > 5900 }},
		{"lockout", "{kind: hammer, from: 8h, for: 10h, attempts: 6000, addresses: 6000, accounts: 1}", func(r simulate.Result) bool {
			return r.Checked >= 5*35 && r.Checked <= 5*45 && r.Stopped > 0 // and the owner is kept out
		}},
		{"cookies", "{kind: hammer, from: 1h, for: 10h, attempts: 6000, addresses: 6000, accounts: 1}", func(r simulate.Result) bool {
			return r.Checked >= 10*9 && r.Checked <= 10*11
		}},
		{"captchamode", "{kind: spray, from: 1h, for: 10m, attempts: 12000, addresses: 12000}", func(r simulate.Result) bool {
			return r.Checked == 501+r.Let && r.ModeOn >= 19*time.Minute && r.ModeOn <= 20*time.Minute
		}},
		{"pgrp", "{kind: spray, from: 1h, for: 10h, attempts: 6000, addresses: 6000}", func(r simulate.Result) bool {
			return r.Checked > 870+r.Let && r.Checked <= 900+r.Let // three for each account, of which people's slips are some
		}},
		{"pgrp", "{kind: spray, from: 1h, for: 10h, attempts: 6000, addresses: 6000, solves: true}", func(r simulate.Result) bool {
			return r.Checked == 6000 && r.Let == r.Right && r.Solved > 5000
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if r := happens(t, small+"attackers: ["+c.attack+"]\n", c.name)[1]; !c.check(r) {
				r.Series = nil
				t.Errorf("%s: %+v", c.attack, r)
			}
		})
	}
}

func TestAnAccountOfTheAttackersOwnHelpsNothing(t *testing.T) {
	t.Parallel()
	with := happens(t, small+"attackers: [{kind: own, from: 1h, for: 20h, attempts: 4000, addresses: 1}]\n")[0]
	if with.Guesses != 3800 || with.Checked > 60 {
		t.Errorf("%+v", with)
	}
}

func TestEveryScenarioThatComesAlongHappens(t *testing.T) {
	t.Parallel()
	all, err := simulate.Scenarios()
	if err != nil || len(all) < 15 {
		t.Fatal(len(all), err)
	}
	for _, s := range all {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if s.About == "" {
				t.Error("nobody says what it is about")
			}
			// The same attack on a town of a hundredth, in as many days.
			s.People.Accounts = max(40, s.People.Accounts/100)
			s.People.Stale = min(s.People.Stale, 2)
			for i := range s.Attackers {
				a := &s.Attackers[i]
				a.Attempts, a.Addresses, a.Accounts = max(1, a.Attempts/200), max(1, a.Addresses/100), min(a.Accounts, s.People.Accounts)
			}
			s.Days = min(s.Days, 7)
			s.Attackers = within(s.Attackers, s.Days)
			r, err := simulate.Run(t.Context(), s, ours(), []string{"none"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, none := r.Results[0], r.Results[1]
			if a.Logins == 0 || a.Let > none.Let || a.Stopped > 0 || a.LongestOut > 5*time.Minute {
				a.Series = nil
				t.Errorf("%+v", a)
			}
		})
	}
}

func within(all []simulate.Attack, days int) []simulate.Attack {
	for i := range all {
		all[i].For = min(all[i].For, time.Duration(days)*24*time.Hour-all[i].From)
	}
	return all
}

func TestTheSameSeedGivesTheSameFigures(t *testing.T) {
	t.Parallel()
	attack := small + "attackers: [{kind: stuff, from: 12h, for: 24h, attempts: 3000, addresses: 200, right: 0.1, solves: true}]\n"
	one, two, other := happens(t, attack, "pgrp"), happens(t, attack, "pgrp"), happens(t, "seed: 2\n"+attack, "pgrp")
	if !reflect.DeepEqual(one, two) {
		t.Errorf("%+v\n%+v", one, two)
	}
	if reflect.DeepEqual(one, other) || one[0].Right < 250 || one[0].Right > 350 {
		t.Errorf("%+v", other)
	}
}

// The figures of docs/evaluation.md, and those of them that the README has, are what the
// command prints that stands above them.
func TestTheFiguresOfTheReadme(t *testing.T) {
	t.Parallel()
	words := strings.Fields(doctest.Claimed(t, "docs/evaluation.md")[0].Text) // authguard limit simulate NAME… --against NAMES
	scenarios, against := words[3:len(words)-2], strings.Split(words[len(words)-1], ",")
	row := regexp.MustCompile("(?m)^\\| `[a-z-]+` \\| [\\d,]+ \\|.* [\\d,]+ \\|$")
	rows := map[string][]string{}
	for path, n := range map[string]int{"docs/evaluation.md": len(scenarios) * (1 + len(against)), "README.md": len(scenarios)} {
		text, err := os.ReadFile(filepath.Join(doctest.Root(t), path))
		if err != nil {
			t.Fatal(err)
		}
		if rows[path] = row.FindAllString(string(text), -1); len(rows[path]) != n {
			t.Fatalf("%s has %d rows, want %d", path, len(rows[path]), n)
		}
	}
	for _, name := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := simulate.Load(name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := simulate.Run(t.Context(), s, ours(), against, nil)
			if err != nil {
				t.Fatal(err)
			}
			comma := func(n int) string { return replay.Comma(int64(n)) }
			short := fmt.Sprintf("| `%s` | %s |", name, comma(r.Results[0].Right))
			for _, one := range r.Results {
				short += " " + comma(one.Let) + " |"
				whole := fmt.Sprintf("| `%s` | %s | `%s` | %s | %s | %s | %s |", name, comma(one.Right), one.Name, comma(one.Let),
					comma(one.Stopped), comma(one.Challenges), comma(one.WaysIn))
				if !slices.Contains(rows["docs/evaluation.md"], whole) {
					t.Errorf("docs/evaluation.md has no %s", whole)
				}
			}
			if !slices.Contains(rows["README.md"], short) {
				t.Errorf("README.md has no %s", short)
			}
		})
	}
}

// The four ways of stuffing, over five seeds (one, unless FULL_SIZE is set): the median of right pairs that got in, and
// what it costs users. Where no code can be sent, no user is stopped.
func TestR32StuffingInTheTown(t *testing.T) {
	t.Parallel()
	seeds := []uint64{1, 2, 3, 4, 5}
	if os.Getenv("FULL_SIZE") == "" {
		seeds = seeds[:1]
	}
	for name, most := range map[string]int{"stuffing-once": 10, "stuffing-farm": 10, "stuffing-networks": 10, "stuffing-slow": 20} {
		if name != "stuffing-networks" && len(seeds) == 1 {
			continue // in the evaluation's table, or like it
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var let []int
			var codes []float64
			for _, seed := range seeds {
				lists := []float64{0, 0.6}
				if seed > 1 {
					lists = lists[:1] // the list is drawn like the pairs
				}
				for _, leaked := range lists {
					r := stuffed(t, name, seed, func(s *simulate.Scenario) { s.Leaked = leaked }, ours()...)[0]
					days := map[bool]int{true: 14, false: 1}[name == "stuffing-slow"]
					quiet, attack := affected(r, 0, 2), affected(r, 2, days)
					t.Logf("seed %d, a list of %v: %d of %d in; %d codes, %.3f %% of the logins of usual days affected, %.2f %% of "+
						"those of the attack; kept out for %v at most", seed, leaked, r.Let, r.Right, r.WaysIn, quiet, attack, r.LongestOut)
					if leaked == 0 {
						let, codes = append(let, r.Let), append(codes, attack)
					}
					usual := map[float64]float64{0: 0.05, 0.6: 0.15}[leaked]
					if r.Stopped > 0 || r.LongestOut > 2*time.Minute || quiet > usual {
						t.Errorf("seed %d, a list of %v: users are kept out", seed, leaked)
					}
				}
			}
			r := stuffed(t, name, 1, func(s *simulate.Scenario) { s.People.WithoutEmail = true }, ours()...)[0]
			t.Logf("without email: %d of %d in, %d users met a challenge", r.Let, r.Right, r.People)
			if r.Stopped+r.WaysIn > 0 || r.LongestOut > 2*time.Minute {
				t.Errorf("where no code can be sent, %d users are stopped, for %v at most", r.Stopped+r.WaysIn, r.LongestOut)
			}
			slices.Sort(let)
			slices.Sort(codes)
			// 1.5 of a hundred logins are from unknown clients: 1.4 to 1.6, by seed.
			if median := let[len(let)/2]; median > most || codes[len(codes)/2] >= 1.55 {
				t.Errorf("%d in, want at most %d; %.2f %% of the logins affected", median, most, codes[len(codes)/2])
			}
		})
	}
}

func stuffed(t *testing.T, name string, seed uint64, change func(*simulate.Scenario), setups ...replay.Setup) []simulate.Result {
	t.Helper()
	s, err := simulate.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	s.Seed = seed
	change(&s)
	r, err := simulate.Run(t.Context(), s, setups, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Results
}

// affected returns the percentage of logins that needed a code or met a challenge, in so many days.
func affected(r simulate.Result, from, days int) float64 {
	var logins, hindered int64
	for _, hour := range r.Series[from*24 : (from+days)*24] {
		logins, hindered = logins+hour.Logins, hindered+hour.Hindered
	}
	return 100 * float64(hindered) / float64(logins)
}

// The table of docs/evaluation.md: what each condition of the step-up, and a list of leaked passwords, do and cost.
// Unless FULL_SIZE is set, only a week without an attack, with a list.
func TestTheTableOfTheStepUp(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(doctest.Root(t), "docs/evaluation.md"))
	if err != nil {
		t.Fatal(err)
	}
	step := guard.DefaultPolicy().StepUp
	conditions := map[string]guard.StepUp{"never": {}, "`throttling`, `captcha`": {Throttling: step.Throttling, Captcha: step.Captcha},
		"`elevated`": {Elevated: step.Elevated}, "default": step}
	rows := map[string][]string{} // by list, then condition
	for _, row := range regexp.MustCompile("(?m)^\\| (never|default|`throttling`, `captcha`|`elevated`) \\| .* \\|$").FindAllString(string(text), -1) {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		if len(cells) != 8 {
			t.Fatalf("%q", row)
		}
		rows[cells[1]] = append(rows[cells[1]], row)
	}
	if len(rows) != 4 {
		t.Fatalf("lists: %v", rows)
	}
	names := []string{"stuffing-once", "stuffing-farm", "stuffing-networks", "stuffing-slow", "quiet"}
	columns := names
	if os.Getenv("FULL_SIZE") == "" {
		columns, rows = names[4:], map[string][]string{"60": rows["60"]}
	}
	for list, of := range rows {
		share, err := strconv.ParseFloat(list, 64)
		if err != nil {
			t.Fatal(err)
		}
		var setups []replay.Setup
		var cells [][]string
		for _, row := range of {
			all := strings.Split(strings.Trim(row, "| "), " | ")
			setup := ours()[0]
			setup.Policy.StepUp = conditions[all[0]]
			setup.Policy.StepUp.Leaked = true
			setups, cells = append(setups, setup), append(cells, all)
		}
		for _, name := range columns {
			t.Run(name+" "+list, func(t *testing.T) {
				t.Parallel()
				for i, r := range stuffed(t, name, 1, func(s *simulate.Scenario) { s.Leaked = share / 100 }, setups...) {
					check := func(column int, want string) {
						if got := cells[i][column]; got != want {
							t.Errorf("docs/evaluation.md: %s, column %d: %s, want %s", of[i], column, got, want)
						}
					}
					if name == "quiet" {
						check(7, fmt.Sprintf("%.2f", affected(r, 0, 7)))
						continue
					}
					check(2+slices.Index(names, name), fmt.Sprint(r.Let))
					if name == "stuffing-once" {
						check(6, fmt.Sprintf("%.2f", affected(r, 2, 1)))
					}
				}
			})
		}
	}
}

// A botnet below every other threshold, with leaked pairs, each tried once from an address of
// its own. What gives it away is its program, unless that is a browser that people have.
func TestABotnetWithOneClientIsAskedAndPeopleAreNot(t *testing.T) {
	t.Parallel()
	const text = "days: 2\npeople: {accounts: 400}\nattackers: [{kind: stuff, from: 12h, for: 24h, attempts: 4000, addresses: 4000, right: 0.05, browser: %d}]\n"
	policy := guard.DefaultPolicy()
	policy.Fingerprint = []guard.Limit{{Failures: 30, Window: time.Hour, Action: guard.Challenge}}
	setups := append(ours(), replay.Setup{Name: "identity", Policy: policy, Mode: captchamode.DefaultConfig()})
	for browser, want := range []string{"93 9 7, 42 0 0", "93 9 7, 42 5 5"} { // nobody's, and the commonest
		s, err := simulate.Parse([]byte("name: test\n" + fmt.Sprintf(text, browser)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := simulate.Run(t.Context(), s, setups, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		without, with := r.Results[0], r.Results[1]
		if got := fmt.Sprintf("%d %d %d, %d %d %d", without.Let, without.Challenges, without.People, with.Let, with.Challenges, with.People); got != want {
			t.Errorf("browser %d: let in, challenges to people, people without and with the limit: %s, want %s", browser, got, want)
		}
		if with.Stopped+with.KnownChallenged > 0 {
			t.Errorf("browser %d: %d people were stopped, %d known ones asked", browser, with.Stopped, with.KnownChallenged)
		}
	}
}

// A leaked right password needs a code at an unknown client, also its owner's, unless the site can send none. Few get in
// although all are leaked: their owners have chosen others since.
func TestALeakedPasswordNeedsACode(t *testing.T) {
	t.Parallel()
	setup := ours()[0]
	setup.Policy.StepUp = guard.StepUp{Leaked: true}
	for text, want := range map[string]struct{ all, few, codes bool }{
		"":              {all: true},
		"leaked: 1\n":   {few: true, codes: true},
		"leaked: 0.5\n": {codes: true},
		"leaked: 1\npeople: {without_email: true": {all: true},
	} {
		text, email, _ := strings.Cut(text, "people: {")
		text = "name: x\ndays: 2\n" + text + "people: {accounts: 400, common: 0.2, " + email + "}\nattackers: [{kind: pairs, " +
			"from: 24h, for: 24h, attempts: 2000, addresses: 2000, right: 0.05}]\n"
		s, err := simulate.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		report, err := simulate.Run(t.Context(), s, []replay.Setup{setup}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		r := report.Results[0]
		if r.Series = nil; r.Right < 50 || (r.Let == r.Right) != want.all || (r.Let*20 < r.Right) != want.few || (r.WaysIn > 0) != want.codes || r.Stopped > 0 {
			t.Errorf("%s\n%+v", text, r)
		}
	}
}
