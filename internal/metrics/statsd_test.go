package metrics_test

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/metrics"
	"authguard/internal/passwords"
)

// A datagram socket hears what a StatsD server would: each count once, of the realm that it
// belongs to, and nothing that was typed.
func TestStatsDHearsEachCountOnceAndNothingThatWasTyped(t *testing.T) {
	t.Parallel()
	socket, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = socket.Close() }()
	mode, err := captchamode.NewMode(captchamode.DefaultConfig(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	realm := func(name string) metrics.RealmGauges {
		return metrics.RealmGauges{
			Realm: name, Mode: mode, Held: func() int { return 4 },
			Checks: func() passwords.QueueState { return passwords.QueueState{Unknown: 1, Known: 2} },
		}
	}
	s := &metrics.StatsD{
		Address: socket.LocalAddr().String(), Prefix: "ag", Log: slog.New(slog.DiscardHandler),
		Realms: func() []metrics.RealmGauges { return []metrics.RealmGauges{realm("default"), realm("the.shop")} },
	}
	failed := guard.Event{Settled: true, Outcome: guard.Failed, Account: "mallory:1|c\n", Realm: "default"}
	stopped := guard.Event{Action: guard.Block, Realm: "the.shop"}
	stopped.Reasons = guard.Reasons{{Cause: guard.LimitReached}}
	s.Handle([]guard.Event{failed, failed, failed, stopped, {Action: guard.Proceed}})
	s.HandleSwitch(events.ModeSwitch{To: events.ModeOn})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	want := []string{
		"ag.attempts.failed:3|c", "ag.captcha_mode_switches.on:1|c", "ag.realms.the_shop.attempts.blocked:1|c", "ag.realms.the_shop.stopped.limit:1|c",
		"ag.captcha_mode:0|g", "ag.threshold:30|g", "ag.delayed_attempts:4|g", "ag.checks_waiting:3|g", "ag.failure_rate:0|g", "ag.realms.the_shop.delayed_attempts:4|g",
	}
	heard := make(map[string]int)
	packet := make([]byte, 2048)
	for missing := true; missing; {
		n, _, err := socket.ReadFrom(packet)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(strings.TrimSpace(string(packet[:n])), "\n") {
			heard[line]++
			if strings.Contains(line, "mallory") {
				t.Errorf("somebody's words: %q", line)
			}
		}
		missing = slices.ContainsFunc(want, func(line string) bool { return heard[line] == 0 })
	}
	for line, n := range heard {
		if strings.HasSuffix(line, "|c") && (n != 1 || !slices.Contains(want, line)) {
			t.Errorf("%d times %q", n, line)
		}
	}
}
