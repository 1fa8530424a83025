package trustedtest

import (
	"errors"
	"testing"
	"time"

	"authguard/trusted"
)

// A subject is the store under test; its methods fail the test on an error.
type subject struct{ store trusted.Store }

func (s subject) remember(t testing.TB, account, place trusted.Key, now time.Time) {
	t.Helper()
	if err := s.store.Remember(t.Context(), account, place, now); err != nil {
		t.Fatalf("Remember: %v", err)
	}
}

func (s subject) full(t testing.TB, account, place trusted.Key, now time.Time) {
	t.Helper()
	if err := s.store.Remember(t.Context(), account, place, now); !errors.Is(err, trusted.ErrFull) {
		t.Fatalf("Remember: %v, want ErrFull", err)
	}
}

func (s subject) spend(t testing.TB, account, place trusted.Key, now time.Time) {
	t.Helper()
	if err := s.store.Spend(t.Context(), account, place, now); err != nil {
		t.Fatalf("Spend: %v", err)
	}
}

func (s subject) forget(t testing.TB, account, place trusted.Key, now time.Time) {
	t.Helper()
	if err := s.store.Forget(t.Context(), account, place, now); err != nil {
		t.Fatalf("Forget: %v", err)
	}
}

func (s subject) status(t testing.TB, account, place trusted.Key, now time.Time) trusted.Status {
	t.Helper()
	record, err := s.store.Record(t.Context(), account, now)
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	return record.Status(place)
}

func (s subject) want(t testing.TB, account, place trusted.Key, now time.Time, want trusted.Status) {
	t.Helper()
	if got := s.status(t, account, place, now); got != want {
		t.Errorf("status %d at %v, want %d", got, now.Sub(start), want)
	}
}

func (s subject) resetAt(t testing.TB, account trusted.Key) time.Time {
	t.Helper()
	record, err := s.store.Record(t.Context(), account, start)
	if err != nil {
		t.Fatalf("Record: %v", err)
	}
	if record.Reset == 0 {
		return time.Time{}
	}
	return time.UnixMilli(record.Reset)
}
