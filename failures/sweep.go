package failures

import (
	"context"
	"time"
)

const (
	sweepAgainAfter = 1000 // ms between two sweeps of one shard for lack of room
	sweepEvery      = 2 * time.Second
	shrinkPercent   = 30 // of the slots: below, a table shrinks
)

// Run removes keys whose last charge is older than Retain, until ctx ends. It visits one shard at a time, and all
// within about ten minutes.
func (m *Memory) Run(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for i := 0; ; i = (i + 1) % len(m.shards) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			m.sweepOne(&m.shards[i])
		}
	}
}

// Sweep removes all expired keys now.
func (m *Memory) Sweep() {
	for i := range m.shards {
		m.sweepOne(&m.shards[i])
	}
}

func (m *Memory) sweepOne(sh *shard) {
	now := uint32(m.clock())
	sh.mu.Lock()
	defer sh.mu.Unlock()
	m.sweep(sh, now)
	slots := max(firstSlots, sh.used*100/nextPercent)
	if len(sh.slots) > firstSlots && sh.used*100 < len(sh.slots)*shrinkPercent {
		m.bytes.Add(int64(slots-len(sh.slots)) * slotBytes)
		sh.resize(slots)
	}
}

// sweep removes a shard's expired keys; the caller holds its lock. Removing moves later slots back, so sweep checks
// the same index again.
func (m *Memory) sweep(sh *shard, now uint32) {
	for i := 0; i < len(sh.slots); {
		s := &sh.slots[i]
		if s.count() != 0 && int64(int32(now-sh.newest(s))) > int64(m.retain.Load()) {
			sh.changed = true
			sh.remove(s)
			continue
		}
		i++
	}
}
