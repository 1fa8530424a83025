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

// Places are a Store's places as a trusted.Store.
type Places struct{ *Store }

var _ trusted.Store = Places{}

// Status implements trusted.Store.
func (p Places) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	record, err := p.record(ctx, account)
	return record.Status(place, now, p.limits), err
}

// ResetAt implements trusted.Store.
func (p Places) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	record, err := p.record(ctx, account)
	if err != nil || record.Reset == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(record.Reset), nil
}

// Remember implements trusted.Store.
func (p Places) Remember(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.changePlaces(ctx, account, now, change{remember, place, now.UnixMilli()})
}

// Spend implements trusted.Store.
func (p Places) Spend(ctx context.Context, account, place trusted.Key, now time.Time) error {
	return p.changePlaces(ctx, account, now, change{spend, place, now.UnixMilli()})
}

func (s *Store) record(ctx context.Context, account trusted.Key) (trusted.Record, error) {
	all, err := s.client.ZRangeWithScores(ctx, s.placesKey(account), 0, -1).Result()
	if err != nil {
		return trusted.Record{}, fmt.Errorf("redisstore: reading places: %w", err)
	}
	var r trusted.Record
	for _, z := range all {
		member, _ := z.Member.(string)
		addMember(&r, member, int64(z.Score))
	}
	return r, nil
}

// recordOf reads what charge.lua says of all places.
func recordOf(told any) (r trusted.Record) {
	list, _ := told.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		member, _ := list[i].(string)
		text, _ := list[i+1].(string)
		at, _ := strconv.ParseInt(text, 10, 64)
		addMember(&r, member, at)
	}
	return r
}

func addMember(r *trusted.Record, member string, at int64) {
	if member == "r" {
		r.Reset = at
		return
	}
	e := trusted.Entry{Status: trusted.Privileged, First: at, Last: at}
	if copy(e.Place[:], member) < len(member) {
		e.Status = trusted.Spent
	}
	r.Entries = append(r.Entries, e)
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
