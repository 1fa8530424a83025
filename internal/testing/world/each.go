package world

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"authguard/guard"
	"authguard/internal/testing/redistest"
)

// Each runs a story twice: with everything in memory, and with counters and known clients in a real Redis.
func Each(t *testing.T, o Options, story func(t *testing.T, w *World)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		story(t, New(t, o))
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		over := o
		over.Redis = redistest.Shared(t).Client(t)
		story(t, New(t, over))
	})
}

// Address is the nth of many addresses, each in a network of its own.
func Address(n int) string {
	return netip.AddrFrom4([4]byte{byte(11 + n>>16), byte(n >> 8), byte(n), 9}).String()
}

// Burst does something n times, so many at a time.
func Burst(n, atATime int, do func(i int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range atATime {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n); i = next.Add(1) {
				do(int(i))
			}
		})
	}
	all.Wait()
}

// Used is how many failures of a subject are counted, as explain sees it.
func (w *World) Used(t *testing.T, account, address string, of guard.SubjectKind) int {
	t.Helper()
	e, err := w.Explain(context.Background(), account, netip.MustParseAddr(address))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, l := range e.Lines {
		if l.Subject == of {
			n = max(n, l.Used)
		}
	}
	return n
}
