package failures

import "time"

// What stores of other packages need, so that every store reads its charges by
// the same rules.

// Keep is how many of a key's newest charges are enough for every rung and the
// backoff.
func (l *Ladder) Keep() int { return l.keep }

// Stand writes into out what a key's charges mean to the subject, all but Used.
// charges are oldest first, each the low 32 bits of its moment in
// milliseconds, and now is the same of the time at which out shall hold.
// Undecided is how many of them are neither failed nor older than the longest
// password check.
func (s *Subject) Stand(charges []uint32, now uint32, undecided int, out *Usage) {
	m := moments(charges)
	free := m.usage(s, now, undecided, millis(MaxWindow), out)
	if out.Over&s.Bind != 0 {
		out.FreeIn = time.Duration(free) * time.Millisecond
	}
}

// Tally writes into out's Used how many of the charges each rung's window holds.
func (s *Subject) Tally(charges []uint32, now uint32, out *Usage) {
	for i := range s.Ladder.rungs {
		out.Used[i] = uint16(moments(charges).within(now, s.Ladder.windows[i]))
	}
}
