package redisstore_test

import (
	"testing"

	"authguard/captchamode"
	"authguard/internal/testing/redistest"
)

// BenchmarkFlush is what a quarter of a second costs Redis and a node.
func BenchmarkFlush(b *testing.B) {
	server := redistest.Standalone(b)
	for name, addresses := range map[string]int{"quiet": 0, "botnet": 208, "flood": 4096} {
		b.Run(name, func(b *testing.B) {
			s := newSite(b, on(server), 3)
			for b.Loop() {
				for range addresses {
					s.nodes[0].mode.Observe(captchamode.Failure, address())
				}
				s.nodes[0].flush(b)
				s.Advance(250e6)
			}
		})
	}
}
