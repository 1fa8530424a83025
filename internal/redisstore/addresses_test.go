package redisstore_test

import (
	"testing"

	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/trusted"
)

// Thirty accounts log in at one node and thirty at another: neither sees more
// than fifty, together they do.
func r30SharedAddressIsSoOnEveryNode(t *testing.T, on redisOf) {
	clock, pool, home := newClock(), trusted.Key(digest('a', 1)), trusted.Key(digest('a', 2))
	node := func() *trusted.SharedAddresses {
		s, err := trusted.NewSharedAddresses(trusted.Limits{Sharers: 50}, redisstore.Addresses{Store: on.node(t, redisstore.Options{})})
		must(t, err)
		return s
	}
	became := 0
	add := func(s *trusted.SharedAddresses, account int, address trusted.Key) {
		t.Helper()
		n, err := s.Add(t.Context(), digest('c', account), address, clock.Now())
		must(t, err)
		became += n
	}
	here, there := node(), node()
	for i := range 30 {
		add(here, i, pool)
		add(here, i%2, home)
	}
	want(t, "shared after one node's thirty", here.Shared(pool, clock.Now()), false)
	for i := range 30 {
		add(there, 30+i, pool)
	}
	want(t, "shared at the node that completes them", there.Shared(pool, clock.Now()), true)
	want(t, "accounts when it became so", became, 51)
	add(here, 60, pool)
	want(t, "shared at the other node, with its next login there", here.Shared(pool, clock.Now()), true)
	late := node()
	add(late, 0, pool)
	add(late, 0, home)
	want(t, "shared at a node that has just begun, too", late.Shared(pool, clock.Now()), true)
	want(t, "a home of two has several accounts", late.Several(home, clock.Now()), false)
	used, err := late.Used(t.Context(), home, clock.Now())
	must(t, err)
	want(t, "a home of two is used", used, true)
	clock.Advance(trusted.DefaultTTL)
	for name, s := range map[string]*trusted.SharedAddresses{"here": here, "there": there, "late": late} {
		want(t, "shared "+name+" once that has expired", s.Shared(pool, clock.Now()), false)
	}
}

func r30SharedAddressIsNoKnownClient(t *testing.T, on redisOf) {
	s := on.node(t, redisstore.Options{})
	end(t, s, attempt(1, 1), guard.Succeeded)
	want(t, "status at home", begin(t, s, attempt(1, 1)).Status, trusted.Known)
	shared := func(device int) *guard.Charge {
		c := attempt(1, 1)
		if c.Address = (trusted.Key{}); device > 0 {
			by(c, digest('d', device), c.Now)
		}
		return c
	}
	want(t, "status once it is shared", begin(t, s, shared(0)).Status, trusted.Unknown)
	c := begin(t, s, shared(1))
	want(t, "status of a device there", c.Status, trusted.Known)
	want(t, "the device counts", c.AtDevice, true)
	other := attempt(1, 2)
	other.Address = trusted.Key{}
	end(t, s, other, guard.Succeeded)
	want(t, "status after a login at a shared address", begin(t, s, attempt(1, 2)).Status, trusted.Unknown)
}
