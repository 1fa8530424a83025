package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"authguard/bench/integrations"
	"authguard/bench/proxy"
	"authguard/bench/wrk"
)

// Every scene of the integrations can be measured.
func TestEveryIntegrationIsMeasured(t *testing.T) {
	p := wrk.Plan{Rounds: 1, Takes: time.Second}
	measured := func(what string, figures ...wrk.Figures) {
		t.Logf("%s: %.1f", what, figures)
		for _, f := range figures {
			if f.Rate <= 0 || f.Share <= 0 || f.CPU <= 0 {
				t.Errorf("%s: %+v", what, f)
			}
		}
	}
	login, err := integrations.Login(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	api, err := integrations.API(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range append(login, api...) {
		measured(r.Scene, r.Ours, r.Bare)
	}
	rows, err := proxy.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		measured(r.Scene, r.Ways...)
	}
}

// BenchmarkAttempt runs the contenders in memory one by one, for profiles: -bench
// 'Attempt/authguard/1000$'.
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
