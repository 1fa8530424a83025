package redisfailures

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"authguard/failures"
)

const (
	decidedShards = 16
	decidedMost   = 4096 // in each of a shard's two maps: some 8 MB in all
)

// decided remembers which charges this node knows to have failed, for as long
// as they would otherwise pass for undecided. It is bounded; what it drops
// costs an attempt a wait and nothing else.
type decided struct{ shards [decidedShards]decidedShard }

// A shard has two maps. When the young one is full or old enough, it becomes
// the old one.
type decidedShard struct {
	mu         sync.Mutex
	young, old map[charge]uint16
	since      time.Time // when young was begun
}

// A charge is one or more charges of a key with the same stamp. Two keys are one
// here once in 2⁶⁴ times, and nobody can aim at that: they are keyed digests.
type charge uint64

func chargeOf(key failures.Key, stamp uint32) charge {
	return charge(binary.LittleEndian.Uint64(key[8:]) ^ uint64(stamp)*0x9e3779b97f4a7c15)
}

func newDecided() *decided {
	d := new(decided)
	for i := range d.shards {
		d.shards[i].young = make(map[charge]uint16)
	}
	return d
}

func (d *decided) shard(key failures.Key) *decidedShard { return &d.shards[key[0]%decidedShards] }

// add remembers that one charge failed, for at least age milliseconds unless
// there are too many.
func (d *decided) add(key failures.Key, stamp uint32, now time.Time, age int64) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if len(sh.young) >= decidedMost || now.Sub(sh.since).Milliseconds() > age {
		sh.old, sh.young, sh.since = sh.young, make(map[charge]uint16), now
	}
	sh.young[chargeOf(key, stamp)]++
}

// forget forgets a key's charges, which are no longer there: another one may
// get the same stamp.
func (d *decided) forget(key failures.Key, charges []uint32) {
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for _, stamp := range charges {
		delete(sh.young, chargeOf(key, stamp))
		delete(sh.old, chargeOf(key, stamp))
	}
}

// undecided is how many of a key's charges are young and not known to have
// failed.
func (d *decided) undecided(key failures.Key, charges []uint32, now, pendingFor uint32) (n int) {
	d.each(key, charges, now, pendingFor, func(same []uint32, failed int) { n += len(same) - failed })
	return n
}

// certain are a key's charges without those that are undecided.
func (d *decided) certain(key failures.Key, charges []uint32, now, pendingFor uint32) []uint32 {
	young := firstYoung(charges, now, pendingFor)
	certain := slices.Clone(charges[:young])
	d.each(key, charges, now, pendingFor, func(same []uint32, failed int) { certain = append(certain, same[:failed]...) })
	return certain
}

// each tells of the young charges of a key, those with the same stamp together,
// and how many of them are known to have failed.
func (d *decided) each(key failures.Key, charges []uint32, now, pendingFor uint32, tell func(same []uint32, failed int)) {
	young := charges[firstYoung(charges, now, pendingFor):]
	if len(young) == 0 {
		return
	}
	sh := d.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for len(young) > 0 {
		same := 1
		for same < len(young) && young[same] == young[0] {
			same++
		}
		tell(young[:same], min(sh.failed(chargeOf(key, young[0])), same))
		young = young[same:]
	}
}

func (sh *decidedShard) failed(one charge) int {
	n := int(sh.young[one])
	if len(sh.old) > 0 {
		n += int(sh.old[one])
	}
	return n
}

// firstYoung is where the charges begin that may yet be taken back.
func firstYoung(charges []uint32, now, pendingFor uint32) int {
	young := len(charges)
	for young > 0 && now-charges[young-1] <= pendingFor {
		young--
	}
	return young
}
