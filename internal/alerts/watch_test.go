package alerts

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

var (
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	client = netip.MustParseAddr("192.0.2.7")
)

type raised struct {
	kind Kind
	body string
}

func watching() (*watcher, *[]raised) {
	var list []raised
	return newWatcher(func() string { return "Kept." }, func(_ time.Time, kind Kind, body string) { list = append(list, raised{kind, body}) }), &list
}

func fullAccount(name string, at time.Time) *guard.Event {
	return &guard.Event{
		At: at, Account: name, Address: client, Action: guard.Challenge, AccountFailures: 5,
		Reasons: guard.Reasons{{
			Cause: guard.LimitReached, Subject: guard.OnAccount, Limit: &guard.Limit{Failures: 5, Action: guard.Challenge},
		}},
	}
}

func success(name string, failures int) *guard.Event {
	return &guard.Event{
		At: noon, Integration: "login", Account: name, Address: client, Action: guard.Proceed, Settled: true,
		Outcome: guard.Succeeded, ClientEvent: guard.ClientEvent{NewClient: true}, AccountFailures: failures,
	}
}

func TestAnAccountUnderAttackIsToldOnceADay(t *testing.T) {
	t.Parallel()
	w, list := watching()
	for hour := range 49 {
		w.event(fullAccount("alice", noon.Add(time.Duration(hour)*time.Hour)))
	}
	if len(*list) != 3 {
		t.Fatalf("%d alerts in 49 hours, want 3", len(*list))
	}
}

func TestAPrivilegedPlaceIsNoAttackOnItsAccount(t *testing.T) {
	t.Parallel()
	w, list := watching()
	e := fullAccount("alice", noon)
	e.Known = true
	w.event(e)
	if len(*list) != 0 {
		t.Fatal(*list)
	}
}

func TestAFloodOfNamesFillsABoundedMemoryAndIsToldOnceAsAWhole(t *testing.T) {
	t.Parallel()
	w, list := watching()
	for i := range 3 * maxAccounts {
		w.event(fullAccount(fmt.Sprint("made-up-", i), noon.Add(time.Duration(i)*time.Second)))
	}
	if len(w.attacked) != maxAccounts+1 || len(*list) != maxAccounts+1 {
		t.Fatalf("%d remembered, %d alerts, want %d and one more of each", len(w.attacked), len(*list), maxAccounts)
	}
}

func TestASuccessAfterManyFailuresIsToldOnlyFromANewPlace(t *testing.T) {
	t.Parallel()
	w, list := watching()
	w.event(success("few failures", failuresBefore-1))
	known := success("known place", 50)
	known.NewClient = false
	w.event(known)
	failed := success("not in", 50)
	failed.Outcome = guard.Failed
	w.event(failed)
	w.event(success("alice", failuresBefore))
	if len(*list) != 1 || (*list)[0].kind != SuspiciousSuccess || !strings.HasPrefix((*list)[0].body, `account "alice" from 192.0.2.7 (login), after 5 `) {
		t.Fatal(*list)
	}
}

