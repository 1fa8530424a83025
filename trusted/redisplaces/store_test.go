package redisplaces_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redistest"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
	"authguard/trusted/trustedtest"
)

func each(t *testing.T, test func(t *testing.T, client redis.UniversalClient)) {
	t.Run("standalone", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Standalone(t).Client(t))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Cluster(t).Client(t))
	})
}

// open is an empty store: its prefix is new.
func open(t *testing.T, client redis.UniversalClient, prefix string) *redisplaces.Store {
	t.Helper()
	s, err := redisplaces.New(client, redisplaces.Options{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newPrefix() string {
	var id [6]byte
	rand.Read(id[:])
	return hex.EncodeToString(id[:]) + ":"
}

func TestContract(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, client redis.UniversalClient) {
		trustedtest.Run(t, func(t *testing.T) trusted.Store { return open(t, client, newPrefix()) })
	})
}

var (
	account, place = trusted.Key{1}, trusted.Key{2}
	noon           = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
)

func TestAnotherNodeHearsOfAChangeWithinASecond(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Standalone(t).Client(t), newPrefix()
	here, there := open(t, client, prefix), open(t, client, prefix)
	ctx := context.Background()
	if err := here.Remember(ctx, account, place, noon); err != nil {
		t.Fatal(err)
	}
	if got, err := there.Status(ctx, account, place, noon); got != trusted.Privileged || err != nil {
		t.Fatalf("%v, %v", got, err)
	}
	began := time.Now()
	if err := here.Forget(ctx, account, trusted.Key{}, noon); err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the other node to hear of it", func() bool {
		got, err := there.Status(ctx, account, place, noon)
		return err == nil && got == trusted.Stranger
	})
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestR22KnownPlacesPassWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	s, ctx := open(t, server.Client(t), newPrefix()), context.Background()
	for _, p := range []trusted.Key{{2}, {3}, {4}} {
		if err := s.Remember(ctx, account, p, noon); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Spend(ctx, account, trusted.Key{3}, noon); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	redistest.Until(t, "the last answer to be too old", func() bool { _, fresh := s.Recent(account, place, noon); return !fresh })
	for p, want := range map[trusted.Key]trusted.Status{{2}: trusted.Privileged, {3}: trusted.Stranger, {4}: trusted.Privileged, {5}: trusted.Stranger} {
		got, err := s.Status(ctx, account, p, noon)
		if got != want || (err == nil) != (want == trusted.Privileged) {
			t.Errorf("place %d: %v, %v", p[0], got, err)
		}
	}
	if got, _ := s.Status(ctx, account, place, noon.Add(trusted.DefaultTTL)); got != trusted.Stranger {
		t.Error("an expired place passes")
	}
}

func TestADamagedRecordIsAnErrorAndNoPrivilege(t *testing.T) {
	t.Parallel()
	client, prefix := redistest.Standalone(t).Client(t), newPrefix()
	s, ctx := open(t, client, prefix), context.Background()
	client.Set(ctx, redisplaces.Key(prefix, account), "not a record", 0)
	if got, err := s.Status(ctx, account, place, noon); got != trusted.Stranger || err == nil {
		t.Errorf("%v, %v", got, err)
	}
}
