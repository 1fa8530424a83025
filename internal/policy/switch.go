package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// SwitchPolicy enforces or monitors the limits of a subject, or of Whole, or returns them to the configured
// value. Without For the change is permanent. The error is ErrAsked for an invalid request, such as enforcing a limit
// that cannot be reached (R8).
type SwitchPolicy struct {
	LimitSet string `json:"limit" arg:"" name:"limits" help:"Limits as limit list names them, or all"`
	To       string `json:"to" kong:"-"`
	For      string `json:"for" placeholder:"DURATION" help:"Duration (default: until limit reset ends it)"`
	operation.Because
}

// Validate checks the flags of a command.
func (q SwitchPolicy) Validate() error {
	_, err := operation.HoldOf(q.For)
	return err
}

// May implements Checked: with a stolen session, an attacker would first switch to monitoring.
func (q SwitchPolicy) May(_ context.Context, _ operation.Powers, by operation.By) error {
	if q.To != ToWatch {
		return nil
	}
	return by.Recent()
}

// Do implements Request.
func (q SwitchPolicy) Do(ctx context.Context, l *Limits, by operation.By) (*operation.Change, error) {
	hold, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	written, before := l.Written(), l.overrides()
	limitSets := written.Policy.LimitSets()
	switch {
	case q.LimitSet == "":
		return nil, fmt.Errorf("%w: limit: missing; send the name of a limit, or %q for all limits", operation.ErrAsked,
			Whole)
	case q.LimitSet != Whole && !slices.Contains(limitSets, q.LimitSet):
		return nil, fmt.Errorf("%w: unknown limit %.60q; the limits are: %s, and all", operation.ErrAsked, q.LimitSet,
			strings.Join(limitSets, ", "))
	case by.Why == "":
		return nil, fmt.Errorf("%w: missing reason (recorded in the audit log)", operation.ErrAsked)
	case q.To != ToWatch && q.To != ToEnforce && q.To != ToFile:
		return nil, fmt.Errorf("%w: must be monitor, enforce or reset, not %.20q", operation.ErrAsked, q.To)
	case hold > MaxOverride:
		return nil, fmt.Errorf("%w: the duration must be at most %s, such as 7d; without one, the change has no end",
			operation.ErrAsked, times.FormatDuration(MaxOverride))
	}
	now := by.Now
	override := Override{LimitSet: q.LimitSet, Enforce: q.To == ToEnforce, Who: by.Who, Why: by.Why, Since: now}
	if hold > 0 {
		override.Until = now.Add(hold)
	}
	if err := l.say(ctx, written, before, override, q.To == ToFile); err != nil {
		return nil, err
	}
	if err := l.Read(ctx); err != nil {
		return nil, err
	}
	detail := q.LimitSet
	if hold > 0 && q.To != ToFile {
		detail += " for " + times.FormatDuration(hold)
	}
	l.notify(written, before, override)
	answer, err := l.View(ctx)
	return &operation.Change{Action: operation.Action{What: "policy-" + q.To, Detail: detail}, Answer: answer,
		Undo: undoing(before, q.LimitSet, now),
		Notice: operation.Notice{Text: map[string]string{ToWatch: "In monitoring mode on all nodes within a second:",
			ToEnforce: "Enforced on all nodes within a second:", ToFile: "Configured value restored:"}[q.To],
			Subject: q.LimitSet}}, err
}

