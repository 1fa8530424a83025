package sqlplaces

import "authguard/trusted"

// publish puts a record into the cache, or takes an empty one out. The caller
// holds sh.change.
func (s *Store) publish(sh *shard, account trusted.Key, record *trusted.Record) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	s.places.Add(weight(record) - weight(sh.records[account]))
	if weight(record) == 0 {
		delete(sh.records, account)
		return
	}
	sh.records[account] = record
	s.makeRoom(sh, account)
}

// makeRoom drops other accounts of the shard while memory holds too much. Go's
// map order picks them: anything cleverer would cost a write on every Status,
// and a dropped account only costs its next login a query.
func (s *Store) makeRoom(sh *shard, keep trusted.Key) {
	for account, record := range sh.records {
		if s.places.Load() <= int64(s.config.Cache) {
			return
		}
		if account != keep {
			s.whole.Store(false)
			delete(sh.records, account)
			s.places.Add(-weight(record))
		}
	}
}

func weight(record *trusted.Record) int64 {
	if record == nil {
		return 0
	}
	n := int64(len(record.Entries))
	if record.Reset != 0 {
		n++
	}
	return n
}
