package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"authguard/bench/integrations"
	"authguard/bench/proxy"
	"authguard/bench/replay"
	"authguard/bench/shared"
	"authguard/bench/wrk"
)

// A plan is how much is measured.
type plan struct {
	sizes  []int // keys
	rounds int
	times  int // attempts in one round
	weigh  int // keys for the bytes per key
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
		sizes: whole.sizes, rounds: 3, times: 200_000, weigh: 1_000_000,
		login:  wrk.Plan{Rounds: 3, Takes: time.Second},
		api:    wrk.Plan{Rounds: 3, Takes: time.Second},
		proxy:  wrk.Plan{Rounds: 3, Takes: time.Second},
		shared: shared.Plan{Rounds: 3, Takes: time.Second / 2},
	}
)

// A part is measured by itself if its flag is set.
type part struct {
	only    *bool
	measure func(context.Context, plan, *summary) error
}

func main() {
	ctx := context.Background()
	if len(os.Args) > 2 && os.Args[1] == shared.NodeCommand {
		end(shared.NodeMain(ctx, os.Args[2:], os.Stdin, os.Stdout))
	}
	if len(os.Args) == 3 && os.Args[1] == replay.LinesCommand {
		end(replay.LinesMain(os.Args[2]))
	}
	less := flag.Bool("short", false, "measure fewer and shorter rounds")
	logs := flag.Int64("replay", 0, "measure only authguard limit replay, on three logs of this many `bytes`")
	parts := []part{
		{flag.Bool("memory", false, "measure attempts in memory"), measureMemory},
		{flag.Bool("redis", false, "measure attempts in Redis; needs redis-server"), measureRedis},
		{flag.Bool("login", false, "measure the login endpoint; needs wrk"), measureLogin},
		{flag.Bool("api", false, "measure the decision API; needs wrk"), measureAPI},
		{flag.Bool("proxy", false, "measure the reverse proxy; needs wrk and nginx"), measureProxy},
	}
	flag.Parse()
	if *logs > 0 {
		end(measureReplay(ctx, *logs))
	}
	p := whole
	if *less {
		p = short
	}
	end(measure(ctx, parts, p))
}

// measure measures the parts whose flags are set, or all if none is, and prints the summary last.
func measure(ctx context.Context, parts []part, p plan) error {
	all, sum := true, new(summary)
	for _, one := range parts {
		all = all && !*one.only
	}
	for _, one := range parts {
		if !all && !*one.only {
			continue
		}
		debug.FreeOSMemory() // servers need room
		if err := one.measure(ctx, p, sum); err != nil {
			return err
		}
	}
	return sum.print(os.Stdout)
}

// end ends the program.
func end(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func measureRedis(ctx context.Context, p plan, sum *summary) error {
	results, err := shared.Run(ctx, p.shared, say)
	if err != nil {
		return err
	}
	sum.addRedis(&results)
	return printShared(os.Stdout, &results)
}

func measureReplay(ctx context.Context, bytes int64) error {
	rows, err := replay.Run(ctx, os.TempDir(), bytes, say)
	if err != nil {
		return err
	}
	return printReplay(os.Stdout, rows)
}

func measureLogin(ctx context.Context, p plan, sum *summary) error {
	say("the login endpoint")
	results, err := integrations.Login(ctx, p.login)
	if err != nil {
		return err
	}
	sum.addLogin(results)
	return printLogin(os.Stdout, results)
}

func measureAPI(ctx context.Context, p plan, _ *summary) error {
	say("the decision API")
	results, err := integrations.API(ctx, p.api)
	if err != nil {
		return err
	}
	return printAPI(os.Stdout, results)
}

func measureProxy(ctx context.Context, p plan, _ *summary) error {
	say("the reverse proxy")
	rows, err := proxy.Run(ctx, p.proxy)
	if err != nil {
		return err
	}
	return printProxy(os.Stdout, rows)
}

var began = time.Now()

// say reports progress.
func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0fs "+format+"\n", append([]any{time.Since(began).Seconds()}, args...)...)
}
