package failures

import "time"

// moments are the times of a key's charges, oldest first, as the low 32 bits of Unix milliseconds. Differences are
// modulo 2³², so the sweeper removes charges long before they are 49 days old.
type moments []uint32

// within returns the number of charges in the closed window before now.
func (m moments) within(now, window uint32) int {
	if len(m) == 0 || now-m[0] <= window {
		return len(m)
	}
	low, high := 1, len(m)
	for low < high {
		mid := int(uint(low+high) / 2)
		if now-m[mid] > window {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return len(m) - low
}

// full reports whether n charges lie in the closed window before now, and in how many milliseconds the oldest leaves
// it.
func (m moments) full(now uint32, n int, window uint32) (in uint32, full bool) {
	if n <= 0 || len(m) < n {
		return 0, false
	}
	age := now - m[len(m)-n]
	return window - age + 1, age <= window
}

func (m moments) since(then uint32) (n int) {
	for n < len(m) && int32(m[len(m)-1-n]-then) > 0 {
		n++
	}
	return n
}

// backedOff returns the milliseconds until the next charge is due, without the newest skip charges; 0 if it is due
// now. Only the newest fresh charges count.
func (m moments) backedOff(p Backoff, now uint32, fresh, skip int) uint32 {
	if p.First == 0 || min(len(m), fresh) <= skip {
		return 0
	}
	rest := m[:len(m)-skip]
	delay := millis(p.Delay(min(fresh-skip, rest.within(now, millis(p.Window)))))
	age := now - rest[len(rest)-1]
	if age >= delay {
		return 0
	}
	return delay - age
}

// usage evaluates the limits and the backoff. fresh is the number of newest charges that count for the backoff. Up to
// pending charges are undecided, and none is so for longer than pendingFor. usage returns the milliseconds until
// every binding limit has room.
func (m moments) usage(s *Subject, now uint32, fresh, pending int, pendingFor uint32, out *Usage) (free uint32) {
	*out = Usage{Count: int32(min(m.within(now, s.Limits.longest), s.Limits.keep))}
	if len(m) < s.Limits.quiet {
		return 0
	}
	undecided, strict := 0, uint32(0)
	if pending > 0 {
		undecided = min(pending, m.within(now, pendingFor))
	}
	for i, r := range s.Limits.limits {
		window := s.Limits.windows[i]
		in, full := m.full(now, r.Failures, window)
		if !full {
			continue
		}
		out.Over |= 1 << i
		if undecided == 0 {
			out.Failed |= 1 << i
		} else if _, still := m.full(now, r.Failures+undecided, window); still {
			out.Failed |= 1 << i
		}
		if s.Bind.Has(i) {
			free = max(free, in)
			if r.Strict {
				strict = max(strict, in)
			}
		}
	}
	if in := m.backedOff(s.Limits.backoff, now, fresh, 0); in > 0 {
		out.Over |= BackoffBit
		if undecided == 0 || m.backedOff(s.Limits.backoff, now, fresh, undecided) > 0 {
			out.Failed |= BackoffBit
		}
		if s.Bind&BackoffBit != 0 {
			free = max(free, in)
		}
	}
	if strict > 0 {
		return strict
	}
	return free
}

func millis(d time.Duration) uint32 { return uint32(d / time.Millisecond) }

// The functions below let stores in other packages evaluate their charges by the same rules.

// Keep returns how many of a key's newest charges these limits, the backoff and earlier limits (Keeping) need.
func (l *Limits) Keep() int { return l.keep }

// Since returns how many charges are later than the reset of the backoff.
func Since(charges []uint32, cleared uint32) int { return moments(charges).since(cleared) }

// Use evaluates a key's charges into out. charges are oldest first, each the low 32 bits of its Unix milliseconds,
// and so is now. The newest fresh charges count for the backoff (see Since). undecided charges are neither failed nor
// older than the longest password check.
func (s *Subject) Use(charges []uint32, now uint32, fresh, undecided int, out *Usage) {
	m := moments(charges)
	free := m.usage(s, now, fresh, undecided, millis(MaxWindow), out)
	if out.Over&s.Bind != 0 {
		out.FreeIn = time.Duration(free) * time.Millisecond
	}
}

// Fills reports whether one more charge at now fills a limit or the backoff that is not in over.
func (s *Subject) Fills(charges []uint32, now uint32, fresh int, over Mask) bool {
	var after Usage
	m := append(moments(nil), charges...)
	append(m, now).usage(s, now, fresh+1, 0, 0, &after)
	return after.Over&^over != 0
}

// Tally evaluates each limit and the backoff individually into out.
func (s *Subject) Tally(charges []uint32, now uint32, fresh int, out *Used) {
	m := moments(charges)
	for i, r := range s.Limits.limits {
		out[i] = LimitUse{Charges: m.within(now, s.Limits.windows[i])}
		if in, full := m.full(now, r.Failures, s.Limits.windows[i]); full {
			out[i].FreeIn = time.Duration(in) * time.Millisecond
		}
	}
	due := m.backedOff(s.Limits.backoff, now, fresh, 0)
	out[MaxLimits].FreeIn = time.Duration(due) * time.Millisecond
}
