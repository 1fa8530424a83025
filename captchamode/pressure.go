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
	now    atomic.Int64 // Unix seconds of the running bucket
	before atomic.Int32 // the total of the other buckets
	_      [64]byte     // what every attempt reads apart from what attempts write
	// stripes are the signs that have yet to be put into the running bucket.
	stripes [stripes]stripe
	// seconds is a ring by Unix second.
	seconds [windowSeconds + 1]bucket
	_       [64]byte
	// news goes with seconds; only a Mode that is one of several uses it.
	news [windowSeconds + 1]passedOn
}

// stripes is how many places there are to count a sign at: one for all would be
// the one cache line for which all cores that count wait.
const stripes = 8

// A stripe counts signs until they are folded into a bucket.
type stripe struct {
	signs atomic.Uint64 // the numbers of all signs, signBits for each
	// most is how many signs there may be before somebody has to look at the
	// total of all stripes.
	most atomic.Int64
	_    [48]byte
}

const (
	signBits = 21
	// mostSigns is when a stripe is folded at the latest: long before a number
	// runs over into the next one.
	mostSigns = 1 << (signBits - 1)
)

// number is how many signs there are in all.
func number(packed uint64) int64 {
	const mask = 1<<signBits - 1
	return int64(packed&mask + packed>>signBits&mask + packed>>(2*signBits)&mask)
}

func unpack(packed uint64) (c Counts) {
	for s := range signs {
		c[s] = int(packed >> (signBits * s) & (1<<signBits - 1))
	}
	return c
}

// A bucket is what was added in one second, what of it was taken back since,
// and what of it has been told to the minutes.
type bucket struct {
	added, back [signs]atomic.Int32
	told        [signs]int32
}

func (b *bucket) count(s Sign) int { return int(b.added[s].Load() - b.back[s].Load()) }

func (b *bucket) total() (n int) {
	for s := range signs {
		n += b.count(s)
	}
	return n
}

func (b *bucket) clear() {
	for s := range signs {
		b.added[s].Store(0)
		b.back[s].Store(0)
		b.told[s] = 0
	}
}

func (w *window) at(second int64) *bucket { return &w.seconds[second%(windowSeconds+1)] }

// advance lets what is too old fall out.
func (w *window) advance(second int64) {
	w.fold()
	now := w.now.Load()
	if second-now > windowSeconds || now-second > windowSeconds {
		now = second - windowSeconds - 1 // every bucket is too old, or the clock was set back
	}
	for now < second {
		now++
		w.at(now).clear()
		w.news[now%(windowSeconds+1)] = passedOn{}
	}
	w.now.Store(now)
	w.settle()
}

// settle works out the total of all buckets but the running one.
func (w *window) settle() {
	running, before := w.at(w.now.Load()), 0
	for i := range w.seconds {
		if b := &w.seconds[i]; b != running {
			before += b.total()
		}
	}
	w.before.Store(int32(before))
}

// add counts one sign. It reports false if the total may be above what watch was
// told last.
func (w *window) add(s Sign, address *[16]byte) (calm bool) {
	at := &w.stripes[address[8]%stripes]
	return number(at.signs.Add(1<<(signBits*s))) <= at.most.Load()
}

// fold puts what the stripes have counted into the running bucket.
func (w *window) fold() {
	running := w.at(w.now.Load())
	for i := range w.stripes {
		at := &w.stripes[i]
		left := at.most.Load()
		at.most.Store(-1) // whoever adds between here and the last line has to look
		c := unpack(at.signs.Swap(0))
		for s := range signs {
			running.added[s].Add(int32(c[s]))
		}
		at.most.Store(max(-1, left-int64(c.Total())))
	}
}

// watch has each stripe count its part of what is left below a total before
// anybody need look at all of them. It reports whether the total is above.
func (w *window) watch(total int) (above bool) {
	for i := range w.stripes {
		w.stripes[i].most.Store(-1)
	}
	w.fold()
	left := total - int(w.before.Load()) - w.at(w.now.Load()).total()
	for i := range w.stripes {
		w.stripes[i].most.Store(int64(min(max(0, left)/stripes, mostSigns)))
	}
	return left < 0
}

// counts is what lies in the window.
func (w *window) counts() (c Counts) {
	w.fold()
	for i := range w.seconds {
		for s := range signs {
			c[s] += w.seconds[i].count(s)
		}
	}
	return c
}

// takeBack removes one sign from the newest bucket that has one. If none has,
// and it may have been counted elsewhere, it counts against the running one.
func (w *window) takeBack(s Sign, elsewhere bool) {
	now := w.now.Load()
	for back := range int64(windowSeconds + 1) {
		if b := w.at(now - back + windowSeconds + 1); b.count(s) > 0 {
			b.back[s].Add(1)
			w.settle()
			return
		}
	}
	if elsewhere {
		w.at(now).back[s].Add(1)
	}
}

// untold is what was added since it was last asked for, also if it was taken
// back since.
func (w *window) untold() (c Counts) {
	w.fold()
	for i := range w.seconds {
		b := &w.seconds[i]
		for s := range signs {
			added := b.added[s].Load()
			c[s] += int(added - b.told[s])
			b.told[s] = added
		}
	}
	return c
}

// shares holds how much each address has contributed in this minute and the
// one before, folded into a fixed table: addresses that fall together share a
// share, so the table can only make the pressure smaller, by an amount that no
// stranger can aim at, since the digests are keyed.
type shares struct {
	minute atomic.Uint32
	table  [TallyBuckets]atomic.Uint64 // minute, what was contributed before it, and in it
}

const (
	shareBits = 16
	shareMask = 1<<shareBits - 1
)

// advance begins a new minute.
func (s *shares) advance(minute int64) { s.minute.Store(uint32(minute)) }

// take reports whether the address may contribute once more: at most most
// times, and never more than 65,535 times, in any minute.
func (s *shares) take(address *[16]byte, most int32) bool {
	minute := s.minute.Load()
	share := &s.table[binary.LittleEndian.Uint16(address[:])%uint16(len(s.table))]
	for {
		was := share.Load()
		before, now := was>>shareBits&shareMask, was&shareMask
		switch uint32(was >> (2 * shareBits)) {
		case minute:
		case minute - 1:
			before, now = now, 0
		default:
			before, now = 0, 0
		}
		if before+now >= uint64(min(most, shareMask)) {
			return false
		}
		if share.CompareAndSwap(was, uint64(minute)<<(2*shareBits)|before<<shareBits|(now+1)) {
			return true
		}
	}
}
