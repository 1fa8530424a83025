package redisfailures_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/internal/redistest"
)

// The bytes that Redis says a key takes (MEMORY USAGE), by how many failures
// it holds. DESIGN's measure is 200 for ten, 600 for a hundred.
func TestMemoryOfAnAccountAndAnAddress(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	on := redisOf{open: func(testing.TB) redis.UniversalClient { return client }, prefix: "ag:"}
	store := on.node(t)
	for _, c := range []struct{ failures, addresses, most int }{
		{1, 1, 200}, {10, 1, 200}, {10, 10, 200}, {100, 1, 600}, {100, 100, 600},
	} {
		account := digest('a', 1000*c.failures+c.addresses)
		network := digest('n', 1000*c.failures+c.addresses)
		for n := range c.failures {
			pair := digest('p', 1000*c.failures+n%c.addresses)
			at, _ := charge(t, store,
				failures.Subject{Shard: account, Key: account, Ladder: ofAccount},
				failures.Subject{Shard: account, Key: pair, Ladder: ofPair},
				failures.Subject{Shard: network, Key: digest('i', 1000*c.failures+n%c.addresses), Ladder: ofAddress},
				failures.Subject{Shard: network, Key: network, Ladder: ofNetwork})
			want(t, "charged", at != 0, true)
		}
		var told []string
		for what, place := range map[string]failures.Key{"account": account, "network": network} {
			name := on.prefix + "{" + base64Of(place) + "}"
			own, total := 0, client.MemoryUsage(t.Context(), name).Val()
			for _, key := range on.names(t, client) {
				if !strings.HasPrefix(key, name) || key == name {
					continue
				}
				bytes := client.MemoryUsage(t.Context(), key).Val()
				if own++; bytes > int64(c.most) {
					t.Errorf("%d failures: a key of its own with the %s takes %d bytes", c.failures, what, bytes)
				}
				total += bytes
			}
			book := client.MemoryUsage(t.Context(), name).Val()
			if book > int64(c.most) {
				t.Errorf("%d failures: the %s takes %d bytes", c.failures, what, book)
			}
			told = append(told, fmt.Sprintf("%s %d B, with %d more keys %d B", what, book, own, total))
		}
		t.Logf("%d failures of %d addresses: %s", c.failures, c.addresses, strings.Join(told, "; "))
	}
}
