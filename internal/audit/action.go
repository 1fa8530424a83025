package audit

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"authguard/internal/events"
)

// An Action is something that an administrator did.
type Action struct {
	Who  string // required
	What string // a stable code such as "unlock", "block" or "captcha-on"; required
	// Subject is what it was done to. Filter finds an address or network by
	// Address, anything else by Account. Empty means the whole site.
	Subject string
	Detail  string
}

// Record writes at once what an administrator did. An error means that it is not
// on record.
func (l *Log) Record(ctx context.Context, a Action) error {
	if a.Who == "" || a.What == "" {
		return errors.New("audit: an action needs who and what")
	}
	row := Row{
		At: time.Now(), Realm: l.cfg.Realm, Kind: KindAdmin, Decision: events.Escape(a.What), Count: 1,
		Who: events.Escape(a.Who), Detail: events.EscapeLines(a.Detail, 20, 500),
	}
	if address, ok := addressOrNetwork(a.Subject); ok {
		row.Address = address
	} else {
		row.Account = events.Escape(a.Subject)
	}
	return l.write(ctx, []Row{row})
}

func addressOrNetwork(s string) (string, bool) {
	if a, err := netip.ParseAddr(s); err == nil {
		return events.AddressText(a), true
	}
	if p, err := netip.ParsePrefix(s); err == nil {
		return p.Masked().String(), true
	}
	return "", false
}
