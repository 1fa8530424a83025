package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"authguard/bench/login"
)

// A table is the results in Markdown, aligned for reading in a terminal.
type table struct{ w *tabwriter.Writer }

func newRows(to io.Writer) *table {
	return &table{tabwriter.NewWriter(to, 0, 8, 1, ' ', 0)}
}

func newTable(to io.Writer) *table {
	t := newRows(to)
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

func (t *table) flush() error { return t.w.Flush() }

// printDoors writes how fast the login door refuses beside a bare handler.
func printDoors(to io.Writer, results []login.Result) error {
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("POST /login, refused early", "authguard/s", "bare echo/s", "part of bare")
	t.row("---", "---:", "---:", "---:")
	for _, r := range results {
		t.row(r.Scene, thousands(int(r.Ours)), thousands(int(r.Bare)), fmt.Sprintf("%.2f", r.Ours/r.Bare))
	}
	return t.flush()
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
