package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"authguard/trusted"
)

// What places.lua can do.
const (
	remember    = "remember"
	spend       = "spend"
	forget      = "forget"
	reset       = "reset"
	mergePlace  = "merge"
	mergeSpent  = "merge-spent"
	mergeResets = "merge-reset"
)

// A change of an account's places, at a time in milliseconds.
type change struct {
	what  string
	place trusted.Key
	at    int64
}

// recordOf reads what charge.lua says of all places.
func recordOf(told any) (r trusted.Record) {
	list, _ := told.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		member, _ := list[i].(string)
		score, _ := list[i+1].(string)
		at, _ := strconv.ParseInt(score, 10, 64)
		e := trusted.Entry{Status: trusted.Privileged, First: at, Last: at}
		switch {
		case member == "r":
			r.Reset = at
			continue
		case copy(e.Place[:], member) < len(member):
			e.Status = trusted.Spent
		}
		r.Entries = append(r.Entries, e)
	}
	return r
}

// merge takes in another copy of what is known of an account's places.
func (s *Store) merge(ctx context.Context, account trusted.Key, record *trusted.Record, now time.Time) error {
	changes := []change{{what: mergeResets, at: record.Reset}}
	entries := slices.Clone(record.Entries)
	slices.SortFunc(entries, func(a, b trusted.Entry) int { return int(a.Last - b.Last) })
	for _, e := range entries {
		what := mergePlace
		if e.Status == trusted.Spent {
			what = mergeSpent
		}
		changes = append(changes, change{what, e.Place, e.Last})
	}
	return s.changePlaces(ctx, account, now, changes...)
}

func (s *Store) changePlaces(ctx context.Context, account trusted.Key, now time.Time, changes ...change) error {
	for _, one := range changes {
		needs := one.what != reset && one.what != mergeResets
		if account == (trusted.Key{}) || needs && one.place == (trusted.Key{}) {
			return trusted.ErrNoKey
		}
	}
	if err := run(ctx, s.batcher.enqueue, s.changing(account, now, changes...)); err != nil {
		return fmt.Errorf("redisstore: changing places: %w", err)
	}
	s.known.accounts.Remove(account)
	return nil
}

func (s *Store) changing(account trusted.Key, now time.Time, changes ...change) *call {
	c := &call{script: placesScript, keys: []any{s.placesKey(account)}}
	c.args = append(c.args, s.since(now), s.limits.TTL.Milliseconds(), s.limits.Places, trusted.MaxSpent)
	for i := range changes {
		c.args = append(c.args, changes[i].what, changes[i].place[:], changes[i].at)
	}
	return c
}

// since is when a place was last used that has just expired.
func (s *Store) since(now time.Time) int64 { return now.Add(-s.limits.TTL).UnixMilli() }