func TestR24ModeAlertsAreEdges(t *testing.T) {
	t.Parallel()
	const off, slow, on = events.ModeOff, events.ModeSlow, events.ModeOn
	for name, c := range map[string]struct {
		from, to string
		attacked bool
		cause    string
		want     string
	}{
		"slowing is an attack":               {off, slow, true, "failure-rate", "[attack-started]"},
		"on by itself":                       {off, on, true, "failure-rate", "[attack-started captcha-mode-on]"},
		"off by itself":                      {on, off, false, "cool-down", "[captcha-mode-off]"},
		"forced on is no attack":             {off, on, false, events.CauseForced, "[captcha-mode-on]"},
		"forced off while off":               {off, off, false, events.CauseForced, "[captcha-mode-off]"},
		"an attack while forced on":          {on, on, true, "failure-rate", "[attack-started]"},
		"on stays on":                        {on, on, false, "cool-down", "[]"},
		"cleared in an attack":               {on, off, false, events.CauseCleared, "[captcha-mode-off]"},
		"cleared while nothing was on":       {off, off, false, events.CauseCleared, "[]"},
		"steady for half a day":              {slow, slow, true, events.CauseSteady, "[attack-started failure-rate-steady]"},
		"slow ends with no attack in memory": {slow, off, false, "cool-down", "[]"},
	} {
		w, list := watching()
		w.modeSwitch(events.ModeSwitch{At: noon, From: c.from, To: c.to, Attacked: c.attacked, Cause: c.cause})
		if got := fmt.Sprint(kinds(*list)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestR25SteadyPressureIsOneAlertOfItsOwn(t *testing.T) {
	t.Parallel()
	w, list := watching()
	w.modeSwitch(events.ModeSwitch{At: noon, From: "off", To: "throttling", Attacked: true, Cause: "failure-rate", FailureRate: 11, Threshold: 30})
	w.modeSwitch(events.ModeSwitch{At: noon, From: "throttling", To: "throttling", Attacked: true, Cause: events.CauseSteady, FailureRate: 28, Threshold: 30})
	w.modeSwitch(events.ModeSwitch{At: noon, From: "throttling", To: "off", Cause: "cool-down"})
	const want = "[attack-started failure-rate-steady attack-ended]"
	if got := fmt.Sprint(kinds(*list)); got != want || !strings.HasPrefix((*list)[1].body, "failure rate 28 a minute, threshold 30.") {
		t.Errorf("%s, want %s: %+v", got, want, *list)
	}
}

func kinds(list []raised) []Kind {
	var all []Kind
	for _, r := range list {
		all = append(all, r.kind)
	}
	return all
}

func TestR24AnAttackEndsWhenTheDetectorSaysSoWhateverAPersonSays(t *testing.T) {
	t.Parallel()
	w, list := watching()
	for _, s := range []events.ModeSwitch{
		{From: "off", To: "throttling", Attacked: true, Cause: "failure-rate"},
		{From: "throttling", To: "on", Attacked: true, Cause: "failure-rate"},
		{From: "on", To: "throttling", Attacked: true, Cause: events.CauseForced, Who: "root"},
		{From: "throttling", To: "off", Attacked: false, Cause: "cool-down", Who: "root"},
	} {
		w.modeSwitch(s)
	}
	const want = "[attack-started captcha-mode-on captcha-mode-off attack-ended]"
	if got := fmt.Sprint(kinds(*list)); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
}

// A resumed attack raises no second alert while it is small. One of real size does.
func TestR24AResumedAttackRaisesAnAlertOnlyIfItIsLarge(t *testing.T) {
	t.Parallel()
	w, list := watching()
	attack := func(resumed bool, attempts int) {
		*list = nil
		w.modeSwitch(events.ModeSwitch{At: noon, From: "off", To: "throttling", Attacked: true, Resumed: resumed, Cause: "failure-rate", Threshold: 30})
		w.modeSwitch(events.ModeSwitch{At: noon, From: "throttling", To: "on", Attacked: true, Resumed: resumed, Cause: "failure-rate", Threshold: 30})
		for range attempts {
			w.event(&guard.Event{At: noon, Account: "alice", Address: client, Action: guard.Challenge})
		}
		w.modeSwitch(events.ModeSwitch{At: noon, From: "on", To: "off", Cause: "cool-down"})
	}
	for _, one := range []struct {
		resumed  bool
		attempts int
		want     string
	}{
		{false, 31, "[attack-started captcha-mode-on attack-ended captcha-mode-off]"},
		{true, 31, "[]"},
		{true, 599, "[]"},
		{true, 600, "[attack-started captcha-mode-on attack-ended captcha-mode-off]"},
		{true, 31, "[]"},
	} {
		if attack(one.resumed, one.attempts); fmt.Sprint(kinds(*list)) != one.want {
			t.Errorf("resumed %v, %d attempts: %v, want %s", one.resumed, one.attempts, kinds(*list), one.want)
		}
		const again = "short attacks without an alert since then: 2"
		if one.attempts == 600 && !strings.Contains((*list)[0].body, again) {
			t.Errorf("%q does not count the two", (*list)[0].body)
		}
	}
	*list = nil // a third of the threshold again, then the threshold for the first time that day
	w.modeSwitch(events.ModeSwitch{From: "off", To: "throttling", Attacked: true, Resumed: true, Cause: "failure-rate"})
	w.modeSwitch(events.ModeSwitch{From: "throttling", To: "on", Attacked: true, Cause: "failure-rate"})
	if got := fmt.Sprint(kinds(*list)); got != "[attack-started captcha-mode-on]" {
		t.Errorf("the threshold for the first time: %s", got)
	}
	w, list = watching() // an administrator's word is always reported
	w.modeSwitch(events.ModeSwitch{From: "off", To: "on", Attacked: true, Resumed: true, Cause: "failure-rate", Threshold: 30})
	w.modeSwitch(events.ModeSwitch{From: "on", To: "off", Attacked: true, Cause: events.CauseForced, Who: "root"})
	if got := fmt.Sprint(kinds(*list)); got != "[captcha-mode-off]" {
		t.Errorf("forced off: %s", got)
	}
}

func TestAModeAlertSaysWhoWhyAndUntilWhen(t *testing.T) {
	t.Parallel()
	w, list := watching()
	w.modeSwitch(events.ModeSwitch{
		At: noon, From: "off", To: "on", Cause: "forced", Who: "root", Why: "drill\nBcc: x", FailureRate: 3, Threshold: 30, Until: noon.Add(2 * time.Hour),
	})
	const want = "cause: forced; failure rate 3 a minute, threshold 30\n" + `by "root": "drill\nBcc: x"` + "\nuntil 2026-11-21 14:00:00 UTC"
	if (*list)[0].body != want {
		t.Fatalf("%q", (*list)[0].body)
	}
}

func TestTheAttacksSummaryHasItsNumbers(t *testing.T) {
	t.Parallel()
	w, list := watching()
	w.modeSwitch(events.ModeSwitch{At: noon, From: "off", To: "throttling", Attacked: true})
	for i := range 3000 {
		e := guard.Event{At: noon, Account: fmt.Sprint("user", i%500), Address: netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}
		if e.Action = guard.Challenge; i%10 == 0 {
			e.Action, e.Account, e.Address, e.Settled = guard.Proceed, "alice", client, true
		}
		w.event(&e)
	}
	w.event(success("<b>mallory", 0))
	w.modeSwitch(events.ModeSwitch{At: noon.Add(90 * time.Minute), From: "throttling", To: "off"})
	body := (*list)[1].body
	for _, want := range []string{
		"Duration: 1h30m0s, from 2026-11-21 12:00:00 UTC to 2026-11-21 13:30:00 UTC.",
		"Failed: 300, challenged: 2700, delayed: 0, blocked: 0.",
		"Top IP addresses (attempts, at least): 192.0.2.7 (",
		`Most attacked accounts (attempts, at least): "alice" (`,
		`Logins from unknown clients meanwhile: 1. Check them: "\x3cb\x3emallory" from 192.0.2.7.`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	var addresses, accounts int
	at := strings.Index(body, "About ")
	if _, err := fmt.Sscanf(body[at:], "About %d IP addresses and %d accounts.", &addresses, &accounts); err != nil {
		t.Fatal(err)
	}
	if addresses < 2600 || addresses > 2800 || accounts < 430 || accounts > 470 { // 2701 and 451
		t.Errorf("about %d addresses and %d accounts", addresses, accounts)
	}
}

func TestTheListOfSuccessesIsBounded(t *testing.T) {
	t.Parallel()
	a := newAttack(events.ModeSwitch{At: noon})
	for i := range 1000 {
		a.add(success(fmt.Sprint(i), 0), events.Succeeded)
	}
	if s := a.summary(noon); !strings.Contains(s, "meanwhile: 1000.") || !strings.Contains(s, "; and 980 more.") {
		t.Fatal(s)
	}
}

// A sprayed password is told of once for each edge: that it is sprayed, that it was
// right and turned away, and that it got in (with a one-time code). No alert holds
// anything of the password.
func TestR28AlertsOfASprayedPassword(t *testing.T) {
	t.Parallel()
	w, list := watching()
	try := func(o guard.Outcome, sprayed bool) {
		e := success("alice", 1)
		e.Outcome, e.NewClient, e.Sprayed = o, o == guard.Succeeded, sprayed
		w.event(e)
	}
	try(guard.Failed, true)
	try(guard.Succeeded, false)
	for range 20 {
		try(guard.Insufficient, true)
	}
	try(guard.Succeeded, true)
	want := []raised{
		{SprayedRight, `account "alice" from 192.0.2.7 (login); it was answered as wrong. Reset the account's password`},
		{SuspiciousSuccess, `account "alice" from 192.0.2.7 (login), after 1 wrong passwords from unknown clients, with a password used for password spraying`},
	}
	if !slices.Equal(*list, want) {
		t.Errorf("%q\nwant %q", *list, want)
	}
}

// Not even names that fill all room keep back that an account's password is known.
func TestR28ARightSprayedPasswordIsToldInAFlood(t *testing.T) {
	t.Parallel()
	w, list := watching()
	for i := range maxAccounts + 10 {
		w.event(fullAccount(fmt.Sprint("name", i), noon))
	}
	before := len(*list)
	e := success("alice", 1)
	e.Outcome, e.NewClient = guard.Insufficient, false
	w.event(e)
	if all := kinds(*list); len(all) != before+1 || all[before] != SprayedRight {
		t.Errorf("%v after the flood", all[before:])
	}
}

func TestWhatOnlyWatchesIsToldAsSuch(t *testing.T) {
	t.Parallel()
	w, list := watching()
	limit := &guard.Limit{Failures: 1000, Window: 24 * time.Hour, Action: guard.Block, Monitor: true}
	e := guard.Event{
		At: noon, Account: "alice", Address: client, Action: guard.Proceed, Settled: true,
		Reasons: guard.Reasons{{Cause: guard.LimitReached, Subject: guard.OnAddress, Limit: limit, Monitored: true}},
	}
	w.event(&e)
	w.event(&e)
	w.modeSwitch(events.ModeSwitch{At: noon, From: events.ModeOff, To: events.ModeOff, Would: events.ModeOn, Attacked: true, Cause: "failure-rate", FailureRate: 31, Threshold: 30})
	var kinds []Kind
	for _, one := range *list {
		kinds = append(kinds, one.kind)
	}
	if want := []Kind{AddressMonitored, AttackBegan, ModeMonitored}; !slices.Equal(kinds, want) {
		t.Errorf("told %v, want %v", kinds, want)
	}
}
