package main

import (
	"runtime"
)

// A footprint is the memory of one key that failed once.
type footprint struct {
	heap float64 // bytes that the heap grew by
	said float64 // bytes by the store's own account; 0 if it gives none
}

// weigh fills a store and sees how much the heap grew. Its inputs are made
// before: they are not the store's.
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
