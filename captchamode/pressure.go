package captchamode

import (
	"encoding/binary"
	"fmt"
	"time"
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
// one. It is a statistic, not a limit, so a second's grain will do.
type window struct {
	seconds [windowSeconds + 1]Counts
	sum     Counts
	now     int64 // Unix seconds of the newest bucket
}

// advance lets what is too old fall out.
func (w *window) advance(second int64) {
	if second-w.now > windowSeconds {
		*w = window{now: second}
		return
	}
	for w.now < second {
		w.now++
		old := &w.seconds[w.now%(windowSeconds+1)]
		for s := range old {
			w.sum[s] -= old[s]
		}
		*old = Counts{}
	}
}

func (w *window) add(s Sign, n int) {
	w.seconds[w.now%(windowSeconds+1)][s] += n
	w.sum[s] += n
}

// takeBack removes one sign from the newest bucket that has one.
func (w *window) takeBack(s Sign) {
	for back := range int64(windowSeconds + 1) {
		bucket := &w.seconds[(w.now-back+windowSeconds+1)%(windowSeconds+1)]
		if bucket[s] > 0 {
			bucket[s]--
			w.sum[s]--
			return
		}
	}
}

// shares holds how much each address has contributed in this minute and the
// one before, folded into a fixed table: addresses that fall together share a
// share, so the table can only make the pressure smaller, by an amount that no
// stranger can aim at, since the digests are keyed.
type shares struct {
	generations [2][1 << 14]uint16
	minute      int64
}

// take reports whether the address may contribute once more: at most most
// times in any minute.
func (s *shares) take(address [16]byte, at time.Time, most int) bool {
	minute := at.Unix() / 60
	if minute != s.minute {
		if minute != s.minute+1 {
			clear(s.generations[s.minute&1][:])
		}
		clear(s.generations[minute&1][:])
		s.minute = minute
	}
	slot := binary.LittleEndian.Uint16(address[:]) % uint16(len(s.generations[0]))
	now, before := &s.generations[minute&1][slot], s.generations[(minute+1)&1][slot]
	if int(*now)+int(before) >= most {
		return false
	}
	*now++
	return true
}
