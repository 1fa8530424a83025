package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/duration"
	"authguard/internal/operation"
	"authguard/internal/policy"
)

// MaxPolicyOverride is the longest duration of a policy override. Without a duration it is permanent.
const MaxPolicyOverride = 366 * 24 * time.Hour

// The states to which the limits of a subject can be switched.
const (
	ToWatch   = "monitor"
	ToEnforce = "enforce"
	ToFile    = "reset" // back to the configured value
)

// said is the known overrides of a realm's policy.
type said struct {
	mu        sync.Mutex
	overrides []policy.Override // as last read
	ended     int               // of those, expired when last applied
	told      string            // the last logged problem
}

// A Policy is the limits in force, their overrides and effects. Its JSON is the answer of GET /api/policy.
type Policy struct {
	Now time.Time `json:"now"`
	// Enforce is whether the policy as a whole is enforced, Written the configured value. One subject's limits can differ.
	Enforce   bool              `json:"enforce"`
	Written   bool              `json:"enforce_in_configuration"`
	Overrides []policy.Override `json:"words"`
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

// A LimitSet contains all limits of one subject. Name is one of guard.Policy.LimitSets.
type LimitSet struct {
	Name     string           `json:"name"`
	Override *policy.Override `json:"word,omitempty"` // nil: the configured value applies
	Limits   []PolicyLimit    `json:"limits"`
}

// A PolicyLimit is one limit, with its effect in the last day.
type PolicyLimit struct {
	Limit     string `json:"limit"` // as written in the configuration; in words if it is no count
	Failures  int    `json:"failures,omitempty"`
	Window    int    `json:"window_seconds,omitempty"`
	Then      string `json:"action"`
	By        string `json:"by,omitempty"` // what an event's limit counts by
	Monitored bool   `json:"monitored"`
	// Gone is set for a removed limit, or for one that a route configures.
	Gone bool `json:"gone,omitempty"`
	// Code is its reason in the audit log, without the suffix of monitored limits.
	Code    string        `json:"code,omitempty"`
	Stopped policy.Effect `json:"stopped"`
	Would   policy.Effect `json:"would_have_stopped"`
}

// Watches reports whether all limits are monitored.
func (l LimitSet) Monitors() bool {
	return !slices.ContainsFunc(l.Limits, func(r PolicyLimit) bool { return !r.Monitored && !r.Gone })
}

// Policy returns the limits in force and their effects.
func (c *Control) Policy(ctx context.Context) (p Policy, err error) {
	now, written, overrides := c.config.Now(), c.config.Written(), c.overrides()
	in, mode, _ := written.With(written.Enforceable(overrides))
	day, err := c.config.Effects.LastDay(ctx, c.config.Realm)
	if err != nil {
		return p, err
	}
	p = Policy{
		Now: now, Enforce: written.Enforced(overrides), Written: written.Enforce, Overrides: append([]policy.Override{},
			overrides...), Monitored: []string{},
		Mode: c.config.Mode.State(), Numbers: ModeNumbers{mode.ThresholdMultiplier, mode.ThresholdMin, mode.ThresholdMax},
	}
	for _, name := range in.LimitSets() {
		l := LimitSet{Name: name, Limits: limitsOf(in, mode, name)}
		if i := slices.IndexFunc(overrides, func(w policy.Override) bool { return w.LimitSet == name }); i >= 0 {
			l.Override = &overrides[i]
		}
		for i := range l.Limits {
			l.Limits[i].take(day, name)
		}
		if l.Monitors() {
			p.Monitored = append(p.Monitored, name)
		}
		p.LimitSets = append(p.LimitSets, l)
	}
	p.former(day)
	return p, nil
}

// Enforced reports whether the policy as a whole is enforced. The limits of one subject can differ.
func (c *Control) Enforced() bool { return c.config.Written().Enforced(c.overrides()) }

// take moves the limit's counts from the day to the limit.
func (r *PolicyLimit) take(day map[policy.Limit]policy.Effect, limitSet string) {
	key := policy.Limit{LimitSet: limitSet, Text: r.key()}
	r.Stopped = day[key]
	delete(day, key)
	key.Monitored = true
	r.Would = day[key]
	delete(day, key)
}

func (r *PolicyLimit) key() string {
	if r.Failures == 0 && r.Window == 0 && r.Code == "" {
		return ""
	}
	return r.Limit
}

// former adds the counts of removed limits and of those that a route configures.
func (p *Policy) former(day map[policy.Limit]policy.Effect) {
	byName := func(a, b policy.Limit) int {
		return cmp.Or(strings.Compare(a.LimitSet, b.LimitSet), strings.Compare(a.Text, b.Text))
	}
	for _, key := range slices.SortedFunc(keysOf(day), byName) {
		i := slices.IndexFunc(p.LimitSets, func(l LimitSet) bool { return l.Name == key.LimitSet })
		if i < 0 {
			i, p.LimitSets = len(p.LimitSets), append(p.LimitSets, LimitSet{Name: key.LimitSet})
		}
		l := &p.LimitSets[i]
		j := slices.IndexFunc(l.Limits, func(r PolicyLimit) bool { return r.Gone && r.Limit == key.Text })
		if j < 0 {
			gone := PolicyLimit{Limit: key.Text, Gone: true, Code: codeOf(key.LimitSet, key.Text)}
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
func limitsOf(p guard.Policy, mode captchamode.Config, limitSet string) (all []PolicyLimit) {
	switch limitSet {
	case guard.PairDelayLimits:
		d := p.PairDelay
		return []PolicyLimit{{Limit: fmt.Sprintf("after %d in %s: %s, doubling up to %s", d.After, duration.Format(d.Window),
			duration.Format(d.First), duration.Format(d.Max)), Then: guard.Delay.String(), Monitored: d.Monitor}}
	case guard.SprayLimits:
		return []PolicyLimit{{Limit: fmt.Sprintf("one password fails on %d accounts in 24h", p.Spray.Accounts),
			Then: "insufficient", Monitored: p.Spray.Monitor}}
	case guard.ModeLimits:
		all = []PolicyLimit{{Limit: policy.TextCAPTCHA, Then: "challenge", Monitored: mode.Monitor, Code: "captcha-mode"}}
		if p.ThrottleDelay > 0 {
			all = append(all, PolicyLimit{Limit: policy.TextSlow, Then: guard.Delay.String(), Monitored: mode.Monitor,
				Code: "throttled"})
		}
		return all
	}
	limits := map[string][]guard.Limit{
		"fingerprint": p.Fingerprint, "pair": p.Pair, "account": p.Account, "address": p.Address, "network": p.Network,
		"known-client": p.KnownClient, "site": p.Site,
	}[limitSet]
	if name, is := strings.CutPrefix(limitSet, "event:"); is {
		for _, l := range p.Events[name] {
			text := policy.TextOf(guard.Reason{Subject: l.By, Event: name, Limit: &guard.Limit{Failures: l.Count,
				Window: l.Window, Action: l.Action}})
			all = append(all, PolicyLimit{
				Limit: text, Failures: l.Count, Window: int(l.Window.Seconds()), Then: l.Action.String(), By: l.By.String(),
				Monitored: l.Monitor, Code: codeOf(limitSet, text),
			})
		}
		return all
	}
	if name, is := strings.CutPrefix(limitSet, "list:"); is {
		l := p.Lists[slices.IndexFunc(p.Lists, func(l guard.NamedList) bool { return l.Name == name })]
		if l.Verdict == guard.Blocked {
			return []PolicyLimit{{Limit: policy.TextBlock, Then: "block", Monitored: l.Monitor, Code: "blocklist:" + name}}
		}
		limits = l.Limits
	}
	for _, l := range limits {
		text := policy.LimitText(l)
		all = append(all, PolicyLimit{
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

// SwitchPolicy enforces or monitors the limits of a subject, or of policy.Whole, or returns them to the configured
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

// Do implements Request.
func (q SwitchPolicy) Do(ctx context.Context, c *Control, by operation.By) (*operation.Change, error) {
	hold, err := operation.HoldOf(q.For)
	if err != nil {
		return nil, err
	}
	written, before := c.config.Written(), c.overrides()
	limitSets := written.Policy.LimitSets()
	switch {
	case q.LimitSet == "":
		return nil, fmt.Errorf("%w: limit: missing; send the name of a limit, or %q for all limits", operation.ErrAsked,
			policy.Whole)
	case q.LimitSet != policy.Whole && !slices.Contains(limitSets, q.LimitSet):
		return nil, fmt.Errorf("%w: unknown limit %.60q; the limits are: %s, and all", operation.ErrAsked, q.LimitSet,
			strings.Join(limitSets, ", "))
	case by.Why == "":
		return nil, fmt.Errorf("%w: missing reason (recorded in the audit log)", operation.ErrAsked)
	case q.To != ToWatch && q.To != ToEnforce && q.To != ToFile:
		return nil, fmt.Errorf("%w: must be monitor, enforce or reset, not %.20q", operation.ErrAsked, q.To)
	case hold > MaxPolicyOverride:
		return nil, fmt.Errorf("%w: the duration must be at most %s, such as 7d; without one, the change has no end",
			operation.ErrAsked, duration.Format(MaxPolicyOverride))
	}
	now := c.config.Now()
	override := policy.Override{LimitSet: q.LimitSet, Enforce: q.To == ToEnforce, Who: by.Who, Why: by.Why, Since: now}
	if hold > 0 {
		override.Until = now.Add(hold)
	}
	if err := c.say(ctx, written, before, override, q.To == ToFile); err != nil {
		return nil, err
	}
	if err := c.ReadPolicy(ctx); err != nil {
		return nil, err
	}
	detail := q.LimitSet
	if hold > 0 && q.To != ToFile {
		detail += " for " + duration.Format(hold)
	}
	c.notifyPolicy(written, before, override)
	answer, err := c.Policy(ctx)
	return &operation.Change{Action: operation.Action{What: "policy-" + q.To, Detail: detail}, Answer: answer,
		Notice: operation.Notice{Text: map[string]string{ToWatch: "In monitoring mode on all nodes within a second:",
			ToEnforce: "Enforced on all nodes within a second:", ToFile: "Configured value restored:"}[q.To],
			Subject: q.LimitSet}}, err
}

// say stores an override, or removes that of the subject.
func (c *Control) say(ctx context.Context, written policy.Written, before []policy.Override, override policy.Override,
	back bool) error {
	if back {
		was, err := c.config.Overrides.Remove(ctx, c.config.Realm, override.LimitSet)
		if err == nil && !was {
			err = fmt.Errorf("%w: the configured value already applies", operation.ErrAsked)
		}
		return err
	}
	after := append(slices.DeleteFunc(slices.Clone(before),
		func(w policy.Override) bool { return w.LimitSet == override.LimitSet }), override)
	if _, _, err := written.With(after); err != nil {
		return fmt.Errorf("%w: %w", operation.ErrAsked, err)
	}
	return c.config.Overrides.Set(ctx, c.config.Realm, override)
}

// notifyPolicy raises an alert for limits that are now monitored or enforced again. With an administrator's session, an
// attacker would first switch to monitoring.
func (c *Control) notifyPolicy(written policy.Written, before []policy.Override, override policy.Override) {
	were, are := monitoredOf(written, before), monitoredOf(written, c.overrides())
	less := slices.DeleteFunc(slices.Clone(are), func(l string) bool { return slices.Contains(were, l) })
	more := slices.DeleteFunc(slices.Clone(were), func(l string) bool { return slices.Contains(are, l) })
	by := fmt.Sprintf("by %s: %s", alerts.Name(override.Who), alerts.Name(override.Why))
	if len(less) > 0 {
		if !override.Until.IsZero() {
			by += "\nuntil " + override.Until.UTC().Format(time.RFC3339)
		}
		c.config.Alerts.RaiseIn(c.config.Realm, alerts.PolicyMonitored, "",
			"monitoring mode from now on: "+strings.Join(less, ", ")+"\n"+by)
	}
	if len(more) > 0 {
		c.config.Alerts.RaiseIn(c.config.Realm, alerts.PolicyEnforced, "", strings.Join(more, ", ")+
			"\n"+by)
	}
}

// monitoredOf names the subjects whose limits are all monitored.
func monitoredOf(written policy.Written, overrides []policy.Override) (all []string) {
	p, mode, _ := written.With(written.Enforceable(overrides))
	for _, name := range p.LimitSets() {
		if (LimitSet{Limits: limitsOf(p, mode, name)}).Monitors() {
			all = append(all, name)
		}
	}
	return all
}

// overrides returns the overrides in force.
func (c *Control) overrides() []policy.Override {
	c.said.mu.Lock()
	defer c.said.mu.Unlock()
	return holding(c.said.overrides, c.config.Now())
}

func holding(overrides []policy.Override, now time.Time) []policy.Override {
	return slices.DeleteFunc(slices.Clone(overrides), func(w policy.Override) bool {
		return !w.Until.IsZero() && !now.Before(w.Until)
	})
}

// ReadPolicy reads and applies the overrides. If the database is unavailable, the last ones stay in force.
func (c *Control) ReadPolicy(ctx context.Context) error {
	overrides, err := c.config.Overrides.Overrides(ctx, c.config.Realm)
	if err != nil {
		return err
	}
	c.said.mu.Lock()
	c.said.overrides = overrides
	c.said.mu.Unlock()
	return c.EnactPolicy()
}

// EnactPolicy applies the configured policy with its overrides.
func (c *Control) EnactPolicy() error {
	c.said.mu.Lock()
	defer c.said.mu.Unlock()
	overrides, written := holding(c.said.overrides, c.config.Now()), c.config.Written()
	c.said.ended = len(c.said.overrides) - len(overrides)
	_, _, err := written.With(overrides)
	wrong := ""
	if err != nil {
		wrong = err.Error()
	}
	if wrong != "" && wrong != c.said.told {
		c.config.Log.Error("an override of the limits cannot be applied; the configured values are in force", "error", err)
	}
	c.said.told = wrong
	return c.config.Enact(written.Enforceable(overrides))
}

// RunPolicy ends expired overrides until ctx ends.
func (c *Control) RunPolicy(ctx context.Context) {
	failing := false
	background.Every(ctx, time.Second, func(ctx context.Context) {
		err := c.EndOverrides(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			c.config.Log.Error("an override of the limits has expired, but this could not be recorded yet", "error", err)
		}
		failing = err != nil
	})
}

// EndOverrides applies the end of expired overrides at once. One of the nodes then records it.
func (c *Control) EndOverrides(ctx context.Context) error {
	c.said.mu.Lock()
	all, ended, now := slices.Clone(c.said.overrides), c.said.ended, c.config.Now()
	c.said.mu.Unlock()
	over := slices.DeleteFunc(slices.Clone(all), func(w policy.Override) bool {
		return w.Until.IsZero() || now.Before(w.Until)
	})
	if len(over) == 0 {
		return nil
	}
	var failed []error
	if len(over) != ended {
		failed = append(failed, c.EnactPolicy())
	}
	for _, w := range over {
		before := append(c.overrides(), w)
		first, err := c.config.Overrides.End(ctx, c.config.Realm, w)
		if err == nil && first {
			c.notifyPolicy(c.config.Written(), before, policy.Override{Who: "authguard", Why: "the duration set by " + w.Who +
				" has ended"})
			err = c.record(ctx, operation.Action{Who: "authguard", What: "policy-ended", Detail: w.LimitSet + ": " + w.Why})
		}
		if err == nil {
			err = c.ReadPolicy(ctx)
		}
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// policyWarning warns about monitored limits.
func (c *Control) policyWarning() []Warning {
	written, overrides := c.config.Written(), c.overrides()
	watched := monitoredOf(written, overrides)
	switch {
	case len(watched) == 0:
		return nil
	case !written.Enforced(overrides):
		text := "All limits log and alert, but do not block"
		if n := len(written.Policy.LimitSets()) - len(watched); n > 0 {
			text = fmt.Sprintf("In monitoring mode: %s", strings.Join(watched, ", "))
		}
		return []Warning{{Code: "limits-monitored", Title: "All limits are in monitoring mode", Text: text +
			saidOf(overrides) + ". The page Limits shows what they would have stopped."}}
	}
	return []Warning{{
		Code: "limits-monitored", Title: "Some limits are in monitoring mode",
		Text: "In monitoring mode: " + strings.Join(watched, ", ") + saidOf(overrides) +
			". The page Limits shows what they would have stopped.",
	}}
}

func saidOf(overrides []policy.Override) string {
	for _, w := range overrides {
		if !w.Enforce {
			text := ", set by " + w.Who
			if !w.Until.IsZero() {
				text += ", until " + w.Until.UTC().Format("2006-01-02 15:04 MST")
			}
			return text
		}
	}
	return ", as configured"
}
