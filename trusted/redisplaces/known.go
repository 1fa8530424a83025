package redisplaces

import (
	"time"

	"authguard/trusted"
)

// Known tells what a place was to an account when this node last heard of it:
// the answer for when Redis does not give one (R22). A place that it never
// heard of is a stranger. Another node may have ended the privilege since.
func (s *Store) Known(account, place trusted.Key, now time.Time) trusted.Status {
	record := s.knownRecord(account)
	return record.Status(place, now, s.limits)
}

// KnownSince is Known for an account whose places were all forgotten at a time,
// as somebody else says: what was last used before that is a stranger's.
func (s *Store) KnownSince(account, place trusted.Key, now, reset time.Time) trusted.Status {
	last := s.knownRecord(account)
	record := last.Clone()
	record.Merge(&trusted.Record{Reset: reset.UnixMilli()}, s.limits)
	return record.Status(place, now, s.limits)
}

// KnownReset is what ResetAt would have said when this node last heard of the
// account; zero if it never did.
func (s *Store) KnownReset(account trusted.Key) time.Time {
	record := s.knownRecord(account)
	return resetTime(&record)
}

// Heard keeps what a script that read the record saw: text as it lies in
// Redis, and the number that Epoch gave before.
func (s *Store) Heard(account trusted.Key, text string, epoch uint64) {
	if record, err := decode(text); err == nil {
		s.remember(account, text, &record, epoch)
	}
}

// Epoch is the number to hand to Heard; take it before the script is sent.
func (s *Store) Epoch() uint64 {
	number, _ := s.epoch.Now()
	return number
}

// Fresh tells what a place is to an account if this node knows it, at most a
// second behind what other nodes did.
func (s *Store) Fresh(account, place trusted.Key, now time.Time) (status trusted.Status, ok bool) {
	text, fresh := s.fresh(account)
	if !fresh {
		return trusted.Stranger, false
	}
	record, err := decode(text)
	return record.Status(place, now, s.limits), err == nil
}

func (s *Store) knownRecord(account trusted.Key) trusted.Record {
	last, doubted := s.doubted.get(account)
	if !doubted {
		last, _ = s.recall(account)
	}
	record, _ := decode(last.text) // it was read before
	return record
}

// fresh is a record that may still be believed.
func (s *Store) fresh(account trusted.Key) (text string, ok bool) {
	number, fresh := s.epoch.Now()
	if !fresh {
		return "", false
	}
	last, ok := s.recall(account)
	return last.text, ok && last.epoch == number
}

// recall is the last that was heard of an account.
func (s *Store) recall(account trusted.Key) (last heard, ok bool) {
	if last, ok = s.known.get(account); !ok {
		last, ok = s.others.get(account)
	}
	return last, ok
}

// remember keeps a record that was read or written in an epoch. Made-up names
// cannot push out accounts with privileged places: they are kept apart.
func (s *Store) remember(account trusted.Key, text string, r *trusted.Record, epoch uint64) {
	if last, ok := s.recall(account); ok && last.epoch > epoch {
		return // an answer that comes late
	}
	keep, drop := s.others, s.known
	for i := range r.Entries {
		if r.Entries[i].Status == trusted.Privileged {
			keep, drop = s.known, s.others
		}
	}
	if last, ok := s.known.get(account); ok && text == "" {
		s.doubted.put(account, last.text, last.epoch)
	} else if text != "" {
		s.doubted.remove(account)
	}
	drop.remove(account)
	keep.put(account, text, epoch)
}

// amend applies a rule to what is remembered, and to nothing else.
func (s *Store) amend(account trusted.Key, apply func(*trusted.Record) bool) {
	record := s.knownRecord(account)
	apply(&record)
	s.remember(account, encode(&record), &record, s.Epoch())
}
