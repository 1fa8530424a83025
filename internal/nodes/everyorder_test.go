//go:build !race

package nodes_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"authguard/internal/testing/redistest"
)

// In every order of events the model holds the limit, and the stores do as the model.
func TestR1EveryOrderOfEvents(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	var paths [][]event
	starts := map[string]model{}
	kinds := map[string]bool{}
	states, steps := walk(t, func(from path, e event, _ model, charged bool) {
		if k := kind(from.at, e, charged); !kinds[k] {
			kinds[k] = true
			events := append(slices.Clone(from.events), e)
			paths = append(paths, events)
			start := model{}
			for i := range start.tries {
				start.tries[i].node = from.at.tries[i].node
			}
			starts[fmt.Sprint(events)] = start
		}
	})
	t.Logf("%d states, %d steps of %d kinds", states, steps, len(kinds))
	if states < 1000 {
		t.Error("the walk ended early")
	}
	var all sync.WaitGroup
	turn := make(chan struct{}, 16)
	for i, events := range paths {
		if !slices.Contains(events, event{"lose", 0}) {
			replayInMemory(t, starts[fmt.Sprint(events)], events)
		}
		turn <- struct{}{}
		all.Go(func() {
			defer func() { <-turn }()
			replay(t, server, fmt.Sprintf("path%d:", i), starts[fmt.Sprint(events)], events)
		})
	}
	all.Wait()
}
