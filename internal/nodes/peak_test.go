package nodes

import (
	"testing"
	"time"
)

// Four nodes that lose Redis one after the other would otherwise take 1/2 + 1/3 + 1/4 and so on of a limit.
func TestANodeThatSeesOthersLeaveKeepsItsShare(t *testing.T) {
	t.Parallel()
	var p peak
	start := time.UnixMilli(1_700_000_000_000)
	for _, one := range []struct {
		minute  float64
		n, want int
	}{{0, 4, 4}, {0.1, 3, 4}, {5, 2, 4}, {9.9, 1, 4}, {10.1, 1, 4}, {15, 3, 4}, {20.2, 1, 3}, {31, 1, 1}, {31.5, 2, 2}, {31.6, 1, 2}} {
		at := start.Add(time.Duration(one.minute * float64(time.Minute)))
		if got := p.of(one.n, at); got != one.want {
			t.Errorf("minute %v: %d nodes, want %d", one.minute, got, one.want)
		}
	}
}
