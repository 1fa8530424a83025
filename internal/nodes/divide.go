package nodes

import (
	"sync"

	"authguard/failures"
)

// divided are ladders as a node has to keep them that counts every charge with
// a weight: a rung with N failures has room if all of the weight fits, so it
// closes at N less the weight and one, but never before the first charge.
type divided struct {
	ladders sync.Map // dividedBy → *failures.Ladder
}

type dividedBy struct {
	ladder *failures.Ladder
	weight int
}

func (d *divided) of(l *failures.Ladder, weight int) *failures.Ladder {
	if weight <= 1 || len(l.Rungs()) == 0 {
		return l
	}
	key := dividedBy{l, weight}
	if known, ok := d.ladders.Load(key); ok {
		return known.(*failures.Ladder)
	}
	var rungs []failures.Rung
	for _, r := range l.Rungs() {
		r.Failures = max(1, r.Failures-weight+1)
		rungs = append(rungs, r)
	}
	made, _ := d.ladders.LoadOrStore(key, failures.MustLadder(l.Backoff(), rungs...)) // valid, as the whole one is
	return made.(*failures.Ladder)
}
