package redisfailures

import (
	"errors"
	"math/bits"

	"authguard/failures"
)

// A charge at two places of a cluster is stamped by two clocks, and has to be
// found by both stamps. A Moment therefore has above its time, which is the
// stamp of one of the places, how far the other's is from it:
//
//	difference + 8192 (14 bits) | deciding bit (7) | time in milliseconds (42)
//
// The deciding bit is the first in which the digests of the two places differ;
// the time belongs to the place that has a 0 there. So each place finds its
// stamp by itself, however many of the subjects a caller brings. With equal
// stamps, always so with one server, a Moment is its time and nothing else.
const (
	timeBits     = 42
	decidingBits = 7
	farthest     = 1<<13 - 1 // milliseconds
)

// errClocks means that a charge could not be given one moment.
var errClocks = errors.New("redisfailures: the clocks of two Redis servers differ by more than 8 seconds " +
	"(or three places were charged at once); set the servers' clocks by NTP")

// A stamp is when a place was charged, by its own server's clock.
type stamp struct {
	place failures.Key
	at    int64 // milliseconds since the Unix epoch
}

// momentOf makes one moment of the stamps of all places. ok is false if that
// cannot be done.
func momentOf(stamps []stamp) (at failures.ChargeID, ok bool) {
	if len(stamps) == 0 {
		return 0, true
	}
	first, equal := stamps[0], true
	for _, s := range stamps[1:] {
		equal = equal && s.at == first.at
	}
	if equal {
		return failures.ChargeID(first.at), true
	}
	if len(stamps) != 2 {
		return 0, false
	}
	zero, one := first, stamps[1]
	bit, found := differAt(zero.place, one.place)
	if !found {
		return 0, false
	}
	if hasBit(zero.place, bit) {
		zero, one = one, zero
	}
	difference := one.at - zero.at
	if difference < -farthest || difference > farthest {
		return 0, false
	}
	return failures.ChargeID((difference+farthest+1)<<(timeBits+decidingBits) | int64(bit)<<timeBits | zero.at), true
}

// stampOf is the stamp that a moment has at a place.
func stampOf(at failures.ChargeID, place failures.Key) int64 {
	ms := int64(at) & (1<<timeBits - 1)
	difference := int64(at) >> (timeBits + decidingBits)
	if difference == 0 {
		return ms
	}
	if bit := int(at>>timeBits) & (1<<decidingBits - 1); hasBit(place, bit) {
		ms += difference - farthest - 1
	}
	return ms
}

// differAt is the first bit in which two digests differ.
func differAt(a, b failures.Key) (bit int, found bool) {
	for i := range a {
		if d := a[i] ^ b[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d), true
		}
	}
	return 0, false
}

func hasBit(k failures.Key, bit int) bool { return k[bit/8]>>(7-bit%8)&1 == 1 }
