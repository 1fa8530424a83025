package alerts

import (
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/outbox"
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
	calm := func() (running, silent bool) { return false, false }
	return newWatcher(calm, func(_ time.Time, kind Kind, body string) { list = append(list, raised{kind, body}) }), &list
}

func success(name string, failures int) *guard.Event {
	return &guard.Event{
		At: noon, Integration: "login", Account: name, Address: client, Action: guard.Proceed, Settled: true,
		Outcome: guard.Succeeded, ClientEvent: guard.ClientEvent{NewClient: true}, AccountFailures: failures,
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
	code := success("admitted by support", 50)
	code.Reasons = guard.Reasons{{Cause: guard.CodeAccepted}}
	w.event(code)
	w.event(success("alice", failuresBefore))
	if len(*list) != 1 || (*list)[0].kind != SuspiciousSuccess || !strings.HasPrefix((*list)[0].body, `account "alice" from 192.0.2.7 (login), after 5 `) {
		t.Fatal(*list)
	}
}

// One account that signs in from more than ten new clients in an hour is an alert, once a day.
func TestAnAccountWithManyNewClientsIsAnAlert(t *testing.T) {
	t.Parallel()
	w, list := watching()
	at := noon
	signIn := func(name string, n int, every time.Duration) {
		for i := range n {
			e := success(name, 0)
			e.At, at = at, at.Add(every)
			if e.Address = client; name != "script" {
				e.Address = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
			}
			w.event(e)
		}
	}
	signIn("slow", 40, time.Hour/newClients)
	signIn("script", 40, time.Second)
	signIn("alice", newClients, time.Second)
	signIn("bob", newClients, time.Second)
	if len(*list) != 0 {
		t.Fatal(*list)
	}
	signIn("alice", newClients+1, time.Second)
	if len(*list) != 1 || (*list)[0].kind != ManyNewClients || !strings.HasPrefix((*list)[0].body, `account "alice" from more than 10 new clients`) {
		t.Fatal(*list)
	}
}

func TestR24ModeAlertsAreEdges(t *testing.T) {
	t.Parallel()
	const off, slow, on = events.ModeOff, events.ModeSlow, events.ModeOn
	for name, c := range map[string]struct {
		from, to string
		cause    string
		want     string
	}{
		"throttling":                   {off, slow, "failure-rate", "[]"},
		"on by itself":                 {off, on, "failure-rate", "[captcha-mode-on]"},
		"off by itself":                {on, off, "cool-down", "[captcha-mode-off]"},
		"forced on":                    {off, on, events.CauseForced, "[captcha-mode-on]"},
		"forced off while off":         {off, off, events.CauseForced, "[captcha-mode-off]"},
		"on stays on":                  {on, on, "cool-down", "[]"},
		"cleared in an attack":         {on, off, events.CauseCleared, "[captcha-mode-off]"},
		"cleared while nothing was on": {off, off, events.CauseCleared, "[]"},
		"steady for half a day":        {slow, slow, events.CauseSteady, "[failure-rate-steady]"},
	} {
		w, list := watching()
		w.modeSwitch(events.ModeSwitch{At: noon, From: c.from, To: c.to, Cause: c.cause, FailureRate: 28, Threshold: 30})
		if got := fmt.Sprint(kinds(*list)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func kinds(list []raised) []Kind {
	var all []Kind
	for _, r := range list {
		all = append(all, r.kind)
	}
	return all
}

// CAPTCHA mode has no alert during a silent attack, unless an administrator switches it. When the attack becomes large,
// the alert follows.
func TestR24ModeIsSilentWhileAResumedAttackIsSmall(t *testing.T) {
	t.Parallel()
	silent := true
	var list []raised
	w := newWatcher(func() (running, silenced bool) { return true, silent },
		func(_ time.Time, kind Kind, _ string) { list = append(list, raised{kind: kind}) })
	on := events.ModeSwitch{From: "throttling", To: "on", Cause: "failure-rate"}
	off := events.ModeSwitch{From: "on", To: "off", Cause: "cool-down"}
	w.modeSwitch(on)
	w.modeSwitch(off)
	w.modeSwitch(events.ModeSwitch{From: "off", To: "off", Would: "on", Cause: "failure-rate"})
	if len(list) != 0 {
		t.Errorf("small: %v", list)
	}
	w.modeSwitch(on)
	silent = false
	w.speak()
	w.modeSwitch(off)
	if got := fmt.Sprint(kinds(list)); got != "[captcha-mode-on captcha-mode-off]" {
		t.Errorf("large: %s", got)
	}
	list, silent = nil, true
	w.modeSwitch(on)
	off.Cause = events.CauseForced
	w.modeSwitch(off)
	if got := fmt.Sprint(kinds(list)); got != "[captcha-mode-off]" {
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

// told is the log of alerts of an attack.
func told(t *testing.T, do func(a *Alerter)) string {
	t.Helper()
	var log strings.Builder
	a, err := New(Config{PerHour: 1}, outbox.Store{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	do(a)
	return log.String()
}

func TestTheSummaryOfAnAttackIsItsRecord(t *testing.T) {
	t.Parallel()
	one := attacks.Ending{Alerted: true, Attack: attacks.Attack{ID: "20261121-1200-abcd", Realm: guard.DefaultRealm, Kind: attacks.Site, Began: noon,
		Last: noon.Add(80 * time.Minute), Ended: noon.Add(90 * time.Minute), Attempts: 3000, Counts: attacks.Counts{Failed: 300, Challenged: 2700},
		Sources: attacks.Sources{Addresses: 2701, Accounts: 451, TopAddresses: []attacks.Named{{Name: "192.0.2.7", Attempts: 300}},
			TopAccounts: []attacks.Named{{Name: "alice", Attempts: 299}}}, Compromised: attacks.Compromised{Lost: 1, Strange: 29}}}
	for i := range 30 {
		one.Victims = append(one.Victims, attacks.Victim{Account: fmt.Sprint("<b>", i), Logins: []attacks.Login{{Address: "192.0.2.9"}}})
	}
	text := told(t, func(a *Alerter) { a.AttackEnded(one) })
	for _, want := range []string{
		"Duration: 1h20m, from 2026-11-21 12:00:00 UTC to 2026-11-21 13:20:00 UTC (last attempt). The cool-down ended at 2026-11-21 13:30:00 UTC.",
		"Failed or stopped attempts: 3000.",
		"Wrong passwords checked: 300. Challenged: 2700, solved: 0. Delayed: 0. Blocked: 0.",
		"Sources: about 2,701 IP addresses. Attacked: about 451 accounts.",
		"Top IP addresses (attempts, at least): 192.0.2.7 (300).",
		"Possibly compromised accounts: 1. Other accounts with a login from an unknown client: 29.",
		"Check ", "3cb", "And 15 more.", "Attack: /attacks/20261121-1200-abcd in the admin console, or authguard attack show 20261121-1200-abcd",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	one.Alerted = false
	if text := told(t, func(a *Alerter) { a.AttackEnded(one) }); text != "" {
		t.Errorf("its start had no alert: %s", text)
	}
}

// R31: invented names raise a bounded number of alerts, and one that stands for all others.
func TestAFloodOfAttacksRaisesABoundedNumberOfAlerts(t *testing.T) {
	t.Parallel()
	text := told(t, func(a *Alerter) {
		for i := range maxNotified + 100 {
			a.AttackBegan(attacks.Beginning{Attack: attacks.Attack{ID: fmt.Sprint(i), Kind: attacks.Account, Subject: fmt.Sprint("invented-", i)}})
		}
	})
	if n := strings.Count(text, "account-attacked"); n != maxNotified+1 || !strings.Contains(text, "more than 10000 attacks within a day") {
		t.Errorf("%d alerts", n)
	}
}

func TestEachKindOfAttackHasAnAlert(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{attacks.Site: "kind=attack-started", attacks.Account: "kind=account-attacked",
		attacks.Address: "kind=address-attack", attacks.Spray: "kind=password-spraying"} {
		one := attacks.Beginning{Attack: attacks.Attack{ID: "a1", Realm: "shop", Kind: kind, Attempts: 12, Began: noon,
			Sources: attacks.Sources{Addresses: 1, Accounts: 3}}}
		text := told(t, func(a *Alerter) { a.AttackBegan(one) })
		for _, part := range []string{want, "realm shop: ", "authguard attack show a1 --realm shop",
			"12 failed or stopped attempts since 2026-11-21 12:00:00 UTC, from 1 IP address on 3 accounts"} {
			if strings.Count(text, part) != 1 {
				t.Errorf("%s: no %q in %s", kind, part, text)
			}
		}
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

// With the action alert, administrators learn of a leaked password once a day. With the step-up, its owner does.
func TestALeakedPasswordIsAnAlert(t *testing.T) {
	t.Parallel()
	w, list := watching()
	for _, monitored := range []bool{false, true, true} {
		e := success("alice", 0)
		e.NewClient, e.Reasons = false, guard.Reasons{{Cause: guard.PasswordLeaked, Monitored: monitored}}
		w.event(e)
	}
	if want := []raised{{LeakedPassword, `account "alice" from 192.0.2.7 (login)`}}; !slices.Equal(*list, want) {
		t.Errorf("%q\nwant %q", *list, want)
	}
}

// Not even names that fill all room keep back that an account's password is known.
func TestR28ARightSprayedPasswordIsToldInAFlood(t *testing.T) {
	t.Parallel()
	w, list := watching()
	for i := range maxNotified + 10 {
		w.first(fmt.Sprint("name", i), noon)
	}
	before := len(*list)
	e := success("alice", 1)
	e.Outcome, e.NewClient = guard.Insufficient, false
	w.event(e)
	if all := kinds(*list); len(all) != before+1 || all[before] != SprayedRight {
		t.Errorf("%v after the flood", all[before:])
	}
}

// A right password that the step-up stops raises no alert, because it may be the owner's, unless it is sprayed.
func TestR32AStoppedRightPasswordRaisesAnAlertIfItIsSprayed(t *testing.T) {
	t.Parallel()
	for _, sprayed := range []bool{false, true} {
		w, list := watching()
		e := success("alice", 1)
		e.Outcome, e.NewClient, e.Sprayed = guard.Insufficient, false, sprayed
		e.Reasons = guard.Reasons{{Cause: guard.StepUpNeeded}}
		w.event(e)
		if all := kinds(*list); slices.Contains(all, SprayedRight) != sprayed {
			t.Errorf("sprayed %v: %v", sprayed, all)
		}
	}
}

// CAPTCHA mode's postponed alert follows if another node reports the attack.
func TestR24ModeIsReportedIfAnotherNodeReportsTheAttack(t *testing.T) {
	t.Parallel()
	silent := true
	var list []raised
	w := newWatcher(func() (running, silenced bool) { return true, silent },
		func(_ time.Time, kind Kind, _ string) { list = append(list, raised{kind: kind}) })
	w.modeSwitch(events.ModeSwitch{From: "throttling", To: "on", Cause: "failure-rate"})
	w.event(success("ann", 0))
	silent = false
	w.event(success("ann", 0))
	w.event(success("ann", 0))
	if got := fmt.Sprint(kinds(list)); got != "[captcha-mode-on]" {
		t.Error(got)
	}
}
