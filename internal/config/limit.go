package config

import (
	"fmt"
	"strings"
	"time"

	"authguard/failures"
	"authguard/guard"
)

// limits is a ladder, each rung a mapping or compact text such as
// "200/24h refuse monitor".
func limits(at *[]guard.Limit) value {
	return list[guard.Limit]{at: at,
		item:  func(at *guard.Limit) value { return limit{at} },
		parts: commas,
	}
}

// commas splits a variable at commas; the trailing one may be left.
func commas(s string) []string {
	s = strings.TrimSuffix(strings.TrimSpace(s), ",")
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

type limit struct{ at *guard.Limit }

var _ value = limit{}

func (l limit) set(n node) []fault {
	switch n.kind {
	case scalarKind:
		var ok bool
		if n, ok = expand(n); !ok {
			return []fault{{line: n.line, text: "must be like 10/1m challenge, not " + quote(n.text)}}
		}
	case mapKind:
	default:
		return []fault{{line: n.line, text: "must be failures, window and then, or like 10/1m challenge, not " + n.kind.String()}}
	}
	var v guard.Limit
	r := newReader(limitKeys(&v))
	r.read(n, "")
	r.require(n, "failures", "window", "then")
	if len(r.faults) == 0 {
		*l.at = v
	}
	return r.faults
}

func limitKeys(l *guard.Limit) []key {
	return []key{
		live("failures", number(&l.Failures, 1, failures.MaxFailures)),
		live("window", span(&l.Window, time.Millisecond, failures.MaxWindow)),
		live("then", choice(&l.Then,
			[]string{"challenge", "refuse", "forget"},
			[]guard.Action{guard.Challenge, guard.Refuse, guard.Forget})),
		live("monitor", flag(&l.Monitor)),
	}
}

// expand turns compact text into the mapping that it stands for; false if it
// has another form.
func expand(n node) (node, bool) {
	words := strings.Fields(n.text)
	if len(words) < 2 || len(words) > 3 || len(words) == 3 && words[2] != "monitor" {
		return n, false
	}
	count, window, ok := strings.Cut(words[0], "/")
	if !ok {
		return n, false
	}
	m := node{kind: mapKind, line: n.line}
	add := func(name, text string) {
		v := plain(text)
		v.line = n.line
		m.fields = append(m.fields, field{name, v})
	}
	add("failures", count)
	add("window", window)
	add("then", words[1])
	if len(words) == 3 {
		add("monitor", "true")
	}
	return m, true
}

func (l limit) node() node {
	keys := limitKeys(l.at)
	text := fmt.Sprintf("%s/%s %s", keys[0].value.node().text, keys[1].value.node().text, keys[2].value.node().text)
	if l.at.Monitor {
		text += " monitor"
	}
	return plain(text)
}

func (l limit) split(text string) node { return plain(text) }
