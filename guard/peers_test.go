package guard

import (
	"net/netip"
	"testing"
	"time"
)

// The first sight is reported. Later ones add to what is known, and take nothing away.
func TestR9AnUnconfiguredProxyIsReportedOnce(t *testing.T) {
	t.Parallel()
	p, at := new(peers), time.Unix(1_800_000_000, 0)
	seen := UnconfiguredProxy{
		Address: netip.MustParseAddr("10.0.0.1"), Since: at, Integration: "login", Forwarded: true, MostLogins: true,
	}
	if got, first := p.notice(seen, digest{1}); !first || got != seen {
		t.Errorf("%v, first %v", got, first)
	}
	later := UnconfiguredProxy{Address: seen.Address, Since: at.Add(time.Hour), Integration: "api"}
	if got, first := p.notice(later, digest{1}); first || got != seen || (*p.found.Load())[digest{1}] != seen {
		t.Errorf("%v, first %v", got, first)
	}
}
