package redisfailures

import (
	"encoding/binary"
	"time"
	"unsafe"

	"authguard/failures"
)

// A reading is when and in which epoch something was read: when this node sent
// the question, so that Redis's time is never later than it is guessed.
type reading struct {
	sent  time.Time
	epoch uint64
}

func (s *Store) reading() reading {
	number, _ := s.epoch.Now()
	return reading{sent: s.now(), epoch: number}
}

// stand writes into out what a script told of a subject: a number if nothing
// is full, or all its charges, oldest first.
func (s *Store) stand(subject *failures.Subject, told any, at int64, read reading, out *failures.Usage) {
	if count, few := told.(int64); few {
		*out = failures.Usage{Count: min(int(count), subject.Ladder.Keep())}
		return
	}
	text, _ := told.(string) // nothing, if the key is not there
	charges := chargesOf(text)
	pending := uint32(s.pending.Load())
	subject.Stand(charges, uint32(at), s.decided.undecided(subject.Key, charges, uint32(at), pending), out)
	if out.Failed&subject.Bind != 0 {
		certain := s.decided.certain(subject.Key, charges, uint32(at), pending)
		s.closed.put(subject, shut{charges: certain, at: at, reading: read})
	}
}

// chargesOf reads a key's value.
func chargesOf(text string) []uint32 {
	charges := make([]uint32, len(text)/4)
	bytes := unsafe.Slice(unsafe.StringData(text), len(text))
	for i := range charges {
		charges[i] = binary.LittleEndian.Uint32(bytes[4*i:])
	}
	return charges
}

// notBefore is now, or the newest charge if the clock went back: a charge is
// never in the future.
func notBefore(charges []uint32, now int64) int64 {
	if len(charges) == 0 {
		return now
	}
	return now + int64(max(int32(charges[len(charges)-1]-uint32(now)), 0))
}
