package guard

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"time"

	"authguard/captchamode"
)

// Settle says how an attempt ended. It does its work although ctx may be
// cancelled. A ticket is settled once; the second time is ErrSettled and
// changes nothing. Another error means that the store failed: the attempt then
// counts as failed.
func (g *Guard) Settle(ctx context.Context, t *Ticket, o Outcome) error {
	v := (*view)(t)
	if v == nil {
		return ErrTicket
	}
	if !v.ended.CompareAndSwap(live, ended+int32(o)) {
		return ErrSettled
	}
	now := g.config.Now()
	switch {
	case o == Succeeded:
		v.Now = now
	case o != Abandoned && o != Withdrawn && !v.late(now):
		g.config.Mode.Observe(captchamode.Failure, v.Places[atAddress].Key)
	}
	err := g.config.Store.Settle(afterwards(ctx), &v.Charge, o)
	if err != nil {
		err = fmt.Errorf("guard: settling as %v: %w", o, err)
	} else if o == Succeeded {
		g.proxies.succeeded(v, now)
	}
	g.wake(v)
	g.tell(v, Event{At: now, Action: Proceed, Settled: true, Outcome: o, Reasons: v.reasons, NewPlace: o == Succeeded && !v.privileged()})
	return err
}

// Unsettled tells the guard that nobody has settled a ticket that travels for
// Policy.PendingFor. It counts as failed from then on, and so it is pressure
// (R20). The door that sealed it calls this at most once, with the attempt's
// address. If it is settled as failed later, that is no further pressure.
func (g *Guard) Unsettled(address netip.Addr) {
	g.config.Mode.Observe(captchamode.Failure, g.digests.addressKey(address))
}

// late reports whether Unsettled was called for the attempt's ticket.
func (v *view) late(now time.Time) bool {
	return v.travelled && now.Sub(v.Charge.ID.Time()) > v.rules.policy.PendingFor
}

// Device issues a device cookie for the account of a ticket that was settled
// as succeeded; empty if devices are not remembered. The tag tells the cookies
// of accounts apart in one browser: 8 characters, the same for all names of an
// account.
func (g *Guard) Device(t *Ticket) (cookie, tag string) {
	if t == nil || g.config.Cookies == nil || !g.Policy().Devices || t.ended.Load() != ended+int32(Succeeded) {
		return "", ""
	}
	cookie, _ = g.config.Cookies.Issue(t.Account, g.config.Now())
	return cookie, hex.EncodeToString(t.Account[12:])
}
