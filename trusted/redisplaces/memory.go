package redisplaces

import (
	"sync"

	"authguard/trusted"
)

const memoryShards = 32

// A memory keeps records as they lie in Redis, a bounded number of them.
type memory struct {
	room   int // in each shard
	shards [memoryShards]memoryShard
}

type memoryShard struct {
	mu      sync.RWMutex
	records map[trusted.Key]heard
}

// heard is a record and the epoch in which it was read.
type heard struct {
	text  string
	epoch uint64
}

func newMemory(records int) *memory {
	m := &memory{room: max(records/memoryShards, 1)}
	for i := range m.shards {
		m.shards[i].records = make(map[trusted.Key]heard)
	}
	return m
}

func (m *memory) shard(account trusted.Key) *memoryShard {
	return &m.shards[(account[0]^account[15])%memoryShards]
}

// get is what was last heard of an account.
func (m *memory) get(account trusted.Key) (h heard, ok bool) {
	sh := m.shard(account)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	h, ok = sh.records[account]
	return h, ok
}

// put keeps a record. At the bound Go's map order picks one that goes.
func (m *memory) put(account trusted.Key, text string, epoch uint64) {
	sh := m.shard(account)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	_, there := sh.records[account]
	for other := range sh.records {
		if there || len(sh.records) < m.room {
			break
		}
		delete(sh.records, other)
	}
	sh.records[account] = heard{text, epoch}
}

func (m *memory) remove(account trusted.Key) {
	sh := m.shard(account)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	delete(sh.records, account)
}

// all copies every record.
func (m *memory) all() map[trusted.Key]string {
	records := make(map[trusted.Key]string)
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.RLock()
		for account, h := range sh.records {
			records[account] = h.text
		}
		sh.mu.RUnlock()
	}
	return records
}
