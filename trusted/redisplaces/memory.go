package redisplaces

import (
	"sync"
	"time"

	"authguard/trusted"
)

// Bounds of what a node remembers; beyond them any entry goes.
const (
	maxRecent = 1 << 14
	maxKnown  = 1 << 18
	recentFor = time.Second
)

// recent are the records that were read or written in the last second, so that
// an attack on one account does not ask for it each time.
type recent struct {
	mu      sync.Mutex
	records map[trusted.Key]recently
}

type recently struct {
	record trusted.Record
	at     time.Time
}

func (r *recent) get(account trusted.Key) (trusted.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one, ok := r.records[account]
	if ok && time.Since(one.at) >= recentFor {
		delete(r.records, account)
		ok = false
	}
	return one.record, ok
}

func (r *recent) put(account trusted.Key, record trusted.Record) {
	record = record.Clone()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.records == nil {
		r.records = map[trusted.Key]recently{}
	}
	if _, ok := r.records[account]; !ok && len(r.records) >= maxRecent {
		for any := range r.records {
			delete(r.records, any)
			break
		}
	}
	r.records[account] = recently{record, time.Now()}
}

// known are places that this node has seen to be privileged: what is left to
// go by while Redis does not answer (R22). Only logins add to it.
type known struct {
	mu   sync.Mutex
	when map[knownPlace]time.Time
}

type knownPlace struct{ account, place trusted.Key }

func (k *known) has(account, place trusted.Key, now time.Time, ttl time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.when[knownPlace{account, place}]
	return ok && now.Sub(at) < ttl
}

func (k *known) add(account, place trusted.Key, now time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.when == nil {
		k.when = map[knownPlace]time.Time{}
	}
	if len(k.when) >= maxKnown {
		for any := range k.when {
			delete(k.when, any)
			break
		}
	}
	k.when[knownPlace{account, place}] = now
}

// drop forgets a place; with the zero place all of the account's.
func (k *known) drop(account, place trusted.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if place != (trusted.Key{}) {
		delete(k.when, knownPlace{account, place})
		return
	}
	for one := range k.when {
		if one.account == account {
			delete(k.when, one)
		}
	}
}
