package main

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
)

// measureMemory measures attempts in memory at each size.
func measureMemory(_ context.Context, p plan, sum *summary) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(workers))
	say("memory: bytes per key")
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
		sum.addMemory(size, results)
	}
	sum.addBytes(weights)
	return t.flush()
}

// race fills every contender and runs their rounds in turn, so that a slow moment of the machine
// affects all alike. The result is the median round of each.
func race(keys int, p plan) ([]round, error) {
	// One collection of five contenders' heaps takes longer than a round and would count against
	// the running contender.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	say("memory, %s keys: filling", thousands(keys))
	all := contenders()
	stores, attempts := make([]store, len(all)), make([]int, len(all))
	for i, c := range all {
		var err error
		if stores[i], attempts[i], err = c.full(keys); err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		defer closeStore(stores[i])
	}
	say("memory, %s keys: %d rounds", thousands(keys), p.rounds)
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

func median(rounds []round) round {
	var ns, allocs []float64
	for _, r := range rounds {
		ns, allocs = append(ns, r.ns), append(allocs, r.allocs)
	}
	slices.Sort(ns)
	slices.Sort(allocs)
	return round{ns[len(ns)/2], allocs[len(allocs)/2]}
}
