package shared

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// BenchmarkAttempt runs the table's rows one by one, for profiles.
func BenchmarkAttempt(b *testing.B) {
	for _, c := range contenders() {
		b.Run(fmt.Sprintf("%s/%d", c.name, c.times), func(b *testing.B) { c.benchmark(b) })
	}
}

func (c contender) benchmark(b *testing.B) {
	s, err := start(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer s.stop()
	opened, err := c.open(b.Context(), s, c.times)
	if err != nil {
		b.Fatal(err)
	}
	defer opened.close()
	var next atomic.Int64
	b.SetParallelism(connections / 2)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := opened.attempt(b.Context(), c.key(int(next.Add(1)-1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "per-second")
}
