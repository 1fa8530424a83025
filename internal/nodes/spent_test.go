package nodes

import (
	"context"
	"errors"
	"testing"
	"time"

	"authguard/captchamode/challenge"
)

// away is a Redis that does not answer.
type away struct{}

func (away) Spend(context.Context, [16]byte, time.Time) (bool, error) { return false, ErrDown }
func (away) Seen(context.Context, [16]byte, time.Time) (bool, error)  { return false, ErrDown }

var _ challenge.Spent = away{}

func (away) Full() float64   { return 0 }
func (away) Epoch() [16]byte { return [16]byte{} }

func TestSpentOnceAtEachNodeWhileRedisIsGone(t *testing.T) {
	t.Parallel()
	s, until := NewSpent(away{}, nil), time.Now().Add(time.Minute)
	for i, want := range []bool{true, false, false} {
		if first, err := s.Spend(t.Context(), [16]byte{1}, until); first != want || err != nil {
			t.Errorf("try %d: %v, %v", i, first, err)
		}
	}
}

func TestNotToKnowIsNotNoWhereItMatters(t *testing.T) {
	t.Parallel()
	s, until := NewSpent(away{}, nil), time.Now().Add(time.Minute)
	if seen, err := s.Seen(t.Context(), [16]byte{1}, until); seen || err != nil {
		t.Errorf("%v, %v", seen, err)
	}
	s.Strict = true
	if _, err := s.Seen(t.Context(), [16]byte{1}, until); !errors.Is(err, ErrDown) {
		t.Errorf("strict: %v", err)
	}
	if _, err := s.Spend(t.Context(), [16]byte{1}, until); err != nil {
		t.Fatal(err)
	}
	if seen, err := s.Seen(t.Context(), [16]byte{1}, until); !seen || err != nil {
		t.Errorf("here: %v, %v", seen, err)
	}
}
