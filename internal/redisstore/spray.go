package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"authguard/failures"
	"authguard/guard"
)

// maxMisses bounds what waits to be told to Redis: more is a flood, and the
// first of it will do. missesPerScript is how many one script counts.
const (
	maxMisses       = 10_000
	missesPerScript = 200
)

// misses are those that Redis has yet to be told.
type misses struct {
	mu      sync.Mutex
	waiting []report
	many    int // accounts that make a spray
}

// A told miss is counted, or taken back.
type report struct {
	failures.Miss
	back bool
}

func (m *misses) add(many int, all ...report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.many = many
	m.waiting = append(m.waiting, all[:min(len(all), max(0, maxMisses-len(m.waiting)))]...)
}

func (m *misses) take() (all []report, many int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := min(len(m.waiting), missesPerScript)
	all, m.waiting = m.waiting[:n:n], m.waiting[n:]
	return all, m.many
}

// giveBack puts what Redis could not be told before what came since. If it was told
// all the same, to be told twice changes nothing.
func (m *misses) giveBack(all []report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = append(all[:len(all):len(all)], m.waiting...)
	m.waiting = all[:min(len(all), maxMisses)]
}

// corrected notes that a stranger has logged in after all: what failed from the
// place before was mistyped.
func (s *Store) corrected(c *guard.Charge, reply any) {
	values, _ := reply.([]any)
	for i := 1; i < len(values); i++ {
		value, _ := values[i].(int64)
		s.misses.add(c.SprayAccounts, report{c.Miss(c.SprayOf(uint32(value))), true})
	}
}

// Share tells Redis which passwords were wrong since the last time, and learns
// which are sprayed, over all nodes.
func (s *Store) Share(ctx context.Context) error {
	for {
		waiting, many := s.misses.take()
		// One call does both. As two in one pipeline the answer was that of before,
		// whenever Redis did not know the script and only that was sent again.
		count := &call{script: sprayScript, keys: s.sprayKeys(), args: []any{s.minute(), many, failures.SprayShare(many),
			failures.MaxSprays}}
		for _, one := range waiting {
			what := "miss"
			if one.back {
				what = "back"
			}
			for _, m := range one.Counted() {
				count.args = append(count.args, what, failures.SprayBucket(m.Value), m.Value, m.Account, m.Network, m.Of)
			}
		}
		if err := run(ctx, direct(s.client), count); err != nil {
			s.misses.giveBack(waiting)
			return fmt.Errorf("redisstore: sharing what is sprayed: %w", err)
		}
		if answer, _ := count.reply.([]any); len(answer) == 2 {
			s.notify(answer[0])
			s.options.Sprays.Adopt(sprays(answer[1]))
		}
		if len(waiting) < missesPerScript {
			return nil
		}
	}
}

// report tells of what spray.lua has found to tell.
func (s *Store) notify(reply any) {
	all, _ := reply.([]any)
	for _, one := range all {
		list, _ := one.([]any)
		if len(list) < 5 || s.options.OnSpray == nil {
			continue
		}
		var n [5]int64
		for i := range n {
			n[i], _ = list[i].(int64)
		}
		s.options.OnSpray(spray(n))
	}
}

// sprays reads all that are sprayed: each password, then the rest as text.
func sprays(reply any) (all []failures.Spray) {
	found, _ := reply.([]any)
	for i := 0; i+1 < len(found); i += 2 {
		var n [5]int64
		n[0], _ = strconv.ParseInt(fmt.Sprint(found[i]), 10, 64)
		if _, err := fmt.Sscan(fmt.Sprint(found[i+1]), &n[1], &n[2], &n[3], &n[4]); err == nil {
			all = append(all, spray(n))
		}
	}
	return all
}

func spray(n [5]int64) failures.Spray {
	return failures.Spray{
		Value: uint32(n[0]), Since: time.Unix(60*n[1], 0), Until: time.Unix(60*n[2], 0), Accounts: int(n[3]),
		Networks: int(n[4]),
	}
}

func (s *Store) minute() any {
	if s.options.Clock == nil {
		return ""
	}
	return s.options.Clock().Unix() / 60
}
