package redisstore_test

import (
	"context"
	"testing"
	"time"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/guard"
	"authguard/internal/redisstore"
)

// What Redis could not be told is told by the next Share, in order, and that one
// learns what is sprayed at once.
func r28AShareThatFailsLosesNothing(t *testing.T, on redisOf) {
	const password = 4711
	var told []failures.Spray
	found := failures.NewSprays(nil)
	s := on.node(t, redisstore.Options{Sprays: found, OnSpray: func(one failures.Spray) { told = append(told, one) }})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 10 {
		c := attempt(i, 5*i)
		c.Spray, c.SprayAccounts = password, 10
		end(t, s, c, guard.Failed)
		if err := s.Share(gone); err == nil {
			t.Fatal("Redis was told by a caller that had gone")
		}
	}
	must(t, s.Share(t.Context()))
	want(t, "sprayed", found.Has(failures.Miss{Value: password}, time.Now()), true)
	must(t, s.Share(t.Context()))
	want(t, "told", len(told), 1)
	want(t, "accounts", told[0].Accounts, 10)
}

func spraysContract(t *testing.T, on redisOf) {
	failurestest.RunSprays(t, func(t *testing.T) failurestest.Spraying {
		c, on := newClock(), on.realm()
		var told []failures.Spray
		sprays := failures.NewSprays(nil)
		s := on.node(t, redisstore.Options{Sprays: sprays, Clock: c.Now,
			OnSpray: func(one failures.Spray) { told = append(told, one) }})
		return failurestest.Spraying{
			Count: func(m failures.Miss, back bool) {
				s.Missed(failurestest.SprayAccounts, m, back)
				must(t, s.Share(t.Context()))
			},
			Has:      func(m failures.Miss) bool { return sprays.Has(m, c.Now()) },
			Advance:  c.Advance,
			Reported: func() []failures.Spray { return told },
		}
	})
}
