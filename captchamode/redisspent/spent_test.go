package redisspent_test

import (
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode/challenge/challengetest"
	"authguard/captchamode/redisspent"
	"authguard/internal/redistest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	for kind, client := range map[string]func(*testing.T) redis.UniversalClient{
		"standalone": func(t *testing.T) redis.UniversalClient { return redistest.Standalone(t).Client(t) },
		"cluster":    func(t *testing.T) redis.UniversalClient { return redistest.Cluster(t).Client(t) },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			c := client(t)
			challengetest.RunSpent(t, func(*testing.T) challengetest.Fixture {
				var id [6]byte
				rand.Read(id[:])
				return challengetest.Fixture{Store: redisspent.New(c, hex.EncodeToString(id[:])+":")}
			})
		})
	}
}

// The contract moves a store's clock to see what is forgotten; Redis's cannot be
// moved, so what it was told to forget, and when, is looked at instead.
func TestAnIDIsKeptUntilItExpires(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	store := redisspent.New(client, "")
	until := client.Time(t.Context()).Val().Add(10 * time.Minute).Truncate(time.Millisecond)
	if first, err := store.Spend(t.Context(), [16]byte{1}, until); !first || err != nil {
		t.Fatal(first, err)
	}
	if first, err := store.Spend(t.Context(), [16]byte{2}, client.Time(t.Context()).Val().Add(-time.Millisecond)); first || err != nil {
		t.Errorf("an ID that has expired: %v, %v", first, err)
	}
	keys := client.Keys(t.Context(), "*").Val()
	if len(keys) != 1 {
		t.Fatalf("%d keys", len(keys))
	}
	kept := time.UnixMilli(client.PExpireTime(t.Context(), keys[0]).Val().Milliseconds())
	if kept.Before(until) || kept.After(until.Add(2*time.Second)) {
		t.Errorf("kept until %v, not %v and little longer", kept, until)
	}
}
