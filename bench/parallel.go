package main

import (
	"runtime"
	"sync"
	"time"
)

// workers is the number of goroutines that share the work.
const workers = 2

// workersFor is the number of goroutines for a number of keys. At 1,000 keys, two goroutines would
// measure lock contention, mostly that of the floor: 1.2 and 3.7 × the floor in two runs.
func workersFor(keys int) int {
	if keys <= 1000 {
		return 1
	}
	return workers
}

// inParallel calls do with 0 to n-1. Each worker has a part of the range.
func inParallel(n int, do func(worker, i int)) {
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := n * w / workers; i < n*(w+1)/workers; i++ {
				do(w, i)
			}
		})
	}
	wait.Wait()
}

// A round is the cost of an attempt in one turn of a contender.
type round struct {
	ns     float64
	allocs float64
}

// run makes random attempts and times them.
func run(s store, workers, attempts, times int, seed uint64) round {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			pick := random(seed + uint64(w)<<32)
			for range times / workers {
				s.Attempt(pick.below(attempts))
			}
		})
	}
	wait.Wait()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	return round{
		ns:     float64(took.Nanoseconds()) / float64(times),
		allocs: float64(after.Mallocs-before.Mallocs) / float64(times),
	}
}
