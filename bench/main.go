package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"authguard/bench/doors"
	"authguard/bench/proxy"
	"authguard/bench/replay"
	"authguard/bench/shared"
	"authguard/bench/wrk"
)

// plan is how much is measured.
type plan struct {
	sizes  []int // keys
	rounds int
	times  int // attempts in one round
	weigh  int // keys to weigh with
	login  wrk.Plan
	api    wrk.Plan
	proxy  wrk.Plan
	shared shared.Plan
}

var (
	whole = plan{
		sizes: []int{1_000, 1_000_000, 10_000_000}, rounds: 5, times: 250_000, weigh: 1_000_000,
		login:  wrk.Plan{Rounds: 5, Takes: 3 * time.Second},
		api:    wrk.Plan{Rounds: 7, Takes: 2 * time.Second},
		proxy:  wrk.Plan{Rounds: 9, Takes: time.Second},
		shared: shared.Plan{Rounds: 5, Takes: time.Second},
	}
	short = plan{
		sizes: []int{1_000, 1_000_000}, rounds: 3, times: 200_000, weigh: 200_000,
		login:  wrk.Plan{Rounds: 3, Takes: time.Second},
		api:    wrk.Plan{Rounds: 3, Takes: time.Second},
		proxy:  wrk.Plan{Rounds: 3, Takes: time.Second},
		shared: shared.Plan{Rounds: 3, Takes: time.Second / 2},
	}
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == shared.NodeCommand {
		end(shared.NodeMain(context.Background(), os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) == 3 && os.Args[1] == replay.LinesCommand {
		end(replay.LinesMain(os.Args[2]))
	}
	less := flag.Bool("short", false, "measure less: no 10,000,000 keys, fewer and shorter rounds")
	attempts := flag.Bool("attempts", true, "measure attempts")
	doors := flag.Bool("login", true, "measure the login endpoint, the decision API and the reverse proxy, with wrk and nginx")
	onlyProxy := flag.Bool("proxy", false, "measure only the reverse proxy")
	onlyAPI := flag.Bool("api", false, "measure only the decision API")
	onlyRedis := flag.Bool("redis", false, "measure only counting in Redis")
	onlyReplay := flag.Int64("replay", 0, "measure only authguard limit replay, on three logs of so many `bytes`, one after the other")
	flag.Parse()
	p := whole
	if *less {
		p = short
	}
	if *onlyReplay > 0 {
		end(measureReplay(*onlyReplay))
	}
	if *onlyAPI {
		end(measureAPI(p))
	}
	var err error
	if *attempts && !*onlyProxy && !*onlyRedis {
		err = measure(p)
	}
	if err == nil && *doors && !*onlyProxy && !*onlyRedis {
		err = measureDoors(p)
	}
	if err == nil && *doors && !*onlyProxy && !*onlyRedis {
		err = measureAPI(p)
	}
	if err == nil && (*doors || *onlyProxy) && !*onlyRedis {
		err = measureProxy(p)
	}
	if err == nil && !*onlyProxy {
		err = measureShared(p)
	}
	end(err)
}

// end ends the program, well or with an error.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measureShared(p plan) error {
	debug.FreeOSMemory()
	results, err := shared.Run(context.Background(), p.shared, say)
	if err != nil {
		return err
	}
	return printShared(os.Stdout, &results)
}

func measureReplay(bytes int64) error {
	rows, err := replay.Run(context.Background(), os.TempDir(), bytes, say)
	if err != nil {
		return err
	}
	return printReplay(os.Stdout, rows)
}

func measureDoors(p plan) error {
	say("the login endpoint")
	debug.FreeOSMemory() // the servers need room
	results, err := doors.Login(context.Background(), p.login)
	if err != nil {
		return err
	}
	return printDoors(os.Stdout, results)
}

func measureAPI(p plan) error {
	say("the decision API")
	debug.FreeOSMemory()
	results, err := doors.API(context.Background(), p.api)
	if err != nil {
		return err
	}
	return printAPI(os.Stdout, results)
}

func measureProxy(p plan) error {
	say("the reverse proxy")
	rows, err := proxy.Run(context.Background(), p.proxy)
	if err != nil {
		return err
	}
	return printProxy(os.Stdout, rows)
}

func measure(p plan) error {
	runtime.GOMAXPROCS(workers)
	say("weighing")
	weights := map[string]footprint{}
	for _, c := range contenders() {
		w, err := c.weigh(p.weigh)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		weights[c.name] = w
	}
	t := newTable(os.Stdout)
	for _, size := range p.sizes {
		results, err := race(size, p)
		if err != nil {
			return err
		}
		t.add(size, results, weights)
	}
	return t.flush()
}

// race fills every contender and lets them take turns, so that a slow moment
// of the machine hits them alike. The result is each one's median.
func race(keys int, p plan) ([]round, error) {
	// One collection of five contenders' heaps takes longer than a round, and
	// whoever happens to run would pay for all.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	say("%s keys: filling", thousands(keys))
	all := contenders()
	stores, attempts := make([]store, len(all)), make([]int, len(all))
	for i, c := range all {
		var err error
		if stores[i], attempts[i], err = c.full(keys); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer closeStore(stores[i])
	}
	say("%s keys: %d rounds", thousands(keys), p.rounds)
	runtime.GC()
	debug.SetGCPercent(-1)
	rounds := make([][]round, len(all))
	for n := range p.rounds {
		for i := range all {
			rounds[i] = append(rounds[i], run(stores[i], workersFor(keys), attempts[i], p.times, uint64(n)))
		}
	}
	medians := make([]round, len(all))
	for i := range all {
		medians[i] = median(rounds[i])
	}
	return medians, nil
}

var began = time.Now()

// say tells people who wait what they wait for.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
}

func median(rounds []round) round {
	var ns, allocs []float64
	for _, r := range rounds {
		ns, allocs = append(ns, r.ns), append(allocs, r.allocs)
	}
	slices.Sort(ns)
	slices.Sort(allocs)
	return round{ns[len(ns)/2], allocs[len(allocs)/2]}
}
