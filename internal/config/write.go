package config

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Write writes every setting as a YAML file that [Load] reads back, without
// the secrets: comments stand for those that are set.
func (c Config) Write(w io.Writer) error { return c.write(w, false) }

// WriteWithSecrets is Write with the secrets, for a file that only its owner
// reads.
func (c Config) WriteWithSecrets(w io.Writer) error { return c.write(w, true) }

func (c Config) write(w io.Writer, secrets bool) error {
	var b strings.Builder
	var open []string // the sections that the last line is in
	for _, k := range keys(&c) {
		parts := strings.Split(k.path, ".")
		sections, name := parts[:len(parts)-1], parts[len(parts)-1]
		for depth := common(open, sections); depth < len(sections); depth++ {
			fmt.Fprintf(&b, "%s%s:\n", indent(depth), sections[depth])
		}
		open = sections
		if k.secret && !secrets && k.shown() != "" {
			fmt.Fprintf(&b, "%s# %s: %s\n", indent(len(sections)), name, hidden)
			continue
		}
		fmt.Fprintf(&b, "%s%s:", indent(len(sections)), name)
		k.value.node().yaml(&b, len(sections)+1)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// yaml writes a value after its key.
func (n node) yaml(b *strings.Builder, depth int) {
	switch {
	case n.kind == listKind && len(n.items) == 0:
		b.WriteString(" []\n")
	case n.kind == listKind:
		b.WriteByte('\n')
		for _, item := range n.items {
			b.WriteString(indent(depth) + "-")
			item.yaml(b, depth+1)
		}
	case n.quoted:
		b.WriteString(" " + strconv.Quote(n.text) + "\n")
	default:
		b.WriteString(" " + n.text + "\n")
	}
}

func indent(depth int) string { return strings.Repeat("  ", depth) }

// common is how many sections two places share.
func common(a, b []string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
