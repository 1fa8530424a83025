package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/remote"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
)

// away is a Redis that does not answer.
type away struct{}

func (away) Spend(context.Context, [16]byte, time.Time) (bool, error) { return false, ErrDown }
func (away) Seen(context.Context, [16]byte, time.Time) (bool, error)  { return false, ErrDown }
func (away) Take(context.Context, [16]byte) (bool, error)             { return false, ErrDown }

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

func TestTakenOverNodesAndWhileRedisIsGone(t *testing.T) {
	t.Parallel()
	redis := challenge.NewMemorySpent(0, nil)
	a, b, until, id := NewSpent(redis, nil), NewSpent(redis, nil), time.Now().Add(time.Minute), [16]byte{1}
	take := func(s *Spent) bool {
		t.Helper()
		taken, err := s.Take(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	if _, err := a.Spend(t.Context(), id, until); err != nil {
		t.Fatal(err)
	}
	if !take(b) || take(a) || take(b) {
		t.Error("not taken once over both nodes")
	}
	alone := NewSpent(away{}, nil)
	if _, err := alone.Spend(t.Context(), id, until); err != nil {
		t.Fatal(err)
	}
	if !take(alone) || take(alone) {
		t.Error("without Redis not taken once at its node")
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

// A token of a provider on the web is good for one challenge at one node, whatever
// siteverify says when several ask at once. What a node that has not seen it would
// take is spent in Redis.
func TestR17AProvidersTokenIsGoodAtOneNodeOnly(t *testing.T) {
	t.Parallel()
	stamp := time.Now().UTC().Truncate(time.Second)
	verify := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"success": true, "hostname": "login.example.org",
			"challenge_ts": stamp.Format(time.RFC3339)})
	}))
	t.Cleanup(verify.Close)
	server := redistest.Standalone(t)
	node := func() *remote.Provider {
		p := remote.New(NewSpent(redisstore.NewSpent(server.Client(t), "token:"), nil), nil, nil)
		err := p.Set(remote.Config{Service: "hcaptcha", SiteKey: "k", Secret: "s", Verify: verify.URL,
			Hosts: []string{"login.example.org"}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, two := node(), node()
	check := func(p *remote.Provider, challengeNumber byte, token string) bool {
		good, err := p.Check(t.Context(), challenge.Task{Seed: challenge.Seed{challengeNumber}}, token)
		if err != nil {
			t.Error(err)
		}
		return good
	}
	const token = "a-token-as-long-as-real-ones-are"
	if !check(one, 1, token) || check(two, 2, token) || check(two, 2, token) || check(one, 3, token) {
		t.Error("one after the other: not good once, at the first node")
	}
	var good atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			if check([]*remote.Provider{one, two}[i%2], byte(i), "another-token-for-many-at-once") {
				good.Add(1)
			}
		})
	}
	all.Wait()
	if n := good.Load(); n != 1 {
		t.Errorf("of forty at once at two nodes it was good %d times, want once", n)
	}
}
