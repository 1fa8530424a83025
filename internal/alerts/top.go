package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const topCounters = 64

// A top finds the most frequent texts with a bounded number of counters
// (Space-Saving, Metwally and others 2005). The numbers it reports are lower
// bounds.
type top struct {
	counters map[string]*counter
}

type counter struct{ count, surplus int }

func newTop() *top { return &top{counters: make(map[string]*counter)} }

func (t *top) add(text string) {
	c, ok := t.counters[text]
	if !ok {
		c = t.room(text)
	}
	c.count++
}

// room gives a new text the counter of the rarest. What that had counted is the
// new one's possible surplus.
func (t *top) room(text string) *counter {
	c := new(counter)
	if len(t.counters) >= topCounters {
		rarest := t.rarest()
		n := t.counters[rarest].count
		*c = counter{count: n, surplus: n}
		delete(t.counters, rarest)
	}
	t.counters[text] = c
	return c
}

func (t *top) rarest() (text string) {
	least := -1
	for s, c := range t.counters {
		if least < 0 || c.count < least {
			text, least = s, c.count
		}
	}
	return text
}

type frequent struct {
	text    string
	atLeast int
}

func (t *top) first(n int) []frequent {
	var list []frequent
	for text, c := range t.counters {
		if c.count > c.surplus {
			list = append(list, frequent{text, c.count - c.surplus})
		}
	}
	slices.SortFunc(list, func(a, b frequent) int {
		return cmp.Or(cmp.Compare(b.atLeast, a.atLeast), strings.Compare(a.text, b.text))
	})
	return list[:min(n, len(list))]
}

// line is the first few as text.
func (t *top) line(n int, show func(string) string) string {
	var parts []string
	for _, f := range t.first(n) {
		parts = append(parts, fmt.Sprintf("%s (%d)", show(f.text), f.atLeast))
	}
	if len(parts) == 0 {
		return "none stands out"
	}
	return strings.Join(parts, ", ")
}
