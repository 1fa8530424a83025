package alerts

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxListed is how many of one kind a message spells out.
const maxListed = 20

// A Message is what a channel sends.
type Message struct {
	Title string // one line of ASCII
	Body  string // plain text; begins with the title's words
}

// message is the digest as one message, kind by kind in the order in which
// they began. A note, if there is one, is its last line.
func (d *digest) message(name, note string) Message {
	var titles []string
	var b strings.Builder
	for _, group := range d.groups() {
		titles = append(titles, group[0].title)
		writeGroup(&b, group, d.counted[group[0].kind])
	}
	for _, kind := range d.countedOnly() {
		titles = append(titles, "Alerts of kind "+string(kind))
		fmt.Fprintf(&b, "%d alerts of kind %s, since %s\n\n", d.counted[kind], kind, clock(d.since))
	}
	b.WriteString(note)
	return Message{Title: name + ": " + subject(titles), Body: strings.TrimSpace(b.String()) + "\n"}
}

func subject(titles []string) string {
	switch n := len(titles); n {
	case 0:
		return "nothing to tell"
	case 1:
		return titles[0]
	default:
		return fmt.Sprintf("%s (and %d more)", titles[0], n-1)
	}
}

func (d *digest) groups() (groups [][]alert) {
	place := make(map[Kind]int)
	for _, a := range d.kept {
		i, ok := place[a.kind]
		if !ok {
			i = len(groups)
			place[a.kind] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], a)
	}
	return groups
}

// countedOnly are the kinds of which no alert was kept.
func (d *digest) countedOnly() (kinds []Kind) {
	for kind := range d.counted {
		if !slices.ContainsFunc(d.kept, func(a alert) bool { return a.kind == kind }) {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

func writeGroup(b *strings.Builder, group []alert, more int) {
	b.WriteString(group[0].title + "\n")
	for _, a := range group[:min(len(group), maxListed)] {
		text := strings.ReplaceAll(strings.TrimSpace(a.body), "\n", "\n  ")
		fmt.Fprintf(b, "- %s: %s\n", clock(a.at), text)
	}
	if more += max(0, len(group)-maxListed); more > 0 {
		fmt.Fprintf(b, "- and %d more\n", more)
	}
	b.WriteString("\n")
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
