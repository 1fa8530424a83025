package events

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/guard"
)

var (
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	client = netip.MustParseAddr("192.0.2.7")
)

func textLog(w io.Writer) *Log { return NewLog(slog.New(slog.NewTextHandler(w, nil))) }

func failure(account string) guard.Event {
	return guard.Event{At: noon, Integration: "login", Account: account, Address: client, Action: guard.Proceed, Settled: true}
}

func refusal(account string) guard.Event {
	return guard.Event{At: noon, Integration: "login", Account: account, Address: client}
}

func TestEachEndingHasItsConstantMessage(t *testing.T) {
	t.Parallel()
	settled := func(o guard.Outcome) guard.Event {
		e := failure("alice")
		e.Outcome = o
		return e
	}
	decided := func(a guard.Action) guard.Event {
		e := refusal("alice")
		e.Action = a
		return e
	}
	for want, e := range map[string]guard.Event{
		"attempt failed":     settled(guard.Failed),
		"attempt succeeded":  settled(guard.Succeeded),
		"attempt abandoned":  settled(guard.Abandoned),
		"attempt blocked":    decided(guard.Block),
		"attempt challenged": decided(guard.Challenge),
		"attempt delayed":    decided(guard.Delay),
	} {
		var out bytes.Buffer
		textLog(&out).Handle([]guard.Event{e})
		if !strings.Contains(out.String(), `msg="`+want+`" address=192.0.2.7 integration=login account=alice`) {
			t.Errorf("%s: %s", want, &out)
		}
	}
}

func TestAnAttemptThatMayProceedHasNoLineBeforeItIsSettled(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := refusal("alice")
	e.Action = guard.Proceed
	textLog(&out).Handle([]guard.Event{e})
	if out.Len() > 0 {
		t.Fatal(&out)
	}
}

func TestALineHasTheTimeAndTheReasonsOfItsEvent(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e := refusal("alice")
	e.Reasons = guard.Reasons{guard.Reason{Cause: guard.LimitReached, Subject: guard.OnAccount}, guard.Reason{Cause: guard.ModeOn}}
	textLog(&out).Handle([]guard.Event{e})
	const want = `time=2026-11-21T12:00:00.000Z level=INFO msg="attempt blocked" address=192.0.2.7 integration=login ` +
		"account=alice reasons=limit:account,captcha-mode known_client=false account_failures=0\n"
	if out.String() != want {
		t.Fatalf("got  %swant %s", &out, want)
	}
}

// fail2ban is the expression of deploy/fail2ban for a line whose time it has taken away.
var fail2ban = regexp.MustCompile(`^time=\S+\s*level=INFO msg="attempt (?:failed|blocked)" address=(\S+) integration=`)

func TestR23HostileNamesNeverMakeASecondLineOrForgeAnAddress(t *testing.T) {
	t.Parallel()
	for _, name := range hostile {
		var text, object bytes.Buffer
		textLog(&text).Handle([]guard.Event{failure(name)})
		NewLog(slog.New(slog.NewJSONHandler(&object, nil))).Handle([]guard.Event{failure(name)})
		for _, out := range []string{text.String(), object.String()} {
			if strings.Count(out, "\n") != 1 || strings.ContainsAny(out, "\r\x1b\x00\u202e\u2028\u2029\u0085") {
				t.Errorf("%q wrote %q", name, out)
			}
		}
		if m := fail2ban.FindStringSubmatch(text.String()); m == nil || m[1] != client.String() {
			t.Errorf("%q: fail2ban read %q from %s", name, m, &text)
		}
		var line map[string]any
		if err := json.Unmarshal(object.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if line["address"] != client.String() || line["account"] != Escape(name) || line["msg"] != "attempt failed" {
			t.Errorf("%q wrote %v", name, line)
		}
	}
}

func TestAFloodOfRefusalsWritesNoMoreThanTheCeiling(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := textLog(&out)
	for range 1000 {
		l.Handle([]guard.Event{refusal("alice"), failure("bob")})
	}
	l.Tick(noon)
	if got := strings.Count(out.String(), `msg="attempt blocked"`); got != maxTurnedAway {
		t.Errorf("%d lines of refusals, want %d", got, maxTurnedAway)
	}
	if got := strings.Count(out.String(), `msg="attempt failed"`); got != 1000 {
		t.Errorf("%d lines of failures, want all 1000", got)
	}
	if want := `level=WARN msg="attempts not logged" count=950 blocked=950`; !strings.Contains(out.String(), want) {
		t.Errorf("no %s", want)
	}
}

func TestTheCeilingOpensAgainAtTheNextTick(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := textLog(&out)
	for range 3 {
		for range maxTurnedAway {
			l.Handle([]guard.Event{refusal("alice")})
		}
		l.Tick(noon)
	}
	if got := strings.Count(out.String(), "\n"); got != 3*maxTurnedAway {
		t.Fatalf("%d lines, want %d refusals and nothing suppressed:\n%s", got, 3*maxTurnedAway, &out)
	}
}

func TestAModeSwitchIsWrittenWithWhoAndWhyEscaped(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	textLog(&out).HandleSwitch(ModeSwitch{
		At: noon, From: ModeOff, To: ModeOn, Cause: "forced", Who: "root", Why: "see\nticket", FailureRate: 12, Threshold: 30, Until: noon.Add(time.Hour),
	})
	const want = `time=2026-11-21T12:00:00.000Z level=WARN msg="captcha mode switched" from=off to=on attacked=false cause=forced ` +
		`who=root why=see\nticket failure_rate=12 threshold=30 until=2026-11-21T13:00:00.000Z` + "\n"
	if out.String() != want {
		t.Fatalf("got  %swant %s", &out, want)
	}
}
