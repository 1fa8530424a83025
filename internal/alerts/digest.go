package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"authguard/internal/times"
)

const (
	// maxKept is how many alerts of a channel keep their text.
	maxKept = 200
	// maxListed is how many alerts of one kind a message lists.
	maxListed = 20
)

// A digest is the waiting alerts of one channel. The first keep their text, the others are only counted, so an attacker
// cannot grow it. It is not safe for concurrent use.
type digest struct {
	Kept    []Alert      `json:"kept,omitempty"` // oldest first
	Counted map[Kind]int `json:"counted,omitempty"`
	Since   time.Time    `json:"since,omitzero"` // time of the first counted alert
	Note    string       `json:"note,omitempty"` // last line of the message
}

// add keeps the alert's text, or counts an alert if a message would not list it or there is no room. Ordinary alerts
// make room first, so that a flood of them cannot hide the end of an attack.
func (d *digest) add(a Alert) {
	at, twice := slices.BinarySearchFunc(d.Kept, a.ID, func(k Alert, id int64) int { return cmp.Compare(k.ID, id) })
	if twice {
		return
	}
	d.Kept = slices.Insert(d.Kept, at, a)
	out, same := -1, 0
	for i, one := range d.Kept {
		if one.Kind == a.Kind {
			if same++; same > maxListed {
				out = i
			}
		}
	}
	if out < 0 && len(d.Kept) > maxKept {
		out = len(d.Kept) - 1
		for i, one := range d.Kept {
			if !one.Kind.important() {
				out = i
			}
		}
	}
	if out >= 0 {
		d.count(d.Kept[out].Kind, 1, d.Kept[out].At)
		d.Kept = slices.Delete(d.Kept, out, out+1)
	}
}

func (d *digest) count(kind Kind, n int, at time.Time) {
	if len(d.Counted) == 0 {
		d.Counted, d.Since = make(map[Kind]int), at
	}
	if at.Before(d.Since) {
		d.Since = at
	}
	d.Counted[kind] += n
}

// merge adds the alerts that this digest lacks.
func (d *digest) merge(other digest) {
	for _, a := range other.Kept {
		d.add(a)
	}
	for kind, n := range other.Counted {
		d.count(kind, n, other.Since)
	}
}

func (d *digest) len() int {
	n := len(d.Kept)
	for _, more := range d.Counted {
		n += more
	}
	return n
}

func (d *digest) has(is func(Kind) bool) bool {
	for kind := range d.Counted {
		if is(kind) {
			return true
		}
	}
	return slices.ContainsFunc(d.Kept, func(a Alert) bool { return is(a.Kind) })
}

// A message is what a sender sends.
type message struct {
	id     string // the same for every try
	title  string // one line of ASCII
	body   string // plain text; begins with the title's words
	urgent bool
	what   digest
	at     time.Time
}

// message renders a digest that is not empty: the kinds with text in order of first appearance, then the counted ones.
func (d *digest) message() message {
	var kinds []Kind
	for _, a := range d.Kept {
		kinds = append(kinds, a.Kind)
	}
	kinds = append(kinds, slices.Sorted(maps.Keys(d.Counted))...)
	var names []string
	var b strings.Builder
	for i, kind := range kinds {
		if slices.Index(kinds, kind) == i {
			names = append(names, d.write(&b, kind))
		}
	}
	b.WriteString(d.Note)
	subject := "authguard: " + names[0]
	if more := len(names) - 1; more > 0 {
		subject += fmt.Sprintf(" (and %d more)", more)
	}
	return message{title: subject, body: strings.TrimSpace(b.String()) + "\n", urgent: d.has(Kind.urgent),
		what: *d}
}

func (d *digest) write(b *strings.Builder, kind Kind) (title string) {
	others := func(a Alert) bool { return a.Kind != kind }
	group, more := slices.DeleteFunc(slices.Clone(d.Kept), others), d.Counted[kind]
	if len(group) == 0 {
		fmt.Fprintf(b, "%d alerts of kind %s, since %s\n\n", more, kind, times.Text(d.Since.UTC()))
		return cmp.Or(kind.meaning().title, "Alerts of kind "+string(kind))
	}
	title = group[0].Title
	b.WriteString(title + "\n")
	for _, a := range group {
		text := strings.ReplaceAll(strings.TrimSpace(a.Body), "\n", "\n  ")
		fmt.Fprintf(b, "- %s: %s\n", times.Text(a.At.UTC()), text)
	}
	if more > 0 {
		fmt.Fprintf(b, "- and %d more\n", more)
	}
	if m := kind.meaning(); m.todo != "" {
		fmt.Fprintf(b, "What to do: %s\n", m.todo)
	}
	if m := kind.meaning(); m.runbook != "" {
		fmt.Fprintf(b, "Runbook: docs/runbooks/%s.md\n", m.runbook)
	}
	var seen []string
	for _, a := range group {
		if a.Page != "" && !slices.Contains(seen, a.Page) {
			seen = append(seen, a.Page)
			fmt.Fprintf(b, "See %s\n", a.Page)
		}
	}
	b.WriteString("\n")
	return title
}
