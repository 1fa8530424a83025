package failures_test

import (
	"strings"
	"testing"
	"time"

	"authguard/failures"
)

func TestLimitsNamesEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	_, err := failures.NewLimits(
		failures.Backoff{After: 0, First: time.Second, Max: time.Millisecond, Window: time.Hour},
		failures.Limit{Failures: 0, Window: time.Minute},
		failures.Limit{Failures: failures.MaxFailures + 1, Window: 15 * 24 * time.Hour},
		failures.Limit{Failures: 1, Window: time.Microsecond},
	)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"limit 0: failures", "limit 1: failures", "window must be", "limit 2:", "backoff: after", "first (1s)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
}

func TestZeroPaceDelaysNothing(t *testing.T) {
	t.Parallel()
	if d := (failures.Backoff{}).Delay(1000); d != 0 {
		t.Fatalf("delay %v", d)
	}
}
