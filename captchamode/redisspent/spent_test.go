package redisspent_test

import (
	"crypto/rand"
	"encoding/hex"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode/challengetest"
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
