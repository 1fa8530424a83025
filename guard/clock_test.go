package guard

import (
	"testing"
	"time"
)

func TestTheWallClockIsReadOnceASecond(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		age   time.Duration // of the last reading
		again bool
	}{{0, false}, {readAgain / 2, false}, {readAgain, true}, {time.Hour, true}} {
		c := newClock()
		read := time.Now().Add(-one.age)
		c.read.Store(&read)
		before := time.Now()
		now := c.now()
		if after := time.Now(); now.Before(before) || now.After(after) {
			t.Errorf("after %v: %v, between %v and %v", one.age, now, before, after)
		}
		if again := c.read.Load() != &read; again != one.again {
			t.Errorf("after %v the wall clock was read again: %v", one.age, again)
		}
	}
}
