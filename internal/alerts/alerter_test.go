package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authguard/guard"
	"authguard/internal/attacks"
	"authguard/internal/background"
	"authguard/internal/events"
	"authguard/internal/outbox"
)

// post is a sender that keeps what it is given, or fails, or hangs.
type post struct {
	mu       sync.Mutex
	messages []message
	times    []time.Time
	tries    int
	down     bool
	hangs    bool
}

func (p *post) send(ctx context.Context, m message) error {
	p.mu.Lock()
	p.tries++
	hangs, down := p.hangs, p.down
	p.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if down {
		return errors.New("connection refused")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, m)
	p.times = append(p.times, time.Now())
	return nil
}

func (p *post) set(down, hangs bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.hangs = down, hangs
}

func (p *post) got() []message {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.messages
}

const (
	urlA = "generic+http://127.0.0.1:1/a"
	urlB = "generic+http://127.0.0.1:1/b"
)

// started is an alerter in a bubble, with the senders for urlA and urlB.
func started(t *testing.T, cfg Config, log io.Writer) (a *Alerter, p, q *post, stop func()) {
	t.Helper()
	p, q = new(post), new(post)
	posts := map[string]*post{urlA: p, urlB: q}
	a, err := newAlerter(config(cfg), outbox.Store{Log: slog.New(slog.NewTextHandler(log, nil))}, func(to target, _ []netip.Prefix) sender { return posts[to.raw] })
	if err != nil {
		t.Fatal(err)
	}
	return a, p, q, background.Go(a.Run)
}

// waiting is how many alerts are not delivered yet, over all channels.
func waiting(a *Alerter) (n int) {
	for _, c := range a.Channels() {
		n += c.Waiting
	}
	return n
}

// modeOn is an attack that switches CAPTCHA mode on.
func modeOn() events.ModeSwitch {
	return events.ModeSwitch{At: time.Now(), From: events.ModeOff, To: events.ModeOn, Attacked: true, Cause: "failure-rate", FailureRate: 70, Threshold: 60}
}

func modeOff() events.ModeSwitch {
	return events.ModeSwitch{At: time.Now(), From: events.ModeOn, To: events.ModeOff, Cause: "cool-down"}
}

// config is the default one with changes where they are not zero.
func config(changes Config) Config {
	cfg := Config{To: []string{urlA}, Bundle: 30 * time.Second, PerHour: 20}
	if changes.To != nil {
		cfg.To = changes.To
	}
	cfg.URL, cfg.Record = changes.URL, changes.Record
	if changes.PerHour != 0 {
		cfg.PerHour = changes.PerHour
	}
	return cfg
}

func TestAlertsLeadToTheAdministrationsPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := attacks.Attack{ID: "20260314-1200-abcd", Realm: "shop", Kind: attacks.Site}
		for url, want := range map[string][]string{
			"": {"Attack: /attacks/20260314-1200-abcd?realm=shop in the admin console, or authguard attack show 20260314-1200-abcd --realm shop\n"},
			"https://admin.example.org": {"  Attack: authguard attack show 20260314-1200-abcd --realm shop\n", "See https://admin.example.org/attacks/20260314-1200-abcd?realm=shop\n",
				"See https://admin.example.org/?realm=shop\n", "See https://admin.example.org/policy\n"},
		} {
			a, p, _, stop := started(t, Config{URL: url}, io.Discard)
			on, off := modeOn(), modeOff()
			on.Realm, off.Realm = "shop", "shop"
			a.AttackBegan(attacks.Beginning{Attack: one})
			a.HandleSwitch(on)
			a.HandleSwitch(off)
			a.AttackEnded(attacks.Ending{Attack: one, Alerted: true})
			a.Raise(PolicyMonitored, "The policy is not enforced", "only watched from now on: site")
			a.Raise(PolicyMonitored, "The policy is not enforced", "only watched from now on: pair")
			stop()
			text := ""
			for _, m := range p.got() {
				text += m.body
			}
			for _, w := range want {
				if strings.Count(text, w) < 1 {
					t.Errorf("%q: no %q in\n%s", url, w, text)
				}
			}
			if strings.Count(text, "See ") != 5*len(url)/len("https://admin.example.org") {
				t.Errorf("%q:\n%s", url, text)
			}
		}
	})
}

