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

// Total is the pressure: everything together. A sign that was taken back more
// often than it was counted counts as none.
func (c Counts) Total() int { return max(0, c[Failure]) + max(0, c[Unsolved]) + max(0, c[Shed]) }

func (c Counts) plus(d Counts) Counts {
	for s := range signs {
		c[s] += d[s]
	}
	return c
}

// times is c times a part from 0 to 1.
func (c Counts) times(part float64) Counts {
	for s := range signs {
		c[s] = int(float64(c[s]) * part)
	}
	return c
}

const (
	// windowSeconds is how many whole seconds the pressure covers, beside the
	// running one. It is a statistic, not a limit: a grain of one second will
	// do.
	windowSeconds = 60
	// keepSeconds covers the running minute and the one before.
	keepSeconds = 128
)

// A window is what was counted in the last seconds.
type window struct {
	now      int64  // the running second, in Unix time
	pressure Counts // of the last windowSeconds and the running second
	seconds  [keepSeconds]second
}

// A second is what was counted in it, and what of that or of earlier counts was
// taken back.
type second struct{ added, back Counts }

func (w *window) at(unix int64) *second { return &w.seconds[uint64(unix)%keepSeconds] }

// advance lets what is too old fall out. A clock that is set back by less than
// the window goes on in the running second.
func (w *window) advance(unix int64) {
	if unix-w.now >= keepSeconds || w.now-unix > windowSeconds {
		*w = window{now: unix}
	}
	for w.now < unix {
		w.now++
		old := w.at(w.now - windowSeconds - 1)
		for s := range signs {
			w.pressure[s] -= old.added[s] - old.back[s]
		}
		*w.at(w.now) = second{}
	}
}

func (w *window) add(s Sign) {
	w.at(w.now).added[s]++
	w.pressure[s]++
}

func (w *window) takeBack(s Sign) {
	w.at(w.now).back[s]++
	w.pressure[s]--
}

// minute is what was counted in the minute that began at start, as far as it is
// still known. What was taken back stays: the plot shows what happened.
func (w *window) minute(start time.Time) (c Counts) {
	from := start.Unix()
	for unix := max(from, w.now-keepSeconds+1); unix < from+60 && unix <= w.now; unix++ {
		c = c.plus(w.at(unix).added)
	}
	return c
}

// shares holds how much each address has contributed in this minute and the
// one before. Its size is fixed; addresses that fall together have one share
// together. That can only make the pressure smaller, and nobody can aim at it:
// the addresses are keyed digests.
type shares [1 << 14]share

type share struct {
	minute      uint32
	before, now uint16
}

// take reports whether the address may contribute once more: at most most
// times, and never more than 65,535 times, in any minute.
func (s *shares) take(address *[16]byte, most float64, minute uint32) bool {
	one := &s[binary.LittleEndian.Uint16(address[:])%uint16(len(s))]
	switch minute - one.minute {
	case 0:
	case 1:
		one.before, one.now = one.now, 0
	default:
		one.before, one.now = 0, 0
	}
	one.minute = minute
	if used := int(one.before) + int(one.now); used >= 1<<16-1 || float64(used+1) > max(1, most) {
		return false
	}
	one.now++
	return true
}
