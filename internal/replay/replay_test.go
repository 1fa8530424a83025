package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/replay"
)

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// A line is one attempt of a made-up log.
type line struct {
	At      time.Time `json:"time"`
	Account string    `json:"account"`
	Address string    `json:"address"`
	Outcome string    `json:"outcome"`
	Device  string    `json:"device,omitempty"`
}

func at(second int, account, address, outcome string) line {
	return line{monday.Add(time.Duration(second) * time.Second), account, address, outcome, ""}
}

// logOf writes lines to a log and opens it.
func logOf(t *testing.T, lines []line) *replay.Log {
	t.Helper()
	var b bytes.Buffer
	for _, l := range lines {
		if err := json.NewEncoder(&b).Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "log.json")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := replay.Open([]string{path}, replay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func defaults() replay.Setup {
	return replay.Setup{Name: "defaults", Policy: guard.DefaultPolicy(), Mode: captchamode.DefaultConfig()}
}

func replayed(t *testing.T, lines []line, o replay.Options, setups ...replay.Setup) *replay.Report {
	t.Helper()
	r, err := replay.Run(t.Context(), logOf(t, lines), setups, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestGuessesAreStoppedAndPeopleAreNot(t *testing.T) {
	t.Parallel()
	var lines []line
	lines = append(lines, at(0, "ann", "203.0.113.9", "success"))
	for i := range 20 { // 20 seconds apart, so that no wait is met
		lines = append(lines, at(20*(i+1), "ann", "198.51.100.1", "failure"))
	}
	lines = append(lines,
		at(500, "ann", "203.0.113.9", "success"), // from the known place
		at(510, "bob", "192.0.2.1", "failure"),
		at(511, "bob", "192.0.2.1", "success"),  // who had mistyped it
		at(520, "ann", "192.0.2.77", "success"), // from a new place, while she is guessed at
	)
	p := replayed(t, lines, replay.Options{}, defaults()).Policies[0]
	// The fourth and fifth guess come too soon for the delay of a pair, which doubles.
	if p.Guesses.All != 21 || p.Guesses.Checked != 6 || p.Guesses.Slips != 1 || p.Guesses.Stopped != [3]int64{15, 0, 0} {
		t.Errorf("guesses: %+v", p.Guesses)
	}
	want := replay.Logins{All: 4, Known: 1, Met: [3]int64{1, 0, 0}, Hindered: 1, People: 1}
	if p.Logins != want {
		t.Errorf("logins: %+v", p.Logins)
	}
	if len(p.Hindered) != 1 || p.Hindered[0].Account != "ann" || p.Hindered[0].Address != "192.0.2.77" || p.Hindered[0].Challenged != 1 || p.Hindered[0].KeptOut {
		t.Errorf("%+v", p.Hindered)
	}
	if len(p.Through) != 4 || p.Through[0] != (replay.Through{Kind: "account", Name: "ann", Checked: 5}) {
		t.Errorf("%+v", p.Through)
	}
	if p.Reasons["limit:account"] != 15 {
		t.Errorf("%v", p.Reasons)
	}

	nobody := replayed(t, lines, replay.Options{Solving: replay.NoneSolve}, defaults()).Policies[0]
	if nobody.Logins.KeptOut != 1 || !nobody.Hindered[0].KeptOut {
		t.Errorf("nobody solves: %+v", nobody.Logins)
	}
	everybody := replayed(t, lines, replay.Options{Solving: replay.AllSolve}, defaults()).Policies[0]
	if everybody.Guesses.Checked != 21 {
		t.Errorf("everybody solves: %+v", everybody.Guesses)
	}
}

// Who is told to wait waits, and tries again: that login is one.
func TestWhoeverIsToldToWaitComesBack(t *testing.T) {
	t.Parallel()
	lines := []line{
		at(0, "ann", "203.0.113.9", "failure"), at(1, "ann", "203.0.113.9", "failure"), at(2, "ann", "203.0.113.9", "failure"),
		at(2, "ann", "203.0.113.9", "success"),
		at(60, "bob", "203.0.113.10", "success"),
	}
	p := replayed(t, lines, replay.Options{}, defaults()).Policies[0]
	want := replay.Logins{All: 2, Met: [3]int64{0, 1, 0}, Hindered: 1, People: 1, LongestWait: time.Second}
	if p.Logins != want || p.Guesses.Slips != 3 {
		t.Errorf("%+v, %+v", p.Logins, p.Guesses)
	}
	last := replayed(t, lines[:4], replay.Options{}, defaults()).Policies[0]
	if last.Logins.All != 1 || last.Logins.LongestWait != time.Second {
		t.Errorf("who waits when the log ends: %+v", last.Logins)
	}
}

func TestADeviceIsKnownAtAnotherAddress(t *testing.T) {
	t.Parallel()
	lines := []line{at(0, "ann", "203.0.113.9", "success"), at(60, "ann", "192.0.2.77", "success"), at(120, "ann", "192.0.2.78", "success")}
	lines[0].Device, lines[1].Device = "laptop", "laptop"
	if p := replayed(t, lines, replay.Options{}, defaults()).Policies[0]; p.Logins.Known != 1 {
		t.Errorf("%+v", p.Logins)
	}
}

// A botnet with a guess from each address switches the mode; the log's end ends it not.
func TestCaptchaModeWouldHaveBeenOn(t *testing.T) {
	t.Parallel()
	var lines []line
	lines = append(lines, at(0, "ann", "203.0.113.9", "success"))
	for i := range 300 {
		lines = append(lines, at(60+i/5, fmt.Sprint("name", i), fmt.Sprintf("10.0.%d.%d", i/200, i%200), "failure"))
	}
	quiet := append(slices.Clone(lines), at(86400, "ann", "203.0.113.9", "success"))
	p := replayed(t, quiet, replay.Options{}, defaults()).Policies[0]
	if len(p.Mode) != 1 || !p.Mode[0].From.Equal(monday.Add(66*time.Second)) || p.Mode[0].To.IsZero() || p.ModeOn != p.Mode[0].To.Sub(p.Mode[0].From) {
		t.Fatalf("%+v", p.Mode)
	}
	if p.Guesses.Checked != 31 || p.Guesses.Stopped != [3]int64{269, 0, 0} {
		t.Errorf("%+v", p.Guesses)
	}
	if p := replayed(t, lines, replay.Options{}, defaults()).Policies[0]; len(p.Mode) != 1 || !p.Mode[0].To.IsZero() {
		t.Errorf("until the end: %+v", p.Mode)
	}
	if ended := p.Mode[0].To.Sub(monday); ended != 12*time.Minute+58*time.Second {
		t.Errorf("it went off after %v", ended)
	}
	on := 0
	for _, b := range p.Series {
		if b.Mode {
			on++
		}
	}
	if on == 0 || on == len(p.Series) {
		t.Errorf("on in %d of %d", on, len(p.Series))
	}
}

func TestALogWithoutAccounts(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "203.0.113.9 - - [02/Mar/2026:09:%02d:00 +0000] \"POST /login HTTP/1.1\" %d 0\n", i, 200)
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := replay.Open([]string{path}, replay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := replay.Run(t.Context(), l, []replay.Setup{defaults()}, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Twenty an hour from an address are looked at: the account's five are of no account.
	if p := r.Policies[0]; p.Guesses.Checked != 20 || len(p.Through) != 1 || p.Through[0].Kind != "address" {
		t.Errorf("%+v %+v", p.Guesses, p.Through)
	}
	if !slices.ContainsFunc(r.Sheet().Notes, func(n string) bool { return strings.Contains(n, "has no accounts") }) {
		t.Errorf("%q", r.Sheet().Notes)
	}
}

// byHand is a second, slow way to the figures. Reasons are the wrong passwords checked.
func byHand(t *testing.T, lines []line) (r replay.Result) {
	t.Helper()
	site, err := replay.NewSite(defaults(), lines[0].At)
	if err != nil {
		t.Fatal(err)
	}
	type past struct {
		line
		since   time.Time
		tries   int
		met     int // 0 nothing, 1 challenged, 2 told to wait, 3 refused
		checked bool
	}
	r.Reasons = map[string]int64{}
	var before []past
	todo := []past{}
	for _, l := range lines {
		todo = append(todo, past{line: l, since: l.At})
	}
	people := map[string]bool{}
	for len(todo) > 0 {
		one := todo[0]
		todo = todo[1:]
		site.Advance(one.At)
		right := one.Outcome == "success"
		address := loginAddress(one.Address)
		answer, err := site.Try(replay.Ask{Account: one.Account, Address: address, Right: right, Solves: right})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case answer.Action == guard.Delay:
			one.met = 2
		case answer.Action == guard.Challenge || answer.Action == guard.Proceed && answer.Challenged:
			one.met = 1
		case answer.Action != guard.Proceed:
			one.met = 3
		}
		one.checked = answer.Action == guard.Proceed
		if !right {
			if r.Guesses.All++; one.checked {
				r.Guesses.Checked++
				r.Reasons["account "+one.Account]++
				r.Reasons["address "+one.Address]++
			} else {
				r.Guesses.Stopped[one.met-1]++
			}
			before = append(before, one)
			continue
		}
		if one.met == 2 && one.tries < 20 {
			before = append(before, one)
			again := one
			again.met, again.tries = 0, one.tries+1
			again.At = one.At.Add(max(answer.RetryAfter, time.Second))
			i := 0
			for i < len(todo) && todo[i].At.Before(again.At) {
				i++
			}
			todo = slices.Insert(todo, i, again)
			continue
		}
		var met [4]bool
		met[one.met] = true
		last := one.At
		for i, p := range slices.Backward(before) {
			if p.Account != one.Account || p.Address != one.Address {
				continue
			}
			if last.Sub(p.At) > 24*time.Hour {
				break
			}
			last = p.At
			met[p.met] = true
			if p.checked && p.Outcome == "failure" {
				r.Guesses.Slips++
			}
			before[i].Account = "" // it is mended
		}
		r.Logins.All++
		if answer.Known {
			r.Logins.Known++
		}
		for i := range 3 {
			if met[i+1] {
				r.Logins.Met[i]++
			}
		}
		if met[1] || met[2] || met[3] {
			r.Logins.Hindered++
			people[one.Account+one.Address] = true
		}
		if !answer.In {
			r.Logins.KeptOut++
		}
		r.Logins.LongestWait = max(r.Logins.LongestWait, one.At.Sub(one.since))
	}
	r.Logins.People = int64(len(people))
	return r
}

func TestTheSameLogGivesTheSameReport(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	var lines []line
	for i := range 3000 {
		lines = append(lines, at(i*7, fmt.Sprint("name", random.IntN(900)), fmt.Sprintf("10.0.%d.%d", random.IntN(4), random.IntN(50)), []string{"success", "failure"}[random.IntN(2)]))
	}
	strict := defaults()
	strict.Name, strict.Policy.Address = "strict", []guard.Limit{{Failures: 2, Window: time.Hour, Action: guard.Block}}
	one, two := replayed(t, lines, replay.Options{}, defaults(), strict), replayed(t, lines, replay.Options{}, defaults(), strict)
	one.Log.Files, two.Log.Files = nil, nil
	if !reflect.DeepEqual(one, two) {
		t.Error("two reports differ")
	}
	if one.Policies[0].Name != "defaults" || one.Policies[1].Logins.KeptOut == 0 || one.Policies[1].Guesses.Checked >= one.Policies[0].Guesses.Checked {
		t.Errorf("%+v\n%+v", one.Policies[0].Guesses, one.Policies[1].Guesses)
	}
}

func TestStrangersTextsAreTextInEveryReport(t *testing.T) {
	t.Parallel()
	evil := "<img src=x onerror=alert(1)>\x1b[31m\u202e\nnew"
	lines := []line{at(0, evil, "203.0.113.9", "failure"), at(20, evil, "203.0.113.9", "success"), at(40, "<img src=x>", "203.0.113.10", "failure")}
	setup := defaults()
	setup.Name = "<b>\x1b"
	r := replayed(t, lines, replay.Options{}, setup)
	var text, page bytes.Buffer
	if err := r.Sheet().Text(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.Sheet().Page(&page); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"\x1b", "\u202e", "\nnew"} {
		if strings.Contains(text.String(), bad) || strings.Contains(page.String(), bad) {
			t.Errorf("%q is in a report", bad)
		}
	}
	if strings.Contains(page.String(), "<img") || strings.Contains(page.String(), "<b>") || strings.Contains(page.String(), "http:") || strings.Contains(page.String(), "https:") || strings.Contains(page.String(), "<script") {
		t.Error(page.String())
	}
	for _, want := range []string{"3 attempts from 2026-03-02 09:00:00", "wrong passwords checked", "onerror"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

func loginAddress(text string) netip.Addr { return netip.MustParseAddr(text) }
