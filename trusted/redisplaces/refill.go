package redisplaces

import (
	"context"
	"fmt"

	"authguard/internal/redisscript"
	"authguard/trusted"
)

// refillAtOnce is how many records go in one round trip.
const refillAtOnce = 100

// Refill writes the records with a privileged place that this node knows where
// Redis has none, since it has lost its memory. A record that is there is left
// alone: another node may know more.
func (s *Store) Refill(ctx context.Context) error {
	records, doubts := s.known.all(), s.Doubts()
	for _, one := range doubts {
		records[one.account] = one.text
	}
	var calls []redisscript.Call
	for account, text := range records {
		calls = append(calls, redisscript.Call{
			Script: replace, Keys: []string{Name(s.prefix, account)}, Args: []any{"", text, s.limits.TTL.Milliseconds()},
		})
		if len(calls) == refillAtOnce {
			if err := redisscript.Run(ctx, s.client, calls); err != nil {
				return fmt.Errorf("redisplaces: refilling: %w", err)
			}
			calls = calls[:0]
		}
	}
	if len(calls) > 0 {
		if err := redisscript.Run(ctx, s.client, calls); err != nil {
			return fmt.Errorf("redisplaces: refilling: %w", err)
		}
	}
	s.epoch.End(ctx)
	for _, one := range doubts {
		s.others.remove(one.account)
		s.known.put(one.account, one.text, 0)
	}
	s.Believe(doubts)
	return nil
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
