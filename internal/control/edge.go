package control

import (
	"context"
	"net/netip"
	"time"

	"authguard/guard"
	"authguard/internal/lists"
)

// refusedShown limits the most active IP addresses of the last hour that are checked for a block.
const refusedShown = 1000

// Edge returns the ranges of the lists. With refused it adds IP addresses where limits block every unknown client,
// among this node's 1000 most active of the last hour. An IP address with a successful login is not added.
func (c *Control) Edge(ctx context.Context, verdict guard.Verdict, refused, everybody bool) (lists.Edge, error) {
	var more []guard.Listing
	if refused && verdict == guard.Blocked {
		var err error
		if more, err = c.refused(ctx, c.config.Now()); err != nil {
			return lists.Edge{}, err
		}
	}
	return c.Lists.Edge(ctx, verdict, more, everybody)
}

func (c *Control) refused(ctx context.Context, now time.Time) (all []guard.Listing, err error) {
	for _, top := range c.config.Tops.First(c.config.Realm, now, refusedShown).Addresses {
		address, err := netip.ParseAddr(top.Name)
		if err != nil {
			continue
		}
		one, refused, err := c.config.Guard.Refusing(ctx, address)
		if err != nil {
			return nil, err
		}
		if refused {
			all = append(all, one)
		}
	}
	return all, nil
}