// Alerts about CAPTCHA mode during an attack have the numbers of its record, and lead to its page.
func TestModeOnHasTheRecordOfTheAttack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		one := attacks.Attack{ID: "20260314-1200-abcd", Kind: attacks.Site, Began: time.Now().Add(-time.Hour), Last: time.Now(), Attempts: 214,
			Counts: attacks.Counts{Failed: 31, Challenged: 180, Solved: 2, Refused: 3}, Sources: attacks.Sources{Addresses: 90, Accounts: 80},
			Compromised: attacks.Compromised{Lost: 7, Strange: 1}}
		running := true
		a, p, _, stop := started(t, Config{URL: "https://admin.example.org", Record: func(string) (attacks.Attack, bool) { return one, running }}, io.Discard)
		defer stop()
		a.HandleSwitch(modeOn())
		got := p.got()
		if len(got) != 1 {
			t.Fatalf("%+v", got)
		}
		for _, want := range []string{"214 failed or stopped attempts since ", "from 90 IP addresses on 80 accounts\n",
			"Wrong passwords checked: 31. Challenged: 180, solved: 2. Delayed: 0. Blocked: 3.\n", "It goes on: last attempt ",
			"Possibly compromised accounts: 7. Other accounts with a login from an unknown client: 1.\n",
			"Attack: authguard attack show 20260314-1200-abcd\n", "See https://admin.example.org/attacks/20260314-1200-abcd\n"} {
			if !strings.Contains(got[0].body, want) {
				t.Errorf("no %q in\n%s", want, got[0].body)
			}
		}
		time.Sleep(time.Hour)
		running = false
		a.HandleSwitch(modeOff())
		time.Sleep(time.Minute)
		if got = p.got(); len(got) != 2 || strings.Contains(got[1].body, "attempts since") || !strings.Contains(got[1].body, "See https://admin.example.org/\n") {
			t.Errorf("%+v", got)
		}
	})
}

func TestModeOnIsSentAtOnceTogetherWithTheAttackThatCausedIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{}, io.Discard)
		defer stop()
		a.AttackBegan(attacks.Beginning{Attack: attacks.Attack{Kind: attacks.Site}, FailureRate: 70, Threshold: 60})
		a.HandleSwitch(modeOn())
		got := p.got()
		if len(got) != 1 || got[0].title != "authguard: Login attack started (and 1 more)" ||
			!strings.Contains(got[0].body, "CAPTCHA mode is on\n- ") {
			t.Fatalf("%+v", got)
		}
	})
}

func TestWhatComesCloseTogetherIsOneMessage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{}, io.Discard)
		defer stop()
		for i := range 25 {
			a.Raise("test", "Something happened", fmt.Sprint("number ", i))
			time.Sleep(time.Second)
		}
		if n := len(p.got()); n != 0 {
			t.Fatalf("%d messages before the window ended", n)
		}
		time.Sleep(5 * time.Second)
		got := p.got()
		if len(got) != 1 || !strings.Contains(got[0].body, "number 19\n- and 5 more") {
			t.Fatalf("%+v", got)
		}
	})
}

func TestR24NoMoreMessagesThanTheCeilingInAnyHour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{PerHour: 8}, io.Discard)
		defer stop()
		for range 5 * 60 {
			a.Raise("test", "Something happened", "again")
			time.Sleep(time.Minute)
		}
		p.got()
		for i := range p.times {
			if i >= 6 && p.times[i].Sub(p.times[i-6]) <= time.Hour {
				t.Fatalf("messages %d to %d within an hour; 6 are for ordinary alerts", i-6, i)
			}
		}
		told := 0
		for _, m := range p.messages {
			told += strings.Count(m.body, ": again\n")
			for line := range strings.Lines(m.body) {
				var more int
				if n, _ := fmt.Sscanf(line, "- and %d more", &more); n == 1 {
					told += more
				}
			}
		}
		if n := told + waiting(a); n != 300 {
			t.Fatalf("%d alerts told or waiting, want all 300", n)
		}
		if want := "of these were held back: at most 8 messages are sent per hour."; !strings.Contains(p.messages[6].body, want) {
			t.Fatalf("no %q in\n%s", want, p.messages[6].body)
		}
	})
}

