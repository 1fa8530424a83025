package captchamode

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
)

// A Sign is one thing that adds to the pressure on a site.
type Sign uint8

const (
	// Failure is a wrong password.
	Failure Sign = iota
	// Unsolved is an attempt that was asked for a challenge: an attack that
	// runs into the CAPTCHA still counts.
	Unsolved
	// Shed is an attempt turned away for overload: where checking passwords is
	// the bottleneck, an attack shows there first.
	Shed
	signs
)

// Counts are numbers by Sign.
type Counts [signs]int

// MarshalJSON names the numbers.
func (c Counts) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"failures":%d,"unsolved":%d,"shed":%d}`, c[Failure], c[Unsolved], c[Shed]), nil
}

// Total is the pressure: everything together.
func (c Counts) Total() int { return c[Failure] + c[Unsolved] + c[Shed] }

const windowSeconds = 60

// A window is what was counted in the last 60 whole seconds and the running
// one. It is a statistic, not a limit, so a second's grain will do. Adding is
// safe at any time; the rest is under the Mode's lock.
type window struct {
	seconds [windowSeconds + 1][signs]atomic.Int32
	sum     [signs]atomic.Int32
	now     atomic.Int64 // Unix seconds of the newest bucket
}

// advance lets what is too old fall out.
func (w *window) advance(second int64) {
	now := w.now.Load()
	if second-now > windowSeconds {
		now = second - windowSeconds - 1 // every bucket is too old
	}
	for now < second {
		now++
		old := &w.seconds[now%(windowSeconds+1)]
		for s := range old {
			w.sum[s].Add(-old[s].Swap(0))
		}
	}
	w.now.Store(now)
}

func (w *window) add(s Sign) {
	w.seconds[w.now.Load()%(windowSeconds+1)][s].Add(1)
	w.sum[s].Add(1)
}

// counts is what lies in the window.
func (w *window) counts() (c Counts) {
	for s := range c {
		c[s] = int(w.sum[s].Load())
	}
	return c
}

// takeBack removes one sign from the newest bucket that has one.
func (w *window) takeBack(s Sign) {
	now := w.now.Load()
	for back := range int64(windowSeconds + 1) {
		bucket := &w.seconds[(now-back+windowSeconds+1)%(windowSeconds+1)][s]
		if n := bucket.Load(); n > 0 && bucket.CompareAndSwap(n, n-1) {
			w.sum[s].Add(-1)
			return
		}
	}
}

// shares holds how much each address has contributed in this minute and the
// one before, folded into a fixed table: addresses that fall together share a
// share, so the table can only make the pressure smaller, by an amount that no
// stranger can aim at, since the digests are keyed.
type shares struct {
	generations [2]atomic.Pointer[shareTable]
	minute      atomic.Int64
}

type shareTable [1 << 14]atomic.Int32

// advance begins the table of a new minute. It is under the Mode's lock. A new
// table is less work than to empty an old one. The first call comes before the
// first take.
func (s *shares) advance(minute int64) {
	now := s.minute.Load()
	if minute <= now && s.generations[0].Load() != nil {
		return
	}
	if minute != now+1 || s.generations[0].Load() == nil {
		s.generations[(minute+1)&1].Store(new(shareTable))
	}
	s.generations[minute&1].Store(new(shareTable))
	s.minute.Store(minute)
}

// take reports whether the address may contribute once more: at most most
// times in any minute.
func (s *shares) take(address *[16]byte, most int32) bool {
	minute := s.minute.Load()
	slot := binary.LittleEndian.Uint16(address[:]) % (1 << 14)
	now, before := &s.generations[minute&1].Load()[slot], &s.generations[(minute+1)&1].Load()[slot]
	if now.Add(1)+before.Load() > most {
		now.Add(-1)
		return false
	}
	return true
}
