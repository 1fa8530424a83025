package policy

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/operation"
	"authguard/internal/times"
)

// MaxOverride is the longest duration of a policy override. Without a duration it is permanent.
const MaxOverride = 366 * 24 * time.Hour

// The states to which the limits of a subject can be switched.
const (
	ToWatch   = "monitor"
	ToEnforce = "enforce"
	ToFile    = "reset" // back to the configured value
)

// Limits are the limits in force in one realm: the configured policy with the overrides. Set all exported fields before
// use; then it is safe for concurrent use.
type Limits struct {
	Realm   string
	Table   *Table // the overrides of all realms
	Effects *Effects
	Mode    *captchamode.Mode
	// Written returns the configured policy, Enact applies it with overrides.
	Written func() Written
	Enact   func([]Override) error
	Alerts  *alerts.Alerter
	// Accounts has the guards that count, and says whose counters are an administrator's.
	Accounts *accounts.Realm
	Record   func(context.Context, operation.Action) error // in the audit log
	Now      func() time.Time
	Log      *slog.Logger

	mu    sync.Mutex
	known []Override // the overrides as last read
	ended int        // of those, expired when last applied
	told  string     // the last logged problem
}

// A View is the limits in force, their overrides and effects. Its JSON is the answer of GET /api/policy.
type View struct {
	Now time.Time `json:"now"`
	// Enforce is whether the policy as a whole is enforced, Written the configured value. One subject's limits can differ.
	Enforce   bool       `json:"enforce"`
	Written   bool       `json:"enforce_in_configuration"`
	Overrides []Override `json:"words"`
	// Watched names the subjects whose limits are all monitored.
	Monitored []string   `json:"monitored"`
	LimitSets []LimitSet `json:"limits"`
	// Mode is the state of CAPTCHA mode, and Numbers its settings.
	Mode    captchamode.State `json:"mode"`
	Numbers ModeNumbers       `json:"mode_numbers"`
}

// ModeNumbers are the settings of the threshold.
type ModeNumbers struct {
	Factor  float64 `json:"threshold_multiplier"`
	Floor   int     `json:"threshold_min"`
	Ceiling int     `json:"threshold_max"`
}

// SourceOverride is the source of a limit that an administrator set.
const SourceOverride = "override"

// A LimitSet contains all limits of one subject. Name is one of guard.Policy.LimitSets.
type LimitSet struct {
	Name     string       `json:"name"`
	Override *Override    `json:"word,omitempty"` // nil: the configured value applies
	Limits   []LimitState `json:"limits"`
	// Configured are the limits in the configuration; empty if only the configuration can change them.
	Configured string `json:"configured,omitempty"`
}

// Numbers returns the limits in force as SetLimits takes them.
func (l LimitSet) Numbers() string {
	if l.Override != nil && l.Override.Limits != "" {
		return l.Override.Limits
	}
	return l.Configured
}

// A LimitState is one limit, with its effect in the last day.
type LimitState struct {
	Limit     string `json:"limit"` // as written in the configuration; in words if it is no count
	Failures  int    `json:"failures,omitempty"`
	Window    int    `json:"window_seconds,omitempty"`
	Then      string `json:"action"`
	By        string `json:"by,omitempty"` // what an event's limit counts by
	Monitored bool   `json:"monitored"`
	// Source is where it is set: "default", "authguard.yaml:12", or SourceOverride.
	Source string `json:"source,omitempty"`
	// Gone is set for a removed limit, or for one that a route configures.
	Gone bool `json:"gone,omitempty"`
	// Code is its reason in the audit log, without the suffix of monitored limits.
	Code    string `json:"code,omitempty"`
	Stopped Effect `json:"stopped"`
	Would   Effect `json:"would_have_stopped"`
}

// Monitors reports whether all limits are monitored.
func (l LimitSet) Monitors() bool {
	return !slices.ContainsFunc(l.Limits, func(r LimitState) bool { return !r.Monitored && !r.Gone })
}

// View returns the limits in force and their effects.
func (l *Limits) View(ctx context.Context) (p View, err error) {
	now, written := l.Now(), l.Written()
	inForce := written.Enforceable(l.overrides())
	in, mode, _ := written.With(inForce)
	day, err := l.Effects.LastDay(ctx, l.Realm)
	if err != nil {
		return p, err
	}
	p = View{
		Now: now, Enforce: written.Enforced(inForce), Written: written.Enforce,
		Overrides: append([]Override{}, inForce...), Monitored: []string{},
		Mode: l.Mode.State(), Numbers: ModeNumbers{mode.ThresholdMultiplier, mode.ThresholdMin, mode.ThresholdMax},
	}
	for _, name := range in.LimitSets() {
		set := LimitSet{Name: name, Limits: limitsIn(in, mode, name)}
		if i := slices.IndexFunc(inForce, func(w Override) bool { return w.LimitSet == name }); i >= 0 {
			set.Override = &inForce[i]
		}
		if counted := written.Policy.Counted(name); counted != nil {
			set.Configured = config.FormatLimits(*counted)
		}
		for i := range set.Limits {
			set.Limits[i].take(day, name)
			set.Limits[i].Source = written.source(set, i)
		}
		if set.Monitors() {
			p.Monitored = append(p.Monitored, name)
		}
		p.LimitSets = append(p.LimitSets, set)
	}
	p.former(day)
	return p, nil
}

func (w Written) source(set LimitSet, i int) string {
	switch {
	case set.Override != nil && set.Override.Limits != "":
		return SourceOverride
	case w.Origin == nil:
		return ""
	}
	return w.Origin(set.Name, i)
}

