package main

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// A table is the results in Markdown, aligned for reading in a terminal.
type table struct {
	w     *tabwriter.Writer
	weigh int
}

func newTable(to io.Writer, p plan) *table {
	t := &table{w: tabwriter.NewWriter(to, 0, 8, 1, ' ', 0), weigh: p.weigh}
	t.row("keys", "contender", "keys/attempt", "ns/attempt", "× floor", "allocs/attempt", "bytes/key", "by its own count")
	t.row("---:", "---", "---:", "---:", "---:", "---:", "---:", "---:")
	return t
}

func (t *table) row(cells ...string) {
	for _, cell := range cells {
		fmt.Fprintf(t.w, "| %s\t", cell)
	}
	fmt.Fprintln(t.w, "|")
}

// add writes the results of one size, the floor first.
func (t *table) add(size int, results []round, weights map[string]footprint) {
	for i, c := range contenders() {
		weight := weights[c.name]
		said := "–"
		if weight.said > 0 {
			said = fmt.Sprintf("%.1f", weight.said)
		}
		t.row(thousands(size), c.name, fmt.Sprint(c.keysPerAttempt),
			fmt.Sprintf("%.0f", results[i].ns), fmt.Sprintf("%.2f", results[i].ns/results[0].ns),
			fmt.Sprintf("%.2f", results[i].allocs), fmt.Sprintf("%.1f", weight.heap), said)
	}
}

func (t *table) flush() error {
	if err := t.w.Flush(); err != nil {
		return err
	}
	return nil
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
