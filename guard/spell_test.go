package guard_test

import (
	"testing"
	"time"

	"authguard/guard"
)

func TestDurationsAreRoundedUp(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Second: "a moment", 0: "a moment", time.Millisecond: "1 second", 20 * time.Second: "20 seconds",
		90 * time.Second: "90 seconds", time.Minute: "1 minute", 91 * time.Second: "2 minutes", time.Hour: "1 hour",
		time.Hour + time.Second: "1 hour 1 minute", 24 * time.Hour: "24 hours", 50 * time.Hour: "2 days 2 hours",
		// The edges of a unit, and the millisecond that a store rounds up.
		59*time.Second + time.Millisecond: "1 minute", 90*time.Second + time.Millisecond: "2 minutes",
		time.Hour - time.Millisecond: "1 hour", time.Hour + time.Millisecond: "1 hour", time.Hour - time.Second: "1 hour",
		48*time.Hour - time.Second: "2 days", 48*time.Hour + time.Millisecond: "2 days", 48*time.Hour + time.Second: "2 days 1 hour",
	} {
		if got := guard.Spell(d); got != want {
			t.Errorf("%v is %q, not %q", d, got, want)
		}
	}
}
