package admin

import (
	"context"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/web"
	"authguard/web/pages"
)

// explain is GET /api/explain?account=&address=; with &event=&subject= it explains the limits of an event.
func (a *API) explain(c echo.Context) (any, error) {
	from, err := address(c.QueryParam("address"))
	if err != nil {
		return nil, err
	}
	ctx, account := c.Request().Context(), c.QueryParam("account")
	if event := c.QueryParam("event"); event != "" {
		return a.of(c).ExplainEvent(ctx, event, guard.Subjects{Account: account, Address: from,
			Subject: c.QueryParam("subject")})
	}
	return a.of(c).Explain(ctx, account, from)
}

// A subject is an account, an IP address or both, as sent.
type subject struct {
	Account string `json:"account"`
	Address string `json:"address"`
}

type unlockQuestion struct {
	subject
	Network string `json:"network"` // instead of both
	Place   bool   `json:"known_clients"`
	Event   string `json:"event"` // whose limits to reset; empty for logins
	Text    string `json:"subject"`
	because
}

// because has the optional reason for the audit log.
type because struct {
	Reason string `json:"reason"`
}

// unlock is POST /api/unlock. With known_clients it also removes known clients (at an IP address).
func (a *API) unlock(c echo.Context, q unlockQuestion) (any, error) {
	from, err := address(q.Address)
	if err != nil {
		return nil, err
	}
	if q.Place && q.Account == "" {
		return nil, web.Invalid("known_clients: requires an account; known clients belong to an account")
	}
	if err := a.mayUnlock(c, q.Account); err != nil {
		return nil, err
	}
	ctx := c.Request().Context()
	if q.Network != "" {
		if q.subject != (subject{}) || q.Place || q.Event != "" {
			return nil, web.Invalid("network: cannot be combined with other fields")
		}
		return done, unlockNetwork(ctx, a.of(c), sender(c), q.Network, q.Reason)
	}
	if q.Event != "" {
		return done, a.of(c).UnlockEvent(ctx, sender(c), q.Event, guard.Subjects{Account: q.Account, Address: from,
			Subject: q.Text}, q.Reason)
	}
	if err := a.of(c).Unlock(ctx, sender(c), q.Account, from, q.Reason); err != nil {
		return nil, err
	}
	if q.Place {
		if err := a.of(c).RemoveKnownClients(ctx, sender(c), q.Account, from, q.Reason); err != nil {
			return nil, err
		}
	}
	note, err := a.of(c).Unknown(ctx, q.Account)
	if err != nil || note == "" {
		return done, err
	}
	return map[string]any{"ok": true, "note": note}, nil
}

type forgetQuestion struct {
	subject
	because
}

func unlockNetwork(ctx context.Context, to *control.Control, who, network, why string) error {
	prefix, err := netip.ParsePrefix(strings.TrimSpace(network))
	if err != nil {
		return web.Invalid("network: %.60q is not a network; write it like 203.0.113.0/24 or 2001:db8:1::/48", network)
	}
	return to.UnlockNetwork(ctx, who, prefix.Masked(), why)
}

// forget is POST /api/forget. It removes an account's known client at an IP address, or all.
func (a *API) forget(c echo.Context, q forgetQuestion) (any, error) {
	from, err := address(q.Address)
	if err != nil {
		return nil, err
	}
	if err := a.mayUnlock(c, q.Account); err != nil {
		return nil, err
	}
	return done, a.of(c).RemoveKnownClients(c.Request().Context(), sender(c), q.Account, from, q.Reason)
}

func (s *Site) unlockForm(ctx context.Context, to *control.Control, who string,
	f web.Form) (n pages.Notice, err error) {
	if f["network"] != "" {
		return pages.Notice{Text: "Failure counters reset: network", Subject: f["network"]}, unlockNetwork(ctx, to, who,
			f["network"], f["reason"])
	}
	account, from, err := subjectOf(f)
	if err != nil {
		return n, err
	}
	note, err := to.Unknown(ctx, account)
	if err != nil {
		return n, err
	}
	n = pages.Notice{Text: "Failure counters reset:", Subject: account}
	switch {
	case account == "":
		n = pages.Notice{Text: "Failure counters reset: IP address", Subject: from.String()}
	case from.IsValid():
		n.Text = "Failure counters reset at " + from.String() + ":"
	case note != "":
		n.Text = "Failure counters reset (" + note + "):"
	}
	return n, to.Unlock(ctx, who, account, from, f["reason"])
}

func (s *Site) forgetForm(ctx context.Context, to *control.Control, who string,
	f web.Form) (n pages.Notice, err error) {
	account, from, err := subjectOf(f)
	if err != nil {
		return n, err
	}
	n = pages.Notice{Text: "All known clients removed:", Subject: account}
	if from.IsValid() {
		n.Text = "Known IP address " + from.String() + " removed:"
	}
	return n, to.RemoveKnownClients(ctx, who, account, from, f["reason"])
}

func subjectOf(f web.Form) (account string, from netip.Addr, err error) {
	from, err = address(f["address"])
	return strings.TrimSpace(f["account"]), from, err
}
