package captchamode

import (
	"encoding/binary"
	"encoding/json"
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
	// Shed is an attempt whose password could not be checked, for overload or
	// because the check broke: where checking passwords is the bottleneck, an
	// attack shows there first.
	Shed
	// Login is an account that logged in, three times in half an hour at most. It is
	// no pressure: it says how busy the site is (R25).
	Login
	signs
)

// Counts are numbers by Sign.
type Counts [signs]int

// MarshalJSON names the numbers.
func (c Counts) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"failures":%d,"unsolved":%d,"shed":%d,"logins":%d}`,
		c[Failure], c[Unsolved], c[Shed], c[Login]), nil
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Counts) UnmarshalJSON(text []byte) error {
	var n struct{ Failures, Unsolved, Shed, Logins int }
	err := json.Unmarshal(text, &n)
	c[Failure], c[Unsolved], c[Shed], c[Login] = n.Failures, n.Unsolved, n.Shed, n.Logins
	return err
}

// Total is the pressure: all signs but logins. A sign that was taken back more
// often than it was counted counts as none.
func (c Counts) Total() int { return max(0, c[Failure]) + max(0, c[Unsolved]) + max(0, c[Shed]) }

func (c Counts) plus(d Counts) Counts {
	for s := range signs {
		c[s] += d[s]
	}
	return c
}

// times is c times a part of it, rounded towards zero.
func (c Counts) times(part float64) Counts {
	for s := range signs {
		c[s] = int(float64(c[s]) * part)
	}
	return c
}

// windowSeconds is how many whole seconds the pressure covers, beside the running
// one. It is a statistic, not a limit: a grain of one second will do.
const windowSeconds = 60

// A Report is what one node has counted, or the sum over all nodes. It is whole
// each time: one that gets lost or arrives twice does no harm.
type Report struct {
	// Pressure is what was counted in the last minute, less what was taken back
	// in it. Another node may have counted that, so numbers may be negative.
	Pressure Counts
	Minute   time.Time // when the running minute began
	Running  Counts    // in the running minute, also what was taken back
	Last     Counts    // in the minute before
	// Mended are pairs that logged in here in the last seconds. The failures
	// before that are no pressure, on whichever node they were counted.
	Mended []Mend
	// Cleared is when a person cleared the pressure last, as far as this node
	// knows. Only reports that agree on it are added up.
	Cleared time.Time
}

// in is what was counted in the minute that began at start, if that is one of
// the two.
func (r *Report) in(start time.Time) Counts {
	switch r.Minute.Sub(start) {
	case 0:
		return r.Running
	case time.Minute:
		return r.Last
	}
	return Counts{}
}

// tells reports whether anything is known of the minute that began at start.
func (r *Report) tells(start time.Time) bool {
	past := r.Minute.Sub(start)
	return past == 0 || past == time.Minute
}

// A window is what was counted in the last seconds.
type window struct {
	Report
	now     int64 // the running second, in Unix time
	seconds [windowSeconds + 1]Counts
}

func (w *window) at(unix int64) *Counts { return &w.seconds[uint64(unix)%uint64(len(w.seconds))] }

// advance lets what is too old fall out. A clock that is set back by less than
// the window goes on in the running second.
func (w *window) advance(now time.Time) {
	unix := now.Unix()
	if unix-w.now > windowSeconds || w.now-unix > windowSeconds {
		w.seconds, w.Pressure, w.now = [windowSeconds + 1]Counts{}, Counts{}, unix
	}
	for w.now < unix {
		w.now++
		w.Pressure = w.Pressure.plus(w.at(w.now).times(-1))
		*w.at(w.now) = Counts{}
	}
	if minute := now.Truncate(time.Minute); !minute.Equal(w.Minute) {
		w.Minute, w.Last, w.Running = minute, w.in(minute.Add(-time.Minute)), Counts{}
	}
}

func (w *window) add(s Sign) {
	w.at(w.now)[s]++
	w.Pressure[s]++
	w.Running[s]++
}

func (w *window) takeBack(s Sign) { w.takeBackOf(s, w.now) }

// takeBackOf takes back what was counted in one of the last seconds, so that it
// makes no room for anything that came later.
func (w *window) takeBackOf(s Sign, unix int64) {
	w.at(unix)[s]--
	w.Pressure[s]--
}

// clear takes all pressure back. Logins stay, and what the plot shows.
func (w *window) clear() {
	for i := range w.seconds {
		w.seconds[i] = Counts{Login: w.seconds[i][Login]}
	}
	w.Pressure = Counts{Login: w.Pressure[Login]}
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

// take reports whether the address may contribute once more: in any
// minute no more often than most, and never more than 65,535 times.
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
	if used := int(one.before) + int(one.now); used >= 1<<16-1 || used > 0 && float64(used+1) > most {
		return false
	}
	one.now++
	return true
}
