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

// maxMisses bounds the misses that wait for Redis: during a flood, the first ones suffice.
// missesPerScript is how many one script counts, in 2 to 6 ms.
const (
	maxMisses       = 10_000
	missesPerScript = 50
)

// misses are not yet written to Redis.
type misses struct {
	mu      sync.Mutex
	waiting []report
	many    int // accounts that make a spray
}

// A report is a miss, or takes one back.
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

// giveBack puts back what could not be written. Writing it twice changes nothing.
func (m *misses) giveBack(all []report) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = append(all[:len(all):len(all)], m.waiting...)
	m.waiting = all[:min(len(all), maxMisses)]
}

// corrected reports the typos of an unknown client that has logged in.
func (s *Store) corrected(c *guard.Charge, reply any) {
	values, _ := reply.([]any)
	for i := 1; i < len(values); i++ {
		value, _ := values[i].(int64)
		s.misses.add(c.SprayAccounts, report{c.Miss(c.SprayOf(uint32(value))), true})
	}
}

// Share writes the wrong passwords since the last time, and learns which are used for spraying on
// any node.
func (s *Store) Share(ctx context.Context) error {
	for {
		waiting, many := s.misses.take()
		// One call does both: with two in a pipeline, the second answered before the first if Redis did
		// not know the script.
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

// notify reports the passwords that spray.lua has just found.
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

// sprays reads all that were found: each password, then the rest as text.
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