// Enforced reports whether the policy as a whole is enforced. The limits of one subject can differ.
func (l *Limits) Enforced() bool { return l.Written().Enforced(l.overrides()) }

// take moves the limit's counts from the day to the limit.
func (r *LimitState) take(day map[Limit]Effect, limitSet string) {
	key := Limit{LimitSet: limitSet, Text: r.key()}
	r.Stopped = day[key]
	delete(day, key)
	key.Monitored = true
	r.Would = day[key]
	delete(day, key)
}

func (r *LimitState) key() string {
	if r.Failures == 0 && r.Window == 0 && r.Code == "" {
		return ""
	}
	return r.Limit
}

// former adds the counts of removed limits and of those that a route configures.
func (p *View) former(day map[Limit]Effect) {
	byName := func(a, b Limit) int {
		return cmp.Or(strings.Compare(a.LimitSet, b.LimitSet), strings.Compare(a.Text, b.Text))
	}
	for _, key := range slices.SortedFunc(keysOf(day), byName) {
		i := slices.IndexFunc(p.LimitSets, func(l LimitSet) bool { return l.Name == key.LimitSet })
		if i < 0 {
			i, p.LimitSets = len(p.LimitSets), append(p.LimitSets, LimitSet{Name: key.LimitSet})
		}
		l := &p.LimitSets[i]
		j := slices.IndexFunc(l.Limits, func(r LimitState) bool { return r.Gone && r.Limit == key.Text })
		if j < 0 {
			gone := LimitState{Limit: key.Text, Gone: true, Code: codeOf(key.LimitSet, key.Text)}
			j, l.Limits = len(l.Limits), append(l.Limits, gone)
		}
		if key.Monitored {
			l.Limits[j].Would = day[key]
		} else {
			l.Limits[j].Stopped = day[key]
		}
	}
}

func keysOf[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// limitsOf returns the limits of a subject.
func limitsIn(p guard.Policy, mode captchamode.Config, limitSet string) (all []LimitState) {
	switch limitSet {
	case guard.PairDelayLimits:
		d := p.PairDelay
		return []LimitState{{Limit: fmt.Sprintf("after %d in %s: %s, doubling up to %s", d.After, times.FormatDuration(d.Window),
			times.FormatDuration(d.First), times.FormatDuration(d.Max)), Then: guard.Delay.String(), Monitored: d.Monitor}}
	case guard.SprayLimits:
		return []LimitState{{Limit: fmt.Sprintf("one password fails on %d accounts in 24h", p.Spray.Accounts),
			Then: "insufficient", Monitored: p.Spray.Monitor}}
	case guard.StepUpLimits:
		while := []string{}
		for _, one := range []struct {
			is   bool
			text string
		}{{p.StepUp.Throttling, "throttling"}, {p.StepUp.Captcha, "CAPTCHA mode"},
			{p.StepUp.Elevated, "more failures in 24h than usual"}, {p.StepUp.Leaked, "a login with a leaked password"}} {
			if one.is {
				while = append(while, one.text)
			}
		}
		return []LimitState{{Limit: "unknown client during " + strings.Join(while, ", "), Then: "insufficient",
			Monitored: p.StepUp.Monitor, Code: guard.StepUpNeeded.String()}}
	case guard.ModeLimits:
		all = []LimitState{{Limit: TextCAPTCHA, Then: "challenge", Monitored: mode.Monitor, Code: "captcha-mode"}}
		if p.ThrottleDelay > 0 {
			all = append(all, LimitState{Limit: TextSlow, Then: guard.Delay.String(), Monitored: mode.Monitor,
				Code: "throttled"})
		}
		return all
	}
	var limits []guard.Limit
	if counted := p.Counted(limitSet); counted != nil {
		limits = *counted
	}
	if name, is := strings.CutPrefix(limitSet, "event:"); is {
		for _, l := range p.Events[name] {
			text := TextOf(guard.Reason{Subject: l.By, Event: name, Limit: &guard.Limit{Failures: l.Count,
				Window: l.Window, Action: l.Action}})
			all = append(all, LimitState{
				Limit: text, Failures: l.Count, Window: int(l.Window.Seconds()), Then: l.Action.String(), By: l.By.String(),
				Monitored: l.Monitor, Code: codeOf(limitSet, text),
			})
		}
		return all
	}
	if name, is := strings.CutPrefix(limitSet, "list:"); is {
		l := p.Lists[slices.IndexFunc(p.Lists, func(l guard.NamedList) bool { return l.Name == name })]
		if l.Verdict == guard.Blocked {
			return []LimitState{{Limit: TextBlock, Then: "block", Monitored: l.Monitor, Code: "blocklist:" + name}}
		}
		limits = l.Limits
	}
	for _, l := range limits {
		text := LimitText(l)
		all = append(all, LimitState{
			Limit: text, Failures: l.Failures, Window: int(l.Window.Seconds()), Then: l.Action.String(), Monitored: l.Monitor,
			Code: codeOf(limitSet, text),
		})
	}
	return all
}

// codeOf returns a limit's reason in the audit log.
func codeOf(limitSet, text string) string {
	limit, _, _ := strings.Cut(text, " ")
	switch {
	case strings.HasPrefix(limitSet, "event:"):
		return ""
	case limit == "0":
		return limitSet
	case strings.HasPrefix(limitSet, "list:"):
		return limitSet + ":" + limit
	}
	return "limit:" + limitSet + ":" + limit
}
