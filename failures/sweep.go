package failures

import (
	"context"
	"time"
)

const (
	sweepAgainAfter = 1000 // ms between two sweeps of one shard for want of room
	sweepEvery      = 2 * time.Second
	shrinkPercent   = 30 // of the slots: below, a table shrinks
)

// Run sweeps keys whose last charge is older than Retain, a shard at a time and
// the whole store about once in ten minutes, until ctx ends.
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

// Sweep drops every dead key now.
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

// sweep drops the dead keys of a shard whose lock is held. Removing moves
// later slots back, so the same place is looked at again.
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
