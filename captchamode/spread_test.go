package captchamode_test

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"authguard/captchamode"
)

// ninety is a mode that goes on above 90 signs a minute, and slows above 30.
func ninety(t *testing.T) *captchamode.Mode {
	t.Helper()
	c := captchamode.DefaultConfig()
	c.ThresholdMin = 90
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(c, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func from(n int, of uint64) (address [16]byte) {
	binary.LittleEndian.PutUint64(address[:], uint64(n))
	binary.LittleEndian.PutUint64(address[8:], of)
	return address
}

// Whichever signs come from wherever, the one that crosses a threshold switches.
func TestR20EverySpreadOfSignsSwitchesAtTheThreshold(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r, m := rand.New(rand.NewPCG(seed, 0)), ninety(t)
		slowAt, onAt := int(m.State().SlowAt), int(m.State().Threshold)
		kinds, places := 1+r.IntN(3), 1+r.Uint64N(20)
		for n := 1; n <= onAt+20; n++ {
			m.Observe(captchamode.Sign(r.IntN(kinds)), from(n, r.Uint64N(places)))
			if m.Throttling() != (n > slowAt) || m.On() != (n > onAt) {
				t.Fatalf("seed %d: after %d signs slowing is %v, above %d, and the mode on %v, above %d",
					seed, n, m.Throttling(), slowAt, m.On(), onAt)
			}
			if r.IntN(10) == 0 {
				m.State() // looking changes nothing
			}
		}
		if total := m.State().FailureRate.Total(); total != onAt+20 {
			t.Fatalf("seed %d: %d signs were counted of %d", seed, total, onAt+20)
		}
	}
}

func TestR20SignsAtOnceSwitchAtTheThreshold(t *testing.T) {
	t.Parallel()
	for range 50 {
		m := ninety(t)
		onAt := int(m.State().Threshold)
		var all sync.WaitGroup
		for i := range onAt {
			all.Go(func() { m.Observe(captchamode.Sign(i%3), from(i, uint64(i))) })
		}
		for range 5 {
			all.Go(m.Tick)
		}
		all.Wait()
		if m.On() {
			t.Fatalf("on after %d signs", onAt)
		}
		if m.Observe(captchamode.Failure, from(onAt, 0)); !m.On() {
			t.Fatalf("not on after %d signs, one more than the threshold", onAt+1)
		}
	}
}

// However far the threshold is, each sign is counted as what it is.
func TestManySignsInASecondAreCounted(t *testing.T) {
	t.Parallel()
	c := captchamode.DefaultConfig()
	c.ThresholdMin, c.ThresholdMax = 1e9, 1e9
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	m, err := captchamode.NewMode(c, func() time.Time { return now }, nil)
	if err != nil {
		t.Fatal(err)
	}
	const many = 1 << 20
	for n := range many {
		m.Observe(captchamode.Failure, from(n, 0))
	}
	if p := m.State().FailureRate; p[captchamode.Failure] != many || p.Total() != many {
		t.Errorf("%v of %d failures", p, many)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	m := ninety(t)
	n := 0
	if got := testing.AllocsPerRun(20, func() { n++; m.Observe(captchamode.Failure, from(n, 0)) }); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkObserve(b *testing.B) {
	c := captchamode.DefaultConfig()
	c.ThresholdMin, c.ThresholdMax = 1e9, 1e9
	m, err := captchamode.NewMode(c, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		m.Observe(captchamode.Failure, from(n, 0))
	}
}