func TestOrdinaryAlertsCannotUseUpTheCeilingOfImportantOnes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{PerHour: 4}, io.Discard)
		defer stop()
		for range 10 {
			a.Raise("test", "Something happened", "again")
			time.Sleep(time.Minute)
		}
		if n := len(p.got()); n != 3 {
			t.Fatalf("%d ordinary messages, want 3", n)
		}
		a.HandleSwitch(modeOn())
		if n := len(p.got()); n != 4 {
			t.Fatalf("CAPTCHA mode went on and nobody was told")
		}
	})
}

func TestR24ADeadServerLosesNothingAndIsToldWhenItIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, q, stop := started(t, Config{To: []string{urlA, urlB}}, io.Discard)
		defer stop()
		p.set(true, false)
		for i := range 50 {
			a.Raise("test", "Something happened", fmt.Sprintf("number %d.", i))
			time.Sleep(10 * time.Minute)
		}
		if len(p.got()) != 0 || len(q.got()) != 51 { // and one about the dead channel
			t.Fatalf("%d and %d messages, want 0 and 51: one channel must not hold up another", len(p.messages), len(q.messages))
		}
		p.set(false, false)
		time.Sleep(longestRetry + time.Minute) // and the alert about it is no longer grouped
		got := p.got()
		if len(got) != 2 || !strings.Contains(got[0].body, "number 0.") || !strings.Contains(got[1].body, "number 1.") || !strings.Contains(got[1].body, "- and 29 more") {
			t.Fatalf("%+v", got)
		}
		if n := waiting(a); n != 0 {
			t.Fatalf("%d alerts wait", n)
		}
	})
}

func TestR24ADeadChannelIsToldThroughTheOthersOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, q, stop := started(t, Config{To: []string{urlA, urlB}}, io.Discard)
		defer stop()
		kinds := func() (all []string) {
			for _, m := range q.got() {
				all = append(all, m.title)
			}
			return all
		}
		p.set(true, false)
		a.Raise("test", "A test", "body")
		time.Sleep(2 * time.Minute)
		dead := a.Dead()
		if got := kinds(); len(got) != 2 || got[0] != "authguard: A test" || got[1] != "authguard: Alert channel failed" {
			t.Errorf("the other channel got %q", got)
		}
		if len(dead) != 1 || dead[0].Name != "generic 127.0.0.1" || dead[0].Waiting != 1 || dead[0].Tries < 3 || dead[0].Why == "" {
			t.Errorf("dead: %+v", dead)
		}
		time.Sleep(24 * time.Hour) // it is tried all the time, and nobody hears of it again
		if got := kinds(); len(got) != 2 {
			t.Errorf("a day later: %q", got)
		}
		p.set(false, false)
		time.Sleep(6 * time.Minute)
		if got := kinds(); len(got) != 3 || got[2] != "authguard: Alert channel works again" || len(a.Dead()) != 0 {
			t.Errorf("when it was back: %q, %+v", got, a.Dead())
		}
		for _, m := range p.got() {
			if strings.Contains(m.title+m.body, "channel") {
				t.Errorf("it is told of itself: %+v", m)
			}
		}
	})
}

// Comes and goes every twenty minutes, for a day.
func TestAChannelThatComesAndGoesDoesNotFillTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, q, stop := started(t, Config{To: []string{urlA, urlB}}, io.Discard)
		defer stop()
		for range 72 {
			p.set(true, false)
			a.Raise("test", "A test", "body")
			time.Sleep(10 * time.Minute)
			p.set(false, false)
			time.Sleep(10 * time.Minute)
		}
		told := 0
		for _, m := range q.got() {
			told += strings.Count(m.title+m.body, "Alert channel failed\n")
		}
		if told < 20 || told > 24 {
			t.Errorf("told %d times in a day", told)
		}
	})
}

