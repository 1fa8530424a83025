package attacks

import (
	"net/netip"
	"testing"
)

// The look-up of a name or an IP address shows the attacks on it or from it, under the name that they are recorded by.
func TestAnAttackConcernsItsSubject(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		attack           Brief
		account, address string
		want             bool
	}{
		{Brief{Kind: Site}, "", "", true},
		{Brief{Kind: Spray}, "alice", "192.0.2.1", false},
		{Brief{Kind: Account, Subject: "alice"}, "alice", "", true},
		{Brief{Kind: Account, Subject: "alice"}, "bob", "192.0.2.1", false},
		{Brief{Kind: Address, Subject: "192.0.2.1"}, "", "192.0.2.1", true},
		{Brief{Kind: Address, Subject: "2001:db8:0:1::/64"}, "", "2001:db8:0:1::5", true}, // counted as one
		{Brief{Kind: Address, Subject: "2001:db8:0:1::/64"}, "", "2001:db8:0:2::5", false},
		{Brief{Kind: Address, Subject: "192.0.2.1"}, "alice", "", false},
	} {
		address, _ := netip.ParseAddr(c.address)
		if got := c.attack.Concerns(c.account, address); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
