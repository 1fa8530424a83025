package events

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/times"
)

// Limits on log lines per message and tick of the bus (one second), so that a flood does not fill the disk.
const (
	maxTurnedAway = 50   // attempts whose password was not checked
	maxSettled    = 1000 // failed or succeeded attempts
)

// Log is the sink that logs the decisions. Messages are constant and keys are stable: docs/reference/log.md lists them.
type Log struct {
	logger *slog.Logger
	seen   map[string]*[endings]int // since the last tick, by realm: a flood in one realm hides no lines of another
}

var _ Sink = (*Log)(nil)

var messages = [endings]string{
	Failed: "attempt failed", Succeeded: "attempt succeeded", Abandoned: "attempt abandoned",
	Refused: "attempt blocked", Challenged: "attempt challenged", Waited: "attempt delayed",
	FakeFailure: "attempt answered with a fake failure",
}

// NewLog returns a sink that writes to the logger.
func NewLog(logger *slog.Logger) *Log { return &Log{logger: logger, seen: map[string]*[endings]int{}} }

// Handle logs the events, within the limits.
func (l *Log) Handle(batch []guard.Event) {
	for i := range batch {
		switch {
		case batch[i].Edge == guard.Met:
			continue // edge events report it
		case batch[i].Limited != "":
			l.limit(&batch[i])
			continue
		}
		ending := EndingOf(&batch[i])
		if ending == Undecided {
			continue // it is logged when it is settled
		}
		seen := l.seen[batch[i].Realm]
		if seen == nil {
			seen = new([endings]int)
			l.seen[batch[i].Realm] = seen
		}
		if seen[ending]++; seen[ending] <= ceiling(ending) {
			l.write(&batch[i], ending)
		}
	}
}

// HandleSwitch logs a mode switch, regardless of the limits.
func (l *Log) HandleSwitch(s ModeSwitch) {
	attrs := []slog.Attr{
		slog.String("from", s.From), slog.String("to", s.To), slog.Bool("attacked", s.Attacked),
		slog.String("cause", s.Cause),
		slog.String("who", Escape(s.Who)), slog.String("why", Escape(s.Why)),
		slog.Float64("failure_rate", s.FailureRate), slog.Float64("threshold", s.Threshold),
	}
	if !s.Until.IsZero() {
		attrs = append(attrs, slog.Time("until", s.Until))
	}
	if s.Would != "" {
		attrs = append(attrs, slog.String("would", s.Would))
	}
	attrs = append(attrs, realmAttr(s.Realm)...)
	l.record(s.At, slog.LevelWarn, "captcha mode switched", attrs...)
}

// Tick logs the number of suppressed lines and resets the limits.
func (l *Log) Tick(now time.Time) {
	total, attrs := 0, make([]slog.Attr, 1, endings+1)
	for e := range endings {
		n := 0
		for _, seen := range l.seen {
			n += max(0, seen[e]-ceiling(Ending(e)))
		}
		if n > 0 {
			total += n
			attrs = append(attrs, slog.Int(Ending(e).String(), n))
		}
	}
	clear(l.seen)
	if total > 0 {
		attrs[0] = slog.Int("count", total)
		l.record(now, slog.LevelWarn, "attempts not logged", attrs...)
	}
}

func ceiling(e Ending) int {
	if e == Failed || e == Succeeded {
		return maxSettled
	}
	return maxTurnedAway
}

// write puts trusted values before those that a client typed: a program that parses the text format from the left finds
// the true IP address first.
func (l *Log) write(e *guard.Event, ending Ending) {
	attrs := append([]slog.Attr{
		slog.String("address", AddressText(e.Address)),
		slog.String("integration", Escape(e.Integration)),
	}, realmAttr(e.Realm)...)
	attrs = append(attrs,
		slog.String("account", Escape(e.Account)),
		slog.String("reasons", Codes(e.Reasons)),
		slog.Bool("known_client", e.Known),
		slog.Int("account_failures", e.AccountFailures),
	)
	if e.Repeat {
		attrs = append(attrs, slog.Bool("repeated_password", true))
	}
	if e.Sprayed {
		attrs = append(attrs, slog.Bool("sprayed_password", true))
	}
	if e.Outcome == guard.Insufficient {
		attrs = append(attrs, slog.Bool("insufficient", true))
	}
	if ending == Succeeded {
		attrs = append(attrs, slog.Bool("new_client", e.NewClient))
	}
	l.record(e.At, slog.LevelInfo, messages[ending], attrs...)
}

// limit logs a limit on events. The guard bounds the number of these events.
func (l *Log) limit(e *guard.Event) {
	msg := "event limit reached"
	if e.Edge == guard.Over {
		msg = "event limit no longer exceeded"
	}
	attrs := append([]slog.Attr{slog.String("address", AddressText(e.Address)), slog.String("event", e.Limited)},
		realmAttr(e.Realm)...)
	attrs = append(attrs,
		slog.String("account", Escape(e.Account)), slog.String("subject", e.Subject),
		slog.String("limit", LimitText(e)), slog.Int("beyond", e.Count),
	)
	l.record(e.At, slog.LevelWarn, msg, attrs...)
}

// Codes returns the reasons' codes, separated by commas, each with its limit:
// "limit:account:5/24h,captcha-mode:monitored".
func Codes(reasons guard.Reasons) string {
	all := make([]string, 0, len(reasons))
	for _, r := range reasons {
		code, monitored := strings.CutSuffix(r.Code(), ":monitored")
		if r.Limit != nil && r.Limit.Failures > 0 {
			code += fmt.Sprintf(":%d/%s", r.Limit.Failures, times.FormatDuration(r.Limit.Window))
		}
		if monitored {
			code += ":monitored"
		}
		all = append(all, code)
	}
	return strings.Join(all, ",")
}

// LimitText returns the limit of an edge event, as in the configuration.
func LimitText(e *guard.Event) string {
	if len(e.Reasons) == 0 || e.Reasons[0].Limit == nil {
		return ""
	}
	r := e.Reasons[0]
	text := fmt.Sprintf("%d/%s %s by %s", r.Limit.Failures, times.FormatDuration(r.Limit.Window), r.Limit.Action, r.Subject)
	if r.Limit.Monitor {
		text += " monitor"
	}
	return text
}

func realmAttr(realm string) []slog.Attr {
	if name := RealmName(realm); name != "" {
		return []slog.Attr{slog.String("realm", name)}
	}
	return nil
}

// record logs with the time of the event.
func (l *Log) record(at time.Time, level slog.Level, msg string, attrs ...slog.Attr) {
	ctx := context.Background()
	if !l.logger.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(at, level, msg, 0)
	r.AddAttrs(attrs...)
	_ = l.logger.Handler().Handle(ctx, r) // a failing log has no place to report itself
}
