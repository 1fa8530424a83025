package nodes_test

import (
	"fmt"
	"testing"
	"time"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/testing/redistest"
	"authguard/trusted"
)

// full is the limit that these tests fill.
const full = 5

// turns counts how often a blocked attempt has to look until it is known that nothing
// undecided is in its way: 1 if it knows at once. Between two looks every node has one
// round of its own.
func (r *replayed) turns(t *testing.T, node, from int) int {
	t.Helper()
	for turn := 1; turn <= 4; turn++ {
		c := r.charge(from, full)
		switch err := r.nodes[node].Begin(t.Context(), &c); {
		case err != nil:
			t.Fatal(err)
		case c.ID.Charged():
			t.Fatalf("attempt %d was charged: there is room", from)
		case usage(&c).Failed != 0:
			return turn
		}
		for _, n := range r.nodes {
			n.Look(t.Context())
		}
	}
	return 0 // it waits for limits.check_timeout
}

func (r *replayed) begin(t *testing.T, node, from int) guard.Charge {
	t.Helper()
	c := r.charge(from, full)
	if err := r.nodes[node].Begin(t.Context(), &c); err != nil || !c.ID.Charged() {
		t.Fatalf("attempt %d at node %d: charged %v, %v", from, node, c.ID.Charged(), err)
	}
	return c
}

func (r *replayed) settle(t *testing.T, node int, c guard.Charge, o guard.Outcome) {
	t.Helper()
	c.Now = r.clock.Now()
	if err := r.nodes[node].Settle(t.Context(), &c, o); err != nil {
		t.Fatal(err)
	}
}

// Five guesses in a row, however they are spread over two nodes, close the account at
// both: the next attempt waits for one round of the other node at most. PendingFor is
// an hour here, and the clock stands still.
func TestR3AFailureIsDecidedAtEveryNode(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	for spread := range 1 << full {
		r := newReplayed(t, server, fmt.Sprintf("spread%d:", spread), window)
		first := spread >> (full - 1) & 1
		alone := spread == 0 || spread == 1<<full-1
		for i := range full {
			node := spread >> i & 1
			r.settle(t, node, r.begin(t, node, i), guard.Failed)
		}
		for node := range r.nodes {
			turns, most := r.turns(t, node, 10+node), 2
			if alone || node != first {
				most = 1 // the node that filled the limit wrote down all that it knew
			}
			if turns == 0 || turns > most {
				t.Errorf("guesses at nodes %05b: an attempt at node %d looked %d times "+
					"(0: it waits until the failures are old), want %d at most",
					spread, node, turns, most)
			}
		}
	}
}

// While one of five is in flight, at whichever node and in whichever place of the five,
// the next attempt waits; and goes on as soon as that one is decided.
func TestR3InFlightAtAnotherNodeIsNotFailed(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	for i := range 2 * full {
		for _, outcome := range []guard.Outcome{guard.Failed, guard.Succeeded} {
			t.Run(fmt.Sprintf("%d of %d, %v", i/2, full, outcome), func(t *testing.T) {
				t.Parallel()
				inFlight, at := i/2, i%2
				r := newReplayed(t, server, fmt.Sprintf("flight%d-%v:", i, outcome), window)
				var open guard.Charge
				for j := range full {
					if j == inFlight {
						open = r.begin(t, at, j)
						continue
					}
					r.settle(t, j%2, r.begin(t, j%2, j), guard.Failed)
				}
				for node := range r.nodes {
					if turns := r.turns(t, node, 10+node); turns != 0 {
						t.Fatalf("node %d takes an attempt in flight for failed after %d looks", node, turns)
					}
				}
				r.settle(t, at, open, outcome)
				for node := range r.nodes {
					if outcome == guard.Succeeded {
						r.settle(t, node, r.begin(t, node, 20+node), guard.Withdrawn)
					} else if turns := r.turns(t, node, 20+node); turns == 0 || turns > 2 {
						t.Errorf("node %d looked %d times", node, turns)
					}
				}
			})
		}
	}
}

// The pair's delay is a limit, too.
func TestR3ADelayIsDecidedAtEveryNode(t *testing.T) {
	t.Parallel()
	r := newReplayed(t, redistest.Standalone(t), "delay:", window)
	charge := func() guard.Charge {
		c := r.charge(1, 1000)
		account, pair := &c.Subjects()[0], &c.Subjects()[1]
		account.Binds, pair.Limits = [3]failures.Mask{}, delayed
		pair.Binds = [3]failures.Mask{failures.BackoffBit, failures.BackoffBit, failures.BackoffBit}
		return c
	}
	for i := range 3 {
		c := charge()
		if err := r.nodes[0].Begin(t.Context(), &c); err != nil || !c.ID.Charged() {
			t.Fatal(i, err)
		}
		r.settle(t, 0, c, guard.Failed)
	}
	c := charge()
	err := r.nodes[1].Begin(t.Context(), &c)
	if err != nil || c.ID.Charged() || c.Subjects()[1].Usage.Failed != failures.BackoffBit || c.Status != trusted.Unknown {
		t.Errorf("charged %v, failed %v, %v", c.ID.Charged(), c.Subjects()[1].Usage.Failed, err)
	}
}

var delayed = failures.MustLimits(failures.Backoff{After: 3, First: time.Second, Max: time.Minute, Window: window})
