package policy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// The durations of SetLimits. It always ends: other numbers for good belong in the configuration.
const (
	DefaultSet = 24 * time.Hour
	MaxSet     = 30 * 24 * time.Hour
)

// Loosest is how many times the configured failures other limits may allow in a day. An attacker with an
// administrator's session can loosen limits by this factor, and not remove them.
const Loosest = 10

// maxLimits is the longest text of limits, in bytes.
const maxLimits = 500

// SetLimits replaces the limits of a subject for a time. The administrators' sign-in keeps the configured ones. The
// error is ErrAsked for limits that are invalid (R8) or too loose.
type SetLimits struct {
	LimitSet string `json:"limit" arg:"" name:"limits" help:"Limits as limit list names them"`
	Limits   string `json:"limits" arg:"" name:"numbers" help:"Numbers as configured, such as '5/24h challenge'"`
	For      string `json:"for" default:"24h" placeholder:"DURATION" help:"Duration, at most 30d"`
	operation.Because
}

// Validate checks the flags of a command.
func (q SetLimits) Validate() error {
	_, err := operation.HoldOf(q.For)
	return err
}

// May implements Checked.
func (SetLimits) May(_ context.Context, _ operation.Powers, by operation.By) error {
	return by.Recent()
}

// Do implements Request.
func (q SetLimits) Do(ctx context.Context, l *Limits, by operation.By) (*operation.Change, error) {
	hold, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	hold = cmp.Or(hold, DefaultSet)
	switch {
	case by.Why == "":
		return nil, fmt.Errorf("%w: missing reason (recorded in the audit log)", operation.ErrAsked)
	case hold > MaxSet:
		return nil, fmt.Errorf("%w: the duration must be at most %s; for longer, change the configuration",
			operation.ErrAsked, times.FormatDuration(MaxSet))
	}
	written, before := l.Written(), l.overrides()
	text, err := written.Valid(q.LimitSet, q.Limits)
	if err == nil {
		err = written.Bounded(q.LimitSet, text)
	}
	if err != nil {
		return nil, err
	}
	override := Override{LimitSet: q.LimitSet, Limits: text, Who: by.Who, Why: by.Why, Since: by.Now,
		Until: by.Now.Add(hold)}
	if err := l.say(ctx, written, before, override, false); err != nil {
		return nil, err
	}
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	l.notify(written, before, override)
	l.Alerts.RaiseIn(l.Realm, alerts.PolicyChanged, "", fmt.Sprintf("%s: %s\nconfigured: %s\nby %s: %s\nuntil %s",
		q.LimitSet, text, config.FormatLimits(*written.Policy.Counted(q.LimitSet)), alerts.Name(by.Who),
		alerts.Name(by.Why), times.Text(override.Until.UTC())))
	answer, err := l.View(ctx)
	return &operation.Change{Answer: answer, Undo: undoing(before, q.LimitSet, by.Now),
		Action: operation.Action{Detail: q.LimitSet + ": " + text + " for " + times.FormatDuration(hold)},
		Notice: operation.Notice{Text: "In force on all nodes within a second, until " + times.Text(override.Until.UTC()) +
			":", Subject: q.LimitSet}}, err
}

// undoing returns the request that restores what applied to a subject before: an override for the rest of its time, or
// the configured value. For Whole there is none: several overrides may have ended.
func undoing(before []Override, limitSet string, now time.Time) any {
	if limitSet == Whole {
		return nil
	}
	i := slices.IndexFunc(before, func(w Override) bool { return w.LimitSet == limitSet })
	if i < 0 {
		return &SwitchPolicy{LimitSet: limitSet, To: ToFile, Because: operation.Because{Reason: operation.Undone}}
	}
	was, rest := before[i], ""
	if !was.Until.IsZero() {
		rest = times.FormatDuration(was.Until.Sub(now).Round(time.Second))
	}
	because := operation.Because{Reason: was.Why}
	switch {
	case was.Limits != "":
		return &SetLimits{LimitSet: limitSet, Limits: was.Limits, For: rest, Because: because}
	case was.Enforce:
		return &SwitchPolicy{LimitSet: limitSet, To: ToEnforce, For: rest, Because: because}
	}
	return &SwitchPolicy{LimitSet: limitSet, To: ToWatch, For: rest, Because: because}
}

// Valid returns limits for a set as the configuration would show them. The error is ErrAsked.
func (w Written) Valid(limitSet, text string) (string, error) {
	var sets []string
	for _, name := range w.Policy.LimitSets() {
		if w.Policy.Counted(name) != nil {
			sets = append(sets, name)
		}
	}
	switch {
	case !slices.Contains(sets, limitSet):
		return "", fmt.Errorf("%w: %.60q cannot be overridden; limits with numbers are: %s. Change others in the "+
			"configuration", operation.ErrAsked, limitSet, strings.Join(sets, ", "))
	case len(text) > maxLimits:
		return "", fmt.Errorf("%w: shorten the limits to at most %d bytes", operation.ErrAsked, maxLimits)
	}
	limits, err := config.ParseLimits(limitSet, text)
	if err == nil && len(limits) == 0 {
		err = fmt.Errorf("limits: missing, such as %s", config.FormatLimits(*w.Policy.Counted(limitSet)))
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	longest := w.Policy.Retain()
	for _, l := range limits {
		if l.Window > longest {
			return "", fmt.Errorf("%w: the window of %s is longer than %s, for which failures are kept; change the "+
				"configuration instead", operation.ErrAsked, LimitText(l), times.FormatDuration(longest))
		}
	}
	text = config.FormatLimits(limits)
	if _, _, err = w.With([]Override{{LimitSet: limitSet, Limits: text}}); err != nil {
		return "", fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	return text, nil
}

// Bounded returns ErrAsked unless valid limits are stricter than Loosest times the configured ones: for each configured
// action, a limit that stops at least as much.
func (w Written) Bounded(limitSet, text string) error {
	limits, err := config.ParseLimits(limitSet, text)
	if err != nil {
		return err
	}
	configured := *w.Policy.Counted(limitSet)
	for _, l := range configured {
		most, ok := perDay(configured, l.Action)
		if got, has := perDay(limits, l.Action); ok && (!has || got > Loosest*most) {
			return fmt.Errorf("%w: an override needs a limit that %ss at %d or fewer failures in 24 hours, %d times as many "+
				"as configured; change the configuration for more", operation.ErrAsked, l.Action, int(Loosest*most), Loosest)
		}
	}
	return nil
}

// perDay returns the failures in 24 hours after which enforced limits stop at least as much as an action.
func perDay(limits []guard.Limit, action guard.Action) (fewest float64, ok bool) {
	for _, l := range limits {
		if l.Monitor || strength(l.Action) > strength(action) || action == guard.Alert {
			continue
		}
		n := float64(l.Failures) * float64(24*time.Hour) / float64(l.Window)
		if !ok || n < fewest {
			fewest, ok = n, true
		}
	}
	return fewest, ok
}

// strength orders actions by what they stop: a fake failure checks no password either.
func strength(a guard.Action) guard.Action {
	if a == guard.FakeFailure {
		return guard.Block
	}
	return a
}
