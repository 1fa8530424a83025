package trustedtest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"authguard/trusted"
)

func unknownClients(t *testing.T, s subject) {
	s.want(t, account(1), place(1), start, trusted.Unknown)
	s.want(t, account(1), trusted.Key{}, start, trusted.Unknown)
	if got := s.resetAt(t, account(1)); !got.IsZero() {
		t.Errorf("an account that never was reset was reset at %v", got)
	}
}

func remembered(t *testing.T, s subject) {
	s.remember(t, account(1), place(1), start)
	s.want(t, account(1), place(1), start, trusted.Known)
	s.want(t, account(2), place(1), start, trusted.Unknown)
	s.want(t, account(1), place(2), start, trusted.Unknown)
}

func expires(t *testing.T, s subject) {
	s.remember(t, account(1), place(1), start)
	s.remember(t, account(1), place(1), at(50*day))
	s.want(t, account(1), place(1), at(140*day-time.Millisecond), trusted.Known)
	s.want(t, account(1), place(1), at(140*day), trusted.Unknown)
}

func leastRecentlyUsed(t *testing.T, s subject) {
	for n := range trusted.DefaultLimits {
		s.remember(t, account(1), place(n), at(time.Duration(n)*time.Minute))
	}
	s.remember(t, account(1), place(0), at(time.Hour))
	s.remember(t, account(1), place(100), at(2*time.Hour))
	for n := range trusted.DefaultLimits {
		want := trusted.Known
		if n == 1 {
			want = trusted.Unknown
		}
		s.want(t, account(1), place(n), at(2*time.Hour), want)
	}
	s.want(t, account(1), place(100), at(2*time.Hour), trusted.Known)
}

func oneAnHour(t *testing.T, s subject) {
	for n := range trusted.DefaultLimits {
		s.remember(t, account(1), place(n), at(time.Duration(n)*time.Second))
	}
	minute := at(time.Minute)
	s.full(t, account(1), place(100), minute)
	s.want(t, account(1), place(100), minute, trusted.Unknown)
	s.remember(t, account(1), place(3), minute) // known clients stay known
	s.full(t, account(1), place(100), at(trusted.NewFor+9*time.Second-time.Millisecond))
	s.remember(t, account(1), place(100), at(trusted.NewFor+9*time.Second))
	s.full(t, account(1), place(101), at(trusted.NewFor+time.Minute))
	for n := range trusted.DefaultLimits {
		want := trusted.Known
		if n == 0 {
			want = trusted.Unknown
		}
		s.want(t, account(1), place(n), at(2*time.Hour), want)
	}
	s.want(t, account(1), place(100), at(2*time.Hour), trusted.Known)
}

func longStanding(t *testing.T, s subject) {
	s.remember(t, account(1), place(0), start)
	s.remember(t, account(1), place(0), at(trusted.LongStanding))
	s.remember(t, account(1), place(1), start)
	s.remember(t, account(1), place(1), at(trusted.LongStanding-time.Millisecond))
	for n := 2; n < trusted.DefaultLimits; n++ {
		s.remember(t, account(1), place(n), at(2*day))
	}
	s.remember(t, account(1), place(100), at(3*day))
	s.want(t, account(1), place(1), at(3*day), trusted.Unknown)
	s.remember(t, account(1), place(101), at(4*day))
	s.want(t, account(1), place(0), at(4*day), trusted.Known)
	// If all are of long standing, the least recently used is evicted.
	for n := range 9 {
		for _, d := range []time.Duration{30, 40} {
			s.remember(t, account(2), place(n), at(d*day+time.Duration(n)))
		}
	}
	s.remember(t, account(2), place(9), at(30*day))
	s.remember(t, account(2), place(9), at(39*day))
	s.remember(t, account(2), place(100), at(41*day))
	s.want(t, account(2), place(9), at(41*day), trusted.Unknown)
}

func spentIsNew(t *testing.T, s subject) {
	s.remember(t, account(1), place(0), start)
	s.spend(t, account(1), place(0), at(day))
	for n := 1; n < trusted.DefaultLimits; n++ {
		s.remember(t, account(1), place(n), at(day))
	}
	s.remember(t, account(1), place(0), at(2*day))
	s.full(t, account(1), place(100), at(2*day+time.Minute))
	s.want(t, account(1), place(0), at(2*day), trusted.Known)
	s.spend(t, account(1), place(1), at(3*day))
	s.remember(t, account(1), place(101), at(3*day))
	s.full(t, account(1), place(1), at(3*day+time.Minute))
	s.want(t, account(1), place(1), at(3*day+time.Minute), trusted.Spent)
}

func backwards(t *testing.T, s subject) {
	s.remember(t, account(1), place(0), at(10*day))
	s.remember(t, account(1), place(0), start)
	s.want(t, account(1), place(0), at(99*day), trusted.Known)
	for n := 1; n <= trusted.DefaultLimits; n++ {
		s.remember(t, account(1), place(n), at(time.Duration(-n)*time.Hour))
		s.want(t, account(1), place(n), start, trusted.Known)
	}
}

