package main

import (
	"runtime"
	"sync"
	"time"
)

// workers is how many goroutines share the work: the table is of two cores.
const workers = 2

// workersFor is how many share the attempts at so many keys. At a thousand two
// would measure who gets a lock, of the floor above all (1.2 and 3.7 × the floor
// in two runs of one hour), so there is one.
func workersFor(keys int) int {
	if keys <= 1000 {
		return 1
	}
	return workers
}

// inParallel calls do with 0 to n-1, each worker with a part of its own.
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

// A round is what one turn of one contender cost, per attempt.
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
