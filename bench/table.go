package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"

	"authguard/bench/integrations"
	"authguard/bench/proxy"
	"authguard/bench/replay"
	"authguard/bench/shared"
)

// A table is a table in Markdown with aligned columns.
type table struct{ w *tabwriter.Writer }

func newRows(to io.Writer) *table {
	return &table{tabwriter.NewWriter(to, 0, 8, 1, ' ', 0)}
}

func newTable(to io.Writer) *table {
	t := newRows(to)
	t.row("keys", "contender", "keys/attempt", "ns/attempt", "× floor", "allocs/attempt", "bytes/key",
		"bytes/key by its own count")
	t.row("---:", "---", "---:", "---:", "---:", "---:", "---:", "---:")
	return t
}

func (t *table) row(cells ...string) {
	for _, cell := range cells {
		fmt.Fprintf(t.w, "| %s\t", cell)
	}
	fmt.Fprintln(t.w, "|")
}

// add writes the results of one size.
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

// printLogin writes the rates of the login endpoint beside a bare handler.
func printLogin(to io.Writer, results []integrations.Result) error {
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("POST /login, stopped early", "authguard/s", "bare echo/s", "share of a bare handler")
	t.row("---", "---:", "---:", "---:")
	for _, r := range results {
		t.row(r.Scene, thousands(int(r.Ours.Rate)), thousands(int(r.Bare.Rate)), fmt.Sprintf("%.2f", r.Bare.Share))
	}
	return t.flush()
}

// printAPI writes the rates of the decision API beside a bare handler.
func printAPI(to io.Writer, results []integrations.Result) error {
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("decision API, in memory", "authguard/s", "bare echo/s", "share of a bare handler", "authguard CPU µs",
		"bare CPU µs", "share by CPU time")
	t.row("---", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, r := range results {
		t.row(r.Scene, thousands(int(r.Ours.Rate)), thousands(int(r.Bare.Rate)), fmt.Sprintf("%.2f", r.Bare.Share),
			fmt.Sprintf("%.1f", r.Ours.CPU), fmt.Sprintf("%.1f", r.Bare.CPU),
			fmt.Sprintf("%.2f", r.Bare.CPU/r.Ours.CPU))
	}
	return t.flush()
}

// printReplay writes how fast logs are replayed per second of CPU time.
func printReplay(to io.Writer, rows []replay.Row) error {
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("per second and core", "MB", "lines", "attempts", "lines read", "lines replayed", "attempts replayed",
		"lines, GoAccess", "peak MiB, replay", "peak MiB, GoAccess")
	t.row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, r := range rows {
		rate := func(n int64, c replay.Cost) string {
			if c.CPU == 0 {
				return "–"
			}
			return thousands(int(float64(n) / c.CPU.Seconds()))
		}
		peak := func(c replay.Cost) string { return fmt.Sprint(c.Peak >> 20) }
		t.row(r.Name, thousands(int(r.Bytes/1e6)), thousands(int(r.Lines)), thousands(int(r.Attempts)),
			rate(r.Lines, r.Floor), rate(r.Lines, r.Replay), rate(r.Attempts, r.Replay), rate(r.Lines, r.GoAccess),
			peak(r.Replay), peak(r.GoAccess))
	}
	return t.flush()
}

// printProxy writes the rates of the proxies before an app, and their CPU time per request.
func printProxy(to io.Writer, rows []proxy.Row) error {
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("requests/s", "no proxy", "nginx", "flushing", "ReverseProxy", "authguard", "share of nginx",
		"share of flushing", "share of ReverseProxy")
	t.row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for _, r := range rows {
		cells := []string{r.Scene}
		for _, way := range r.Ways {
			cells = append(cells, thousands(int(way.Rate)))
		}
		for _, way := range r.Ways[1 : len(r.Ways)-1] {
			cells = append(cells, fmt.Sprintf("%.2f", way.Share))
		}
		t.row(cells...)
	}
	if err := t.flush(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	t = newRows(to)
	t.row("CPU time per request, µs", "nginx", "flushing", "ReverseProxy", "authguard")
	t.row("---", "---:", "---:", "---:", "---:")
	for _, r := range rows {
		cells := []string{r.Scene}
		for _, way := range r.Ways[1:] {
			cells = append(cells, fmt.Sprintf("%.0f", way.CPU))
		}
		t.row(cells...)
	}
	return t.flush()
}

// printShared writes the cost of counting in Redis.
func printShared(to io.Writer, r *shared.Results) error {
	fmt.Fprintf(to, "\nredis-server %s\n\n", r.Redis)
	t := newRows(to)
	t.row("in Redis", "attempts/key", "attempts/s", "share of three INCRs", "× redis_rate", "trips", "bytes in",
		"bytes out", "µs of a node", "µs of Redis", "attempts/s per Redis core")
	t.row("---", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:", "---:")
	for i := range r.Rows {
		t.addShared(r, &r.Rows[i])
	}
	if err := errors.Join(t.flush(), printWeights(to, r.Weights)); err != nil {
		return err
	}
	full := r.Full()
	fmt.Fprintf(to, "\nAt %s attempts a second on full limits, Redis ran %.0f scripts a second. The node's heartbeat "+
		"takes %.0f round trips a second.\n",
		thousands(int(full.Rate)), full.Scripts*full.Rate, full.Trips*full.Rate)
	one, two := &r.Nodes.One, &r.Nodes.Two
	_, err := fmt.Fprintf(to, "\nOne node with one core: %s attempts/s, with Redis %.0f %% busy. Two nodes: "+
		"%s attempts/s (%.2f times as many), with Redis %.0f %% busy. The machine has %d cores.\n",
		thousands(int(one.Rate)), 100*one.Share(), thousands(int(two.Rate)), two.Rate/one.Rate, 100*two.Share(),
		runtime.NumCPU())
	return err
}

func printWeights(to io.Writer, weights []shared.Weight) error {
	fmt.Fprintln(to)
	t := newRows(to)
	t.row("memory in Redis", "failures", "IP addresses", "bytes", "other keys", "bytes of the largest")
	t.row("---", "---:", "---:", "---:", "---:", "---:")
	for _, w := range weights {
		t.row(w.What, fmt.Sprint(w.Failures), fmt.Sprint(w.Of), fmt.Sprint(w.Bytes), fmt.Sprint(w.Others),
			fmt.Sprint(w.Largest))
	}
	return t.flush()
}

// addShared writes a row beside the floor and redis_rate with as many attempts per key, or with one.
func (t *table) addShared(all *shared.Results, r *shared.Row) {
	times, of := fmt.Sprint(r.Times), max(r.Times, 1)
	if r.Times == 0 {
		times = "–"
	}
	perCore := thousands(int(1e6 / r.CPU))
	if r.Name == shared.FullLimit {
		perCore = "–" // the node decides without Redis
	}
	t.row(r.Name, times, thousands(int(r.Rate)), fmt.Sprintf("%.2f", r.Rate/all.Floor(of)),
		fmt.Sprintf("%.2f", r.Rate/all.RedisRate(of)), fmt.Sprintf("%.2f", r.Trips), fmt.Sprintf("%.0f", r.In),
		fmt.Sprintf("%.0f", r.Out), fmt.Sprintf("%.1f", r.Own), fmt.Sprintf("%.1f", r.CPU), perCore)
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