// say stores an override, or removes that of the subject.
func (l *Limits) say(ctx context.Context, written Written, before []Override, override Override,
	back bool) error {
	if back {
		was, err := l.Table.Remove(ctx, l.Realm, override.LimitSet)
		if err == nil && !was {
			err = fmt.Errorf("%w: the configured value already applies", operation.ErrAsked)
		}
		return err
	}
	after := append(slices.DeleteFunc(slices.Clone(before),
		func(w Override) bool { return w.LimitSet == override.LimitSet }), override)
	if _, _, err := written.With(after); err != nil {
		return fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	return l.Table.Set(ctx, l.Realm, override)
}

// notify raises an alert for limits that are now monitored or enforced again. With an administrator's session, an
// attacker would first switch to monitoring.
func (l *Limits) notify(written Written, before []Override, override Override) {
	were, are := monitoredOf(written, before), monitoredOf(written, l.overrides())
	less := slices.DeleteFunc(slices.Clone(are), func(l string) bool { return slices.Contains(were, l) })
	more := slices.DeleteFunc(slices.Clone(were), func(l string) bool { return slices.Contains(are, l) })
	by := fmt.Sprintf("by %s: %s", alerts.Name(override.Who), alerts.Name(override.Why))
	if len(less) > 0 {
		if !override.Until.IsZero() {
			by += "\nuntil " + times.Text(override.Until.UTC())
		}
		l.Alerts.RaiseIn(l.Realm, alerts.PolicyMonitored, "",
			"monitoring mode from now on: "+strings.Join(less, ", ")+"\n"+by)
	}
	if len(more) > 0 {
		l.Alerts.RaiseIn(l.Realm, alerts.PolicyEnforced, "", strings.Join(more, ", ")+
			"\n"+by)
	}
}

// monitoredOf names the subjects whose limits are all monitored.
func monitoredOf(written Written, overrides []Override) (all []string) {
	p, mode, _ := written.With(written.Enforceable(overrides))
	for _, name := range p.LimitSets() {
		if (LimitSet{Limits: limitsIn(p, mode, name)}).Monitors() {
			all = append(all, name)
		}
	}
	return all
}

// InForce returns the configured policy and the overrides in force.
func (l *Limits) InForce() (Written, []Override) {
	written := l.Written()
	return written, written.Enforceable(l.overrides())
}

// overrides returns the overrides in force.
func (l *Limits) overrides() []Override {
	l.mu.Lock()
	defer l.mu.Unlock()
	return holding(l.known, l.Now())
}

func holding(overrides []Override, now time.Time) []Override {
	return slices.DeleteFunc(slices.Clone(overrides), func(w Override) bool {
		return !w.Until.IsZero() && !now.Before(w.Until)
	})
}

// Read reads and applies the overrides. If the database is unavailable, the last ones stay in force.
func (l *Limits) Read(ctx context.Context) error {
	overrides, err := l.Table.Overrides(ctx, l.Realm)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.known = overrides
	l.mu.Unlock()
	return l.EnactNow()
}

// EnactNow applies the configured policy with its overrides.
func (l *Limits) EnactNow() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	overrides, written := holding(l.known, l.Now()), l.Written()
	l.ended = len(l.known) - len(overrides)
	_, _, err := written.With(overrides)
	wrong := ""
	if err != nil {
		wrong = err.Error()
	}
	if wrong != "" && wrong != l.told {
		l.Log.Error("an override of the limits is invalid; the configured value is in force instead", "error", err)
	}
	l.told = wrong
	return l.Enact(written.Enforceable(overrides))
}

// Run ends expired overrides until ctx ends.
func (l *Limits) Run(ctx context.Context) {
	failing := false
	background.Every(ctx, time.Second, func(ctx context.Context) {
		err := l.EndExpired(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			l.Log.Error("an override of the limits has expired, but this could not be recorded yet", "error", err)
		}
		failing = err != nil
	})
}

// EndExpired applies the end of expired overrides at once. One of the nodes then records it.
func (l *Limits) EndExpired(ctx context.Context) error {
	l.mu.Lock()
	all, ended, now := slices.Clone(l.known), l.ended, l.Now()
	l.mu.Unlock()
	over := slices.DeleteFunc(slices.Clone(all), func(w Override) bool {
		return w.Until.IsZero() || now.Before(w.Until)
	})
	if len(over) == 0 {
		return nil
	}
	var failed []error
	if len(over) != ended {
		failed = append(failed, l.EnactNow())
	}
	for _, w := range over {
		before := append(l.overrides(), w)
		first, err := l.Table.End(ctx, l.Realm, w)
		if err == nil && first {
			l.notify(l.Written(), before, Override{Who: "authguard", Why: "the duration set by " + w.Who +
				" has ended"})
			err = l.Record(ctx, operation.Action{Who: "authguard", What: "policy-ended", Detail: w.LimitSet +
				": " + w.Why})
		}
		if err == nil {
			err = l.Read(ctx)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// Warning warns about monitored limits. An empty title is none.
func (l *Limits) Warning() (title, text string) {
	const shown = ". The page Limits shows what they would have stopped."
	written, overrides := l.Written(), l.overrides()
	watched := monitoredOf(written, overrides)
	switch {
	case len(watched) == 0:
		return "", ""
	case !written.Enforced(overrides):
		text := "All limits log and alert, but do not block"
		if n := len(written.Policy.LimitSets()) - len(watched); n > 0 {
			text = fmt.Sprintf("In monitoring mode: %s", strings.Join(watched, ", "))
		}
		return "All limits are in monitoring mode", text + saidOf(overrides) + shown
	}
	return "Some limits are in monitoring mode", "In monitoring mode: " + strings.Join(watched, ", ") +
		saidOf(overrides) + shown
}

func saidOf(overrides []Override) string {
	for _, w := range overrides {
		if !w.Enforce && w.Limits == "" {
			text := ", set by " + w.Who
			if !w.Until.IsZero() {
				text += ", until " + times.Text(w.Until.UTC())
			}
			return text
		}
	}
	return ", as configured"
}
