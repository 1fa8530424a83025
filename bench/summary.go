package main

import (
	"fmt"
	"io"
	"strings"

	"authguard/bench/integrations"
	"authguard/bench/shared"
)

// A summary is the ratios for which authguard has targets, of everything that was measured.
type summary struct{ lines []line }

// A line is one value of authguard, divided by the reference's unless that is empty.
type line struct {
	measurement, quantity, reference string
	value                            float64
	target                           target
}

// A target bounds a value; the zero target does not.
type target struct {
	sign  string
	bound float64
}

func atMost(bound float64) target  { return target{"≤", bound} }
func below(bound float64) target   { return target{"<", bound} }
func atLeast(bound float64) target { return target{"≥", bound} }

// met is yes, no or, without a target, a dash.
func (t target) met(value float64) string {
	ok := false
	switch t.sign {
	case "":
		return "–"
	case "≤":
		ok = value <= t.bound
	case "<":
		ok = value < t.bound
	case "≥":
		ok = value >= t.bound
	}
	if ok {
		return "yes"
	}
	return "no"
}

func (t target) String() string {
	if t.sign == "" {
		return "–"
	}
	return fmt.Sprintf("%s %.2f", t.sign, t.bound)
}

func (s *summary) add(measurement, quantity, reference string, value float64, t target) {
	s.lines = append(s.lines, line{measurement, quantity, reference, value, t})
}

// addMemory adds an attempt's time beside that of each other contender, and its allocations.
func (s *summary) addMemory(keys int, results []round) {
	what := fmt.Sprintf("attempt in memory, %s keys", thousands(keys))
	var own round
	for i, c := range contenders() {
		if c.name == product {
			own = results[i]
		}
	}
	for i, c := range contenders() {
		var t target
		switch {
		case c.name == product:
			continue
		case c.name == lowest && keys == 1_000:
			t = atMost(5)
		case c.name == lowest && keys == 1_000_000:
			t = atMost(1.5)
		case c.name != lowest && keys > 1_000:
			t = below(1)
		}
		s.add(what, "time", c.name, own.ns/results[i].ns, t)
	}
	s.add(what, "allocations per attempt", "", own.allocs, atMost(2))
}

func (s *summary) addBytes(weights map[string]footprint) {
	s.add("memory", "bytes per key", "", weights[product].heap, atMost(64))
}

// addRedis adds the rates beside that of the script of three INCRs, with as many attempts per key.
func (s *summary) addRedis(r *shared.Results) {
	for _, one := range r.Compared() {
		t := target{}
		switch {
		case one.Name == shared.FailedAttempt:
			t = atLeast(0.55)
		case one.Name == shared.DeviceLogin:
			t = atLeast(0.8)
		}
		what := "Redis, " + strings.TrimPrefix(one.Name, "authguard: a ")
		if one.Times > 0 {
			what += fmt.Sprintf(", %d per key", one.Times)
		}
		s.add(what, "rate", "script of three INCRs", one.Rate/r.Floor(max(one.Times, 1)), t)
	}
}

// addLogin adds the rates of the login endpoint beside a bare handler's.
func (s *summary) addLogin(results []integrations.Result) {
	targets := []target{atLeast(0.7), atLeast(0.55), atLeast(0.6), atLeast(0.5)} // in the order of the scenes
	for i, r := range results {
		s.add("login endpoint, "+r.Scene, "rate", "bare echo handler", r.Bare.Share, targets[i])
	}
}

// print writes the table.
func (s *summary) print(to io.Writer) error {
	if len(s.lines) == 0 {
		return nil
	}
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("measurement", "quantity", "divided by that of", "value", "target", "met")
	t.row("---", "---", "---", "---:", "---:", "---")
	for _, l := range s.lines {
		reference := l.reference
		if reference == "" {
			reference = "–"
		}
		t.row(l.measurement, l.quantity, reference, fmt.Sprintf("%.2f", l.value), l.target.String(), l.target.met(l.value))
	}
	return t.flush()
}
