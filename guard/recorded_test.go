package guard_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/world"
)

// A loginLine is one login of a recorded SSH log.
type loginLine struct {
	at       time.Time
	account  string
	address  string
	accepted bool
}

var (
	sshLogin = regexp.MustCompile(`^(\w{3} +\d+ \d\d:\d\d:\d\d) .*sshd\[\d+\]: (?:message repeated (\d+) times: \[ )?(Accepted|Failed) (?:password|publickey) for (?:invalid user )?(.*) from (\S+) port`)
)

// sshLogins reads the logins of a log of a year; lines that are none are
// passed over.
func sshLogins(t *testing.T, from io.Reader, year int) (all []loginLine) {
	t.Helper()
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		m := sshLogin.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		at, err := time.Parse("2006 Jan _2 15:04:05", fmt.Sprintf("%d %s", year, m[1]))
		if err != nil {
			t.Fatal(err)
		}
		times, _ := strconv.Atoi(m[2])
		for range max(1, times) {
			all = append(all, loginLine{at: at, account: m[4], address: m[5], accepted: m[3] == "Accepted"})
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// A replayed login is what was decided of it.
type replayed struct {
	loginLine
	decision guard.Decision
	in       bool
}

// replay runs every login at its own time through a guard.
func replay(t *testing.T, logins []loginLine) (all []replayed) {
	t.Helper()
	w := world.New(t, world.Options{Start: logins[0].at})
	for _, l := range logins {
		w.Clock.Set(l.at)
		w.Mode.Tick()
		password := "wrong"
		if l.accepted {
			password = world.Right
		}
		d, in := w.Try(t, world.From(l.account, l.address), password)
		all = append(all, replayed{l, d, in})
	}
	return all
}

// longestBurst finds the failures at one account from one address that follow
// each other within a minute, where the most of them are.
func longestBurst(all []replayed) (burst []replayed) {
	runs := map[string][]replayed{}
	for _, r := range all {
		key := r.account + " " + r.address
		run := runs[key]
		if n := len(run); r.accepted || n > 0 && r.at.Sub(run[n-1].at) > time.Minute {
			run = nil
		}
		if !r.accepted {
			run = append(run, r)
		}
		runs[key] = run
		if len(run) > len(burst) {
			burst = run
		}
	}
	return burst
}

func report(t *testing.T, all []replayed) {
	t.Helper()
	counts := map[string]int{}
	for _, r := range all {
		kind := "failed"
		if r.accepted {
			kind = "accepted"
		}
		counts[kind+" "+r.decision.Action.String()]++
	}
	t.Logf("%d logins: %v", len(all), counts)
	burst := longestBurst(all)
	checked := 0
	for _, r := range burst {
		if r.decision.Action == guard.Proceed {
			checked++
		}
	}
	t.Logf("longest burst: %d guesses at %q from %s from %v to %v, privileged at first: %v; %d checked",
		len(burst), burst[0].account, burst[0].address, burst[0].at, burst[len(burst)-1].at, burst[0].decision.Known, checked)
	for _, r := range all {
		if r.accepted && !r.in {
			t.Logf("accepted and not let in: %v %s from %s: %v %v", r.at, r.account, r.address, r.decision.Action, r.decision.Reasons.Codes())
		}
	}
}

// TestRecordedLog runs on a log of somebody else's, which is not kept here:
//
//	AUTH_LOG=/path/to/auth.log AUTH_LOG_YEAR=2017 go test -v -run TestRecordedLog .
func TestRecordedLog(t *testing.T) {
	t.Parallel()
	path := os.Getenv("AUTH_LOG")
	if path == "" {
		path = "../testdata/ssh.log"
	}
	year, err := strconv.Atoi(os.Getenv("AUTH_LOG_YEAR"))
	if err != nil {
		year = 2026
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := replay(t, sshLogins(t, f, year))
	report(t, all)
	burst := longestBurst(all)
	checked := 0
	for _, r := range burst {
		if r.decision.Action == guard.Proceed {
			checked++
		}
	}
	if !burst[0].decision.Known || len(burst) < 100 || checked != 20 {
		t.Errorf("a burst of %d guesses from a privileged place (%v): %d were checked, want its budget of 20",
			len(burst), burst[0].decision.Known, checked)
	}
	end := burst[len(burst)-1]
	i := slices.IndexFunc(all, func(r replayed) bool {
		return r.accepted && r.at.After(end.at) && r.account == end.account && r.address == end.address
	})
	if i < 0 || all[i].in || !all[i].decision.Reasons.Has(guard.TooManyUnsolved) {
		t.Errorf("the attacker's success at the end of the burst was let in, or not delayed for challenges that it left unsolved: %d", i)
	}
	for _, r := range all {
		if r.accepted && !r.in && r.at.Before(burst[0].at) {
			t.Errorf("%v: %s from %s was kept out before the attack: %v %s", r.at, r.account, r.address,
				r.decision.Action, strings.Join(r.decision.Reasons.Codes(), " "))
		}
	}
}
