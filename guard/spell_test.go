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
	} {
		if got := guard.Spell(d); got != want {
			t.Errorf("%v is %q, not %q", d, got, want)
		}
	}
}
