package redisstore_test

import (
	"testing"

	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

func mustCrowds(t testing.TB) *trusted.Crowds {
	t.Helper()
	c, err := trusted.NewCrowds(trusted.Limits{})
	must(t, err)
	return c
}

// Thirty accounts log in at one node and thirty at another: neither sees more
// than fifty, together they do.
func r30SharedAddressIsSoOnEveryNode(t *testing.T, on redisOf) {
	clock, pool, home := newClock(), trusted.Key(digest('a', 1)), trusted.Key(digest('a', 2))
	node := func() (*trusted.Crowds, *redisstore.Crowds) {
		local := mustCrowds(t)
		return local, redisstore.NewCrowds(on.node(t, redisstore.Options{}), local)
	}
	here, shared := node()
	there, sharedThere := node()
	for i := range 30 {
		here.Add(digest('c', i), pool, clock.Now())
		there.Add(digest('c', 30+i), pool, clock.Now())
		here.Add(digest('c', i%2), home, clock.Now())
	}
	must(t, shared.Sync(t.Context(), clock.Now()))
	want(t, "shared after one node's thirty", here.Shared(pool, clock.Now()), false)
	must(t, sharedThere.Sync(t.Context(), clock.Now()))
	want(t, "shared at the node that completes them", there.Shared(pool, clock.Now()), true)
	must(t, shared.Sync(t.Context(), clock.Now()))
	want(t, "shared at the other node", here.Shared(pool, clock.Now()), true)
	late, sharedLate := node()
	must(t, sharedLate.Sync(t.Context(), clock.Now()))
	want(t, "shared at a node that has just begun", late.Shared(pool, clock.Now()), true)
	want(t, "a home of two is shared", late.Shared(home, clock.Now()) || here.Shared(home, clock.Now()), false)
	clock.Advance(trusted.DefaultTTL)
	for name, c := range map[string]*trusted.Crowds{"here": here, "there": there, "late": late} {
		want(t, "shared "+name+" once that has expired", c.Shared(pool, clock.Now()), false)
	}
}

func r30NobodysAddressIsNoPlace(t *testing.T, on redisOf) {
	s := on.node(t, redisstore.Options{})
	end(t, s, attempt(1, 1), guard.Succeeded)
	want(t, "status at home", begin(t, s, attempt(1, 1)).Status, trusted.Privileged)
	nobodys := func(device int) *guard.Charge {
		c := attempt(1, 1)
		if c.Address = (trusted.Key{}); device > 0 {
			by(c, digest('d', device), c.Now)
		}
		return c
	}
	want(t, "status once it is nobody's", begin(t, s, nobodys(0)).Status, trusted.Stranger)
	c := begin(t, s, nobodys(1))
	want(t, "status of a device there", c.Status, trusted.Privileged)
	want(t, "the device counts", c.AtDevice, true)
	other := attempt(1, 2)
	other.Address = trusted.Key{}
	end(t, s, other, guard.Succeeded)
	want(t, "status after a login at nobody's place", begin(t, s, attempt(1, 2)).Status, trusted.Stranger)
}
