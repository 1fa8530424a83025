package alerts

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// maxKept is how many alerts wait for one channel with all their text.
	maxKept = 200
	// maxListed is how many of one kind a message spells out.
	maxListed = 20
)

// A digest is the backlog of one channel. It is not safe for concurrent use.
type digest struct {
	kept    []alert      // oldest first
	counted map[Kind]int // alerts for which there was no room
	since   time.Time    // when the first of those was raised
}

// add keeps the alert. Without room it demotes one alert to a count: an
// ordinary one if there is any, so that a flood of those cannot hide the end of
// an attack.
func (d *digest) add(a alert) {
	d.kept = append(d.kept, a)
	if len(d.kept) <= maxKept {
		return
	}
	i := len(d.kept) - 1
	for j, one := range d.kept {
		if !one.kind.important() {
			i = j
		}
	}
	d.count(d.kept[i].kind, 1, d.kept[i].at)
	d.kept = slices.Delete(d.kept, i, i+1)
}

func (d *digest) count(kind Kind, n int, at time.Time) {
	if len(d.counted) == 0 {
		d.counted, d.since = make(map[Kind]int), at
	}
	d.counted[kind] += n
}

// merge adds the alerts of another digest that this one lacks.
func (d *digest) merge(other digest) {
	all := slices.Concat(d.kept, other.kept)
	slices.SortFunc(all, func(a, b alert) int { return cmp.Compare(a.id, b.id) })
	d.kept = nil
	for _, a := range slices.CompactFunc(all, func(a, b alert) bool { return a.id == b.id }) {
		d.add(a)
	}
	for kind, n := range other.counted {
		d.count(kind, n, other.since)
	}
}

// snapshot copies the digest, so that it can be sent while it grows.
func (d *digest) snapshot() digest {
	return digest{kept: slices.Clone(d.kept), counted: maps.Clone(d.counted), since: d.since}
}

// delivered removes the content of a snapshot.
func (d *digest) delivered(s digest) {
	d.kept = slices.DeleteFunc(d.kept, func(a alert) bool {
		return slices.ContainsFunc(s.kept, func(sent alert) bool { return sent.id == a.id })
	})
	for kind, n := range s.counted {
		if d.counted[kind] > n {
			d.counted[kind] -= n
		} else {
			delete(d.counted, kind)
		}
	}
}

func (d *digest) len() int {
	n := len(d.kept)
	for _, more := range d.counted {
		n += more
	}
	return n
}

// upTo counts the kept alerts that are no newer than the one with this ID.
func (d *digest) upTo(id uint64) (n int) {
	for n < len(d.kept) && d.kept[n].id <= id {
		n++
	}
	return n
}

func (d *digest) important() bool {
	return slices.ContainsFunc(d.kept, func(a alert) bool { return a.kind.important() })
}

// due is when the bundling lets the digest go out.
func (d *digest) due(window time.Duration) time.Time {
	if len(d.kept) == 0 {
		return d.since.Add(window)
	}
	if slices.ContainsFunc(d.kept, func(a alert) bool { return a.kind.atOnce() }) {
		return time.Time{}
	}
	return d.kept[0].at.Add(window)
}

// A message is what a sender sends.
type message struct {
	title string // one line of ASCII
	body  string // plain text; begins with the title's words
}

// message renders a digest that is not empty as one message: the kinds of the kept
// alerts in order of first appearance, then those that were only counted. The
// note, if any, is its last line.
func (d *digest) message(note string) message {
	var kinds []Kind
	for _, a := range d.kept {
		kinds = append(kinds, a.kind)
	}
	kinds = append(kinds, slices.Sorted(maps.Keys(d.counted))...)
	var titles []string
	var b strings.Builder
	for i, kind := range kinds {
		if slices.Index(kinds, kind) == i {
			titles = append(titles, d.write(&b, kind))
		}
	}
	b.WriteString(note)
	subject := "authguard: " + titles[0]
	if more := len(titles) - 1; more > 0 {
		subject += fmt.Sprintf(" (and %d more)", more)
	}
	return message{title: subject, body: strings.TrimSpace(b.String()) + "\n"}
}

// write spells out the alerts of one kind and returns their title.
func (d *digest) write(b *strings.Builder, kind Kind) (title string) {
	others := func(a alert) bool { return a.kind != kind }
	group, more := slices.DeleteFunc(slices.Clone(d.kept), others), d.counted[kind]
	if len(group) == 0 {
		fmt.Fprintf(b, "%d alerts of kind %s, since %s\n\n", more, kind, clock(d.since))
		return "Alerts of kind " + string(kind)
	}
	title = group[0].title
	b.WriteString(title + "\n")
	for _, a := range group[:min(len(group), maxListed)] {
		text := strings.ReplaceAll(strings.TrimSpace(a.body), "\n", "\n  ")
		fmt.Fprintf(b, "- %s: %s\n", clock(a.at), text)
	}
	if more += max(0, len(group)-maxListed); more > 0 {
		fmt.Fprintf(b, "- and %d more\n", more)
	}
	b.WriteString("\n")
	return title
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
