package main

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkAttempt is the table's first part one by one, for profiles: -bench
// '/authguard/1000$'.
func BenchmarkAttempt(b *testing.B) {
	for _, c := range contenders() {
		for _, size := range whole.sizes {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) { c.benchmark(b, size) })
		}
	}
}

func (c contender) benchmark(b *testing.B, size int) {
	s, attempts, err := c.full(size)
	if err != nil {
		b.Fatal(err)
	}
	defer closeStore(s)
	var seeds atomic.Uint64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		pick := random(seeds.Add(1) << 32)
		for pb.Next() {
			s.Attempt(pick.below(attempts))
		}
	})
}
