package times

import (
	"encoding/binary"
	"math"
	"time"
)

// A Ring keeps the newest intervals of equal length. Create it with NewRing.
type Ring[T any] struct {
	each  int64 // seconds
	n     int64
	slots []slot[T] // n, or nil before the first interval
}

type slot[T any] struct {
	number int64 // of the interval, since 1970
	value  T
}

// NewRing returns an empty Ring of n intervals, of whole seconds each.
func NewRing[T any](each time.Duration, n int) Ring[T] {
	return Ring[T]{each: int64(each / time.Second), n: int64(n)}
}

// Len returns the number of intervals.
func (r *Ring[T]) Len() int { return int(r.n) }

// At returns the interval of t, new from fresh if needed. A late event counts in the interval that took its slot.
func (r *Ring[T]) At(t time.Time, fresh func() T) *T {
	if r.slots == nil {
		r.slots = make([]slot[T], r.n)
	}
	number := t.Unix() / r.each
	one := &r.slots[number%r.n]
	if one.number < number {
		one.number, one.value = number, fresh()
	}
	return &one.value
}

// Newest calls each for the last n intervals up to now, oldest first, with nil for an empty one.
func (r *Ring[T]) Newest(now time.Time, n int, each func(start time.Time, value *T)) {
	last := now.Unix() / r.each
	for number := last - int64(n) + 1; number <= last; number++ {
		var value *T
		if len(r.slots) > 0 && r.slots[number%r.n].number == number {
			value = &r.slots[number%r.n].value
		}
		each(time.Unix(number*r.each, 0), value)
	}
}

// Counts count names in the running minute and the one before, in 128 KiB. Colliding names share a count. Attackers
// cannot cause collisions if the names are keyed digests. The zero Counts are empty; they are not safe for concurrent
// use.
type Counts [1 << 14]struct {
	minute      uint32
	before, now uint16
}

// Add counts a name in a Unix minute and returns its earlier count. Each name counts once, and then at most `most`
// times in any minute, up to math.MaxUint16.
func (r *Counts) Add(name *[16]byte, minute uint32, most float64) (earlier int, counted bool) {
	one := &r[binary.LittleEndian.Uint16(name[:])%uint16(len(r))]
	switch minute - one.minute {
	case 0:
	case 1:
		one.before, one.now = one.now, 0
	default:
		one.before, one.now = 0, 0
	}
	one.minute = minute
	earlier = int(one.before) + int(one.now)
	if earlier >= math.MaxUint16 || earlier > 0 && float64(earlier+1) > most {
		return earlier, false
	}
	one.now++
	return earlier, true
}