func spent(t *testing.T, s subject) {
	s.remember(t, account(1), place(1), start)
	s.spend(t, account(1), place(1), at(day))
	s.want(t, account(1), place(1), at(91*day-time.Millisecond), trusted.Spent)
	s.want(t, account(1), place(1), at(91*day), trusted.Unknown)
	s.remember(t, account(1), place(1), at(2*day))
	s.want(t, account(1), place(1), at(2*day), trusted.Known)
	s.spend(t, account(1), place(7), at(2*day)) // a device without a record
	s.want(t, account(1), place(7), at(2*day), trusted.Spent)
}

func spentTakesNoRoom(t *testing.T, s subject) {
	for n := range trusted.DefaultLimits {
		s.remember(t, account(1), place(n), start)
		s.spend(t, account(1), place(100+n), start)
	}
	for n := range trusted.DefaultLimits {
		s.want(t, account(1), place(n), start, trusted.Known)
		s.want(t, account(1), place(100+n), start, trusted.Spent)
	}
}

// spentIsBounded: a store may drop spent devices if it invalidates the cookies of those it drops. It never drops the
// newest.
func spentIsBounded(t *testing.T, s subject) {
	const many = 200
	moment := func(n int) time.Time { return at(time.Duration(n) * time.Second) }
	s.remember(t, account(1), place(many+1), start)
	for n := range many {
		s.spend(t, account(1), place(n), moment(n))
	}
	void := s.resetAt(t, account(1))
	for n := range many {
		if s.status(t, account(1), place(n), moment(many)) != trusted.Spent && void.Before(moment(n)) {
			t.Errorf("device %d is privileged again: dropped, and cookies are void only up to %v", n, void)
		}
	}
	s.want(t, account(1), place(many-1), moment(many), trusted.Spent)
	s.want(t, account(1), place(many+1), moment(many), trusted.Known)
}

func forgetOne(t *testing.T, s subject) {
	s.remember(t, account(1), place(1), start)
	s.remember(t, account(1), place(2), start)
	s.spend(t, account(1), place(3), start)
	s.forget(t, account(1), place(1), at(time.Second))
	s.forget(t, account(1), place(3), at(time.Second))
	s.forget(t, account(1), place(4), at(time.Second))
	s.want(t, account(1), place(1), at(time.Second), trusted.Unknown)
	s.want(t, account(1), place(2), at(time.Second), trusted.Known)
	s.want(t, account(1), place(3), at(time.Second), trusted.Unknown)
	if got := s.resetAt(t, account(1)); !got.IsZero() {
		t.Errorf("forgetting one place is no reset, yet ResetAt is %v", got)
	}
}

func reset(t *testing.T, s subject) {
	s.remember(t, account(1), place(1), start)
	s.spend(t, account(1), place(2), start)
	s.remember(t, account(2), place(1), start)
	s.forget(t, account(1), trusted.Key{}, at(day))
	s.want(t, account(1), place(1), at(day), trusted.Unknown)
	s.want(t, account(1), place(2), at(day), trusted.Unknown)
	s.want(t, account(2), place(1), at(day), trusted.Known)
	if got := s.resetAt(t, account(1)); !got.Equal(at(day)) {
		t.Errorf("reset at %v, want %v", got, at(day))
	}
	s.remember(t, account(1), place(1), at(day)) // the login that follows at once
	s.want(t, account(1), place(1), at(day), trusted.Known)
}

func olderReset(t *testing.T, s subject) {
	s.forget(t, account(1), trusted.Key{}, at(day))
	s.forget(t, account(1), trusted.Key{}, start)
	if got := s.resetAt(t, account(1)); !got.Equal(at(day)) {
		t.Errorf("reset at %v, want %v", got, at(day))
	}
}

func toldLate(t *testing.T, s subject) {
	s.forget(t, account(1), trusted.Key{}, at(day))
	s.remember(t, account(1), place(1), at(day-time.Millisecond))
	s.want(t, account(1), place(1), at(day), trusted.Unknown)
}

func zeroKey(t *testing.T, s subject) {
	none := trusted.Key{}
	for name, err := range map[string]error{
		"Remember without a place":    s.store.Remember(t.Context(), account(1), none, start),
		"Remember without an account": s.store.Remember(t.Context(), none, place(1), start),
		"Spend without a place":       s.store.Spend(t.Context(), account(1), none, start),
		"Spend without an account":    s.store.Spend(t.Context(), none, place(1), start),
		"Forget without an account":   s.store.Forget(t.Context(), none, place(1), start),
	} {
		if !errors.Is(err, trusted.ErrNoKey) {
			t.Errorf("%s: %v, want ErrNoKey", name, err)
		}
	}
	s.want(t, none, none, start, trusted.Unknown)
}

func parallel(t *testing.T, s subject) {
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for p := range trusted.DefaultLimits {
				s.remember(t, account(n/2), place(p), start)
				s.want(t, account(n/2), place(p), start, trusted.Known)
			}
			s.spend(t, account(n/2), place(50+n), start)
		})
	}
	all.Wait()
	for n := range 8 {
		for p := range trusted.DefaultLimits {
			s.want(t, account(n/2), place(p), start, trusted.Known)
		}
		s.want(t, account(n/2), place(50+n), start, trusted.Spent)
	}
}