func TestR24AServerThatHangsDelaysNobodyAndIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{}, io.Discard)
		defer stop()
		p.set(false, true)
		a.HandleSwitch(modeOn())
		synctest.Wait()
		before := time.Now()
		a.HandleSwitch(modeOff())
		a.Handle([]guard.Event{{}})
		if time.Since(before) != 0 {
			t.Fatal("an event waited for the network")
		}
		p.set(false, false)
		time.Sleep(time.Minute)
		if got := p.got(); len(got) != 2 || !strings.Contains(got[1].body, "CAPTCHA mode is off") || got[0].id == got[1].id {
			t.Fatalf("%+v", got)
		}
	})
}

func TestStopSendsWhatWaitsAndReportsWhatItCannot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a, p, q, stop := started(t, Config{To: []string{urlA, urlB}}, &log)
		p.set(true, false)
		a.Raise("test", "Something happened", "at the end")
		stop()
		stop()
		if len(q.got()) != 1 {
			t.Error("what waited was not sent")
		}
		if want := `msg="alert lost" channel="generic 127.0.0.1" kind=test title="Something happened"`; strings.Count(log.String(), want) != 1 {
			t.Errorf("not one %s in\n%s", want, log.String())
		}
	})
}

func TestTheLastTryTakesFiveSecondsAtMost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{}, io.Discard)
		p.set(false, true)
		a.HandleSwitch(modeOn())
		before := time.Now()
		stop()
		if took := time.Since(before); took > outbox.LastAttempt {
			t.Fatalf("took %v", took)
		}
	})
}

func TestReconfigureHandsWhatWaitsToTheMendedAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, q, stop := started(t, Config{}, io.Discard)
		defer stop()
		p.set(false, true)
		a.HandleSwitch(modeOn())
		synctest.Wait()
		before := time.Now()
		if err := a.Reconfigure(config(Config{To: []string{urlB}})); err != nil {
			t.Fatal(err)
		}
		if time.Since(before) != 0 {
			t.Error("reconfiguring waited for a dead channel")
		}
		time.Sleep(2 * outbox.SendTimeout)
		got := q.got()
		if len(got) != 1 || len(p.messages) != 0 || !strings.Contains(got[0].body, "CAPTCHA mode is on") {
			t.Fatalf("%+v", got)
		}
	})
}

func TestAChannelThatStaysKeepsItsCeiling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{PerHour: 1}, io.Discard)
		defer stop()
		for range 3 {
			a.Raise("test", "Something happened", "again")
			time.Sleep(time.Minute)
			if err := a.Reconfigure(config(Config{PerHour: 1})); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(p.got()); n != 1 {
			t.Fatalf("%d messages, want 1", n)
		}
	})
}

func TestAWrongConfigurationChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, p, _, stop := started(t, Config{}, io.Discard)
		defer stop()
		err := a.Reconfigure(config(Config{To: []string{urlB, "nonsense://x"}}))
		if err == nil || !strings.Contains(err.Error(), "alerts.to[1]: ") {
			t.Fatalf("%v", err)
		}
		err = a.Reconfigure(config(Config{To: []string{urlB}, PerHour: -1}))
		if err == nil || !strings.Contains(err.Error(), "per_hour") {
			t.Fatalf("%v", err)
		}
		a.HandleSwitch(modeOn())
		if len(p.got()) != 1 {
			t.Fatal("the channel is gone")
		}
	})
}

func TestWithoutChannelsAlertsAreStillInTheLog(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	a, err := New(Config{PerHour: 1}, outbox.Store{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	a.Raise("unconfigured-proxy", "A proxy in front of authguard is not configured", "add 10.0.0.1 to proxies\nand reload")
	if out := log.String(); strings.Count(out, "\n") != 1 || !strings.Contains(out, `msg="alert raised" kind=unconfigured-proxy`) {
		t.Fatal(out)
	}
}
