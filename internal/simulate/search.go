package simulate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"authguard/guard"
	"authguard/internal/config"
	"authguard/internal/replay"
	"authguard/internal/times"
)

// Score rates limits. Let counts attackers' logins, which logs do not tell, and Checked their guesses that were checked;
// Met the affected ones of users' Logins, and KeptOut those that did not get in.
type Score struct {
	Let     int64 `json:"let_in"`
	Checked int64 `json:"checked"`
	Met     int64 `json:"met"`
	KeptOut int64 `json:"kept_out"`
	Logins  int64 `json:"logins"`
}

// harm compares what got through: logins first.
func (s Score) harm(o Score) int {
	return cmp.Or(cmp.Compare(s.Let, o.Let), cmp.Compare(s.Checked, o.Checked))
}

// Friction returns the share of affected logins.
func (s Score) Friction() float64 {
	if s.Logins == 0 {
		return 0
	}
	return float64(s.Met) / float64(s.Logins)
}

// Judge scores setups, in their order. It must be deterministic.
type Judge func(ctx context.Context, setups []replay.Setup) ([]Score, error)

// Limits are tested limits.
type Limits struct {
	replay.Setup `json:"-"`
	Score        `json:"score"`
	Text         string `json:"limits"` // as in the configuration
}

// Found is the result of a search.
type Found struct {
	Base Limits `json:"base"` // the starting point
	Best Limits `json:"best"`
	// Frontier are the Pareto-optimal limits of all tested ones, by increasing friction.
	Frontier []Limits `json:"frontier"`
	Tried    int      `json:"tried"`
	// Friction is the allowed friction.
	Friction float64 `json:"friction"`
}

// rounds is how often each limit is varied: in the second round, the others have changed.
const rounds = 2

// leastFriction is the minimum default of the allowed friction.
const leastFriction = 0.001

// Search starts with base and varies one number after the other. It keeps a change that lets fewer guesses through with
// at most the allowed friction, and keeps out no more users than base. It does not add limits. A nil friction allows
// base's own, or one login in a thousand if that is more, so the result is never worse than base.
func Search(ctx context.Context, base replay.Setup, friction *float64, judge Judge,
	tell func(done, of int)) (*Found, error) {
	s := &search{judge: judge, tried: map[string]Limits{}}
	first, err := s.try(ctx, []replay.Setup{base})
	if err != nil {
		return nil, err
	}
	best := first[0]
	s.keptOut, s.friction = best.KeptOut, max(leastFriction, best.Friction())
	if friction != nil {
		s.friction = *friction
	}
	all := knobs(base)
	for round := range rounds {
		for i, k := range all {
			if tell != nil {
				tell(round*len(all)+i, rounds*len(all))
			}
			candidates, err := s.try(ctx, k.turned(best.Setup))
			if err != nil {
				return nil, err
			}
			for _, c := range candidates {
				if s.better(c, best) {
					best = c
				}
			}
		}
	}
	if tell != nil {
		tell(1, 1)
	}
	return &Found{Base: first[0], Best: best, Frontier: s.frontier(), Tried: len(s.tried), Friction: s.friction}, nil
}

type search struct {
	judge    Judge
	friction float64
	keptOut  int64
	tried    map[string]Limits
}

func (s *search) try(ctx context.Context, setups []replay.Setup) (all []Limits, err error) {
	var fresh []replay.Setup
	for _, setup := range setups {
		text := Text(setup)
		if known, ok := s.tried[text]; ok {
			all = append(all, known)
		} else if !slices.ContainsFunc(fresh, func(o replay.Setup) bool { return Text(o) == text }) {
			fresh = append(fresh, setup)
		}
	}
	if len(fresh) == 0 {
		return all, nil
	}
	scores, err := s.judge(ctx, fresh)
	if err != nil {
		return nil, err
	}
	for i, setup := range fresh {
		one := Limits{setup, scores[i], Text(setup)}
		s.tried[one.Text] = one
		all = append(all, one)
	}
	return all, nil
}

