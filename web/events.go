package web

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
)

type eventRequest struct {
	Account   string `json:"account"`
	Address   string `json:"address"`
	Subject   string `json:"subject"`
	Challenge *struct {
		ID     string `json:"id"`
		Answer string `json:"answer"`
		Work   string `json:"work"`
	} `json:"challenge"`
	Inline []string `json:"inline"`
}

func (a *API) event(c echo.Context) error {
	name := c.Param("name")
	if _, known := a.Guard.Policy().Events[name]; !known {
		return a.noEvent(name)
	}
	subjects, inline, err := readEvent(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	d, err := a.Guard.Exceeded(ctx, name, subjects)
	switch {
	case errors.Is(err, guard.ErrNoEvent): // a reload was quicker
		return a.noEvent(name)
	case errors.Is(err, guard.ErrSubjectMissing):
		return Invalid("%s. Send it; nothing was counted.", strings.TrimPrefix(err.Error(), "guard: "))
	case err != nil:
		return unavailable()
	case d.Reasons.Has(guard.BadAccountName):
		return noAccount()
	}
	out := answerTo(&d)
	if d.Action == guard.Challenge {
		issued, err := a.Guard.IssueFor(ctx, name, subjects, d)
		if err != nil {
			return err
		}
		if out.Challenge, err = a.inline(ctx, issued, inline); err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, out)
}

// readEvent reads the request. A missing field is allowed, an invalid one is an error: a misspelled address must not
// count as a missing one.
func readEvent(c echo.Context) (s guard.Subjects, inline []string, err error) {
	var in eventRequest
	if err := ReadJSON(c, MaxBody, &in); err != nil {
		return s, nil, err
	}
	if badInline(in.Inline) {
		return s, nil, noInline()
	}
	if in.Address != "" {
		if s.Address, err = netip.ParseAddr(in.Address); err != nil {
			return s, nil, badAddress()
		}
	}
	s.Account, s.Subject = in.Account, in.Subject
	if in.Challenge != nil {
		s.Solution = challenge.Solution{ID: in.Challenge.ID, Answer: in.Challenge.Answer, Work: in.Challenge.Work}
	}
	return s, in.Inline, nil
}

func (a *API) noEvent(name string) Problem {
	there := "No event is limited yet."
	if names := a.Guard.Policy().EventNames(); len(names) > 0 {
		there = "Limited events: " + strings.Join(names, ", ") + "."
	}
	return Problem{
		Type: "unknown-event", Title: "No limits are configured for this event", Status: http.StatusNotFound,
		Detail: fmt.Sprintf("The event was not counted. To limit it, set events: {%.40s: [5/1h block by account]} in the "+
			"configuration, and reload. %s", name, there),
	}
}
