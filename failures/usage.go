package failures

import "time"

// moments are the charges of one key, oldest first, as the low 32 bits of
// their Unix milliseconds. Differences are taken modulo 2³², so nothing may
// grow older than 49 days; the sweeper sees to that long before.
type moments []uint32

// within is how many of the moments lie in the closed window before now.
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

// full reports whether n charges lie in the closed window before now, and if
// so in how many milliseconds the oldest of them leaves it.
func (m moments) full(now uint32, n int, window uint32) (in uint32, full bool) {
	if n <= 0 || len(m) < n {
		return 0, false
	}
	age := now - m[len(m)-n]
	return window - age + 1, age <= window
}

// since is how many of the moments are later than another one.
func (m moments) since(then uint32) (n int) {
	for n < len(m) && int32(m[len(m)-1-n]-then) > 0 {
		n++
	}
	return n
}

// backedOff is in how many milliseconds the next charge is due if the newest skip
// ones had not been made; zero if it is due now. Only the newest fresh ones count.
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

// usage is what the moments mean on a ladder, given that the newest fresh ones
// count for its backoff, that up to pending of them
// are undecided and none undecided is older than pendingFor. It reports
// the milliseconds until every binding rung has room; the caller knows what
// time it is.
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

// What follows is for stores of other packages, so that every store reads its
// charges by the same rules.

// Keep is how many of a key's newest charges are enough for every rung and the
// backoff.
func (l *Limits) Keep() int { return l.keep }

// Since is how many of the charges are later than the one at which the backoff was
// let begin anew.
func Since(charges []uint32, cleared uint32) int { return moments(charges).since(cleared) }

// Use writes into out what a key's charges mean to the subject. charges are
// oldest first, each the low 32 bits of its moment in milliseconds, and now is
// the same of the time at which out shall hold. The newest fresh ones count for the
// backoff (see Since). Undecided is how many of them are neither failed nor older than
// the longest password check.
func (s *Subject) Use(charges []uint32, now uint32, fresh, undecided int, out *Usage) {
	m := moments(charges)
	free := m.usage(s, now, fresh, undecided, millis(MaxWindow), out)
	if out.Over&s.Bind != 0 {
		out.FreeIn = time.Duration(free) * time.Millisecond
	}
}

// Fills reports whether one more charge, at now, fills a rung or the backoff beside
// those that are over already.
func (s *Subject) Fills(charges []uint32, now uint32, fresh int, over Mask) bool {
	var after Usage
	m := append(moments(nil), charges...)
	append(m, now).usage(s, now, fresh+1, 0, 0, &after)
	return after.Over&^over != 0
}

// Tally writes into out what each rung by itself says of the charges.
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