func (s *search) better(a, b Limits) bool {
	fits := func(l Limits) int {
		if l.Friction() <= s.friction && l.KeptOut <= s.keptOut {
			return 0
		}
		return 1
	}
	if fits(a) == 1 && fits(b) == 1 { // move toward limits that fit
		return cmp.Or(cmp.Compare(a.KeptOut, b.KeptOut), cmp.Compare(a.Met, b.Met), a.harm(b.Score)) < 0
	}
	return cmp.Or(cmp.Compare(fits(a), fits(b)), a.harm(b.Score), cmp.Compare(a.Met, b.Met)) < 0
}

func (s *search) frontier() (all []Limits) {
	var tried []Limits
	for _, l := range s.tried {
		if l.KeptOut <= s.keptOut {
			tried = append(tried, l)
		}
	}
	slices.SortFunc(tried, func(a, b Limits) int {
		return cmp.Or(cmp.Compare(a.Met, b.Met), a.harm(b.Score), strings.Compare(a.Text, b.Text))
	})
	for _, l := range tried {
		if n := len(all); n == 0 || l.harm(all[n-1].Score) < 0 {
			all = append(all, l)
		}
	}
	return all
}

type knob struct {
	set func(s *replay.Setup, value int)
	was int
}

func factors() []float64 { return []float64{0.25, 0.5, 2, 4} }

// turned returns the setups with each value of the knob, as far as they are valid (R8).
func (k knob) turned(from replay.Setup) (all []replay.Setup) {
	for _, f := range append(factors(), 1) {
		s := from
		s.Policy.Address, s.Policy.Network = slices.Clone(from.Policy.Address), slices.Clone(from.Policy.Network)
		s.Policy.Account, s.Policy.KnownClient = slices.Clone(from.Policy.Account), slices.Clone(from.Policy.KnownClient)
		k.set(&s, max(1, int(float64(k.was)*f+0.5)))
		if s.Policy.Validate() == nil && s.Mode.Validate() == nil {
			all = append(all, s)
		}
	}
	return all
}

// knobs returns the numbers of a setup to vary.
func knobs(base replay.Setup) (all []knob) {
	limitSet := func(limits []guard.Limit, of func(*guard.Policy) []guard.Limit) {
		for i, limit := range limits {
			all = append(all, knob{func(s *replay.Setup, n int) { of(&s.Policy)[i].Failures = n }, limit.Failures})
		}
	}
	p := base.Policy
	limitSet(p.Address, func(p *guard.Policy) []guard.Limit { return p.Address })
	limitSet(p.Network, func(p *guard.Policy) []guard.Limit { return p.Network })
	limitSet(p.Account, func(p *guard.Policy) []guard.Limit { return p.Account })
	if p.PairDelay.First > 0 {
		all = append(all, knob{func(s *replay.Setup, n int) { s.Policy.PairDelay.After = n }, p.PairDelay.After})
	}
	return append(all,
		knob{func(s *replay.Setup, n int) { s.Mode.ThresholdMultiplier = float64(n) }, int(base.Mode.ThresholdMultiplier)},
		knob{func(s *replay.Setup, n int) { s.Mode.ThresholdMin = min(n, s.Mode.ThresholdMax) }, base.Mode.ThresholdMin},
	)
}

// Text returns the varied limits as in the configuration.
func Text(s replay.Setup) string {
	var b strings.Builder
	b.WriteString("limits:\n")
	limitSet := func(name string, limits []guard.Limit) {
		var words []string
		for _, r := range limits {
			words = append(words, fmt.Sprintf("%d/%s %s", r.Failures, times.FormatDuration(r.Window), r.Action))
			if r.Monitor {
				words[len(words)-1] += " monitor"
			}
		}
		fmt.Fprintf(&b, "  %s: [%s]\n", name, strings.Join(words, ", "))
	}
	limitSet("address", s.Policy.Address)
	limitSet("network", s.Policy.Network)
	limitSet("account", s.Policy.Account)
	if d := s.Policy.PairDelay; d.First > 0 {
		fmt.Fprintf(&b, "  pair_delay: %s\n", config.PairDelay(d))
	}
	fmt.Fprintf(&b, "captcha_mode:\n  threshold: %s\n",
		config.Threshold{Multiplier: s.Mode.ThresholdMultiplier, Min: s.Mode.ThresholdMin, Max: s.Mode.ThresholdMax})
	return b.String()
}
