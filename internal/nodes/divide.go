package nodes

import (
	"math"
	"sync"

	"authguard/failures"
)

// divided are ladders as one of n nodes has to keep them so that all together
// keep the whole: every rung by n, rounded, at least 1. The pace stays: it is
// about the next charge and not about how many.
type divided struct {
	ladders sync.Map // dividedBy → *failures.Ladder
}

type dividedBy struct {
	ladder *failures.Ladder
	nodes  int
}

func (d *divided) of(l *failures.Ladder, nodes int) *failures.Ladder {
	if nodes <= 1 {
		return l
	}
	key := dividedBy{l, nodes}
	if known, ok := d.ladders.Load(key); ok {
		return known.(*failures.Ladder)
	}
	var rungs []failures.Rung
	for _, r := range l.Rungs() {
		r.Failures = max(1, int(math.Round(float64(r.Failures)/float64(nodes))))
		rungs = append(rungs, r)
	}
	made, _ := d.ladders.LoadOrStore(key, failures.MustLadder(l.Pace(), rungs...)) // valid, as the whole one is
	return made.(*failures.Ladder)
}
