package redisplaces

import (
	"context"
	"fmt"
	"time"

	"authguard/internal/redisscript"
	"authguard/trusted"
)

// refillAtOnce is how many records go in one round trip.
const refillAtOnce = 100

// Refill tells a Redis that has lost its memory what this node knows: the
// records with a privileged place, and those of accounts whose places were
// forgotten as a whole. What other nodes have told it already is merged: a reset
// wins over what is older. resets, if not nil, is the time of a reset that was
// written down elsewhere; zero for none.
func (s *Store) Refill(ctx context.Context, resets func(context.Context, trusted.Key) time.Time) error {
	doubts := s.Doubts()
	mine := make(map[trusted.Key]*trusted.Record)
	for account, text := range s.others.all() {
		if record, err := decode(text); err == nil && record.Reset > 0 {
			mine[account] = &record
		}
	}
	for account, text := range s.known.all() {
		if record, err := decode(text); err == nil {
			mine[account] = &record
		}
	}
	for _, one := range doubts {
		if record, err := decode(one.text); err == nil {
			mine[one.account] = &record
		}
	}
	for account, record := range mine {
		if resets == nil {
			break
		}
		if at := resets(ctx, account); !at.IsZero() {
			record.Merge(&trusted.Record{Reset: at.UnixMilli()}, s.limits)
		}
	}
	if err := s.write(ctx, mine); err != nil {
		return err
	}
	s.epoch.End(ctx)
	for _, one := range doubts {
		s.others.remove(one.account)
		s.known.put(one.account, encode(mine[one.account]), 0)
	}
	s.Believe(doubts)
	return nil
}

// write writes records where there are none, and merges them with those that
// are there.
func (s *Store) write(ctx context.Context, records map[trusted.Key]*trusted.Record) error {
	var calls []redisscript.Call
	var of []trusted.Key
	send := func() error {
		if len(calls) == 0 {
			return nil
		}
		if err := redisscript.Run(ctx, s.client, calls); err != nil {
			return fmt.Errorf("redisplaces: refilling: %w", err)
		}
		for i := range calls {
			if _, there := calls[i].Reply.(string); !there {
				continue
			}
			err := s.change(ctx, of[i], func(r *trusted.Record) bool { r.Merge(records[of[i]], s.limits); return true })
			if err != nil {
				return fmt.Errorf("redisplaces: refilling: %w", err)
			}
		}
		calls, of = calls[:0], of[:0]
		return nil
	}
	for account, record := range records {
		calls = append(calls, redisscript.Call{
			Script: replace, Keys: []any{Name(s.prefix, account)}, Args: []any{"", encode(record), s.limits.TTL.Milliseconds()},
		})
		if of = append(of, account); len(calls) == refillAtOnce {
			if err := send(); err != nil {
				return err
			}
		}
	}
	return send()
}

// A Doubt is a record that this node knew and Redis says is gone.
type Doubt struct {
	account trusted.Key
	text    string
}

// Doubts are the records that Refill would bring back although Redis says that
// they are gone.
func (s *Store) Doubts() (doubts []Doubt) {
	for account, text := range s.doubted.all() {
		doubts = append(doubts, Doubt{account, text})
	}
	return doubts
}

// Believe ends doubts: Redis has its memory, so the records are gone.
func (s *Store) Believe(doubts []Doubt) {
	for _, one := range doubts {
		if now, ok := s.doubted.get(one.account); ok && now.text == one.text {
			s.doubted.remove(one.account)
		}
	}
}
