package main

import (
	"runtime"
)

// A footprint is the memory for one key with one failure.
type footprint struct {
	heap float64 // bytes by which the heap grew
	said float64 // bytes by the store's own count; 0 if it does not count them
}

// weigh fills a store and measures the growth of the heap, without the inputs.
func (c contender) weigh(keys int) (footprint, error) {
	attempts := keys / c.keysPerAttempt
	s, err := c.open(attempts)
	if err != nil {
		return footprint{}, err
	}
	before := heap()
	inParallel(attempts, func(_, i int) { s.Attempt(i) })
	grown := float64(heap()) - float64(before)
	n, said := s.Size()
	if n == 0 {
		n = attempts * c.keysPerAttempt
	}
	closeStore(s)
	return footprint{grown / float64(n), float64(said) / float64(n)}, nil
}

func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first only emptied from pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func closeStore(s store) {
	if c, ok := s.(interface{ Close() }); ok {
		c.Close()
	}
	runtime.KeepAlive(s)
}
