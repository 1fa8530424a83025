package web

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/guard"
)

// A settlement reports the outcome of a ticket's attempt.
type settlement struct {
	Ticket  string `json:"ticket"`
	Outcome string `json:"outcome"`
}

var outcomes = map[string]guard.Outcome{
	"failed": guard.Failed, "succeeded": guard.Succeeded, "abandoned": guard.Abandoned,
}

func (a *API) settle(c echo.Context) error {
	var in settlement
	if err := ReadJSON(c, MaxBody, &in); err != nil {
		return err
	}
	device, err := a.settleOne(c.Request().Context(), in)
	if err != nil {
		return err
	}
	if device != "" {
		c.Response().Header().Set("Authguard-Device", device)
	}
	return c.NoContent(http.StatusNoContent)
}

// maxBatch is the maximum number of tickets in a request, maxBatchBody its largest body in bytes, which fits the
// longest tickets.
const (
	maxBatch     = 100
	maxBatchBody = 128 << 10
)

// A settled is the result for one ticket of a batch, unless that is a Problem.
type settled struct {
	Status int    `json:"status"`
	Device string `json:"device,omitempty"`
}

// settleBatch is POST /v1/attempts/settle/batch. It gives up at the first store failure: a hundred timeouts in a row
// help no caller.
func (a *API) settleBatch(c echo.Context) error {
	var in struct {
		Attempts []settlement `json:"attempts"`
	}
	if err := ReadJSON(c, maxBatchBody, &in); err != nil {
		return err
	}
	if len(in.Attempts) == 0 || len(in.Attempts) > maxBatch {
		return Invalid("attempts: send 1 to %d of them.", maxBatch)
	}
	for i, one := range in.Attempts { // the caller's mistake: no attempt is settled
		if _, ok := outcomes[one.Outcome]; !ok {
			return Invalid("attempts[%d].outcome: send failed, succeeded or abandoned. No attempt was settled.", i)
		}
	}
	results, failed := make([]any, len(in.Attempts)), error(nil)
	for i, one := range in.Attempts {
		device, err := "", failed
		if err == nil {
			device, err = a.settleOne(c.Request().Context(), one)
		}
		results[i] = settled{http.StatusNoContent, device}
		if err != nil {
			p, known := problemOf(err)
			if results[i] = p; !known || p.Status == http.StatusServiceUnavailable {
				failed = err
			}
		}
	}
	return c.JSON(http.StatusOK, map[string][]any{"results": results})
}

func (a *API) settleOne(ctx context.Context, in settlement) (device string, err error) {
	outcome, ok := outcomes[in.Outcome]
	if !ok {
		return "", Invalid("outcome: send failed, succeeded or abandoned.")
	}
	ticket, err := a.Guard.Open(in.Ticket)
	switch {
	case errors.Is(err, guard.ErrTicketExpired):
		return "", Problem{
			Type: "expired", Title: "The ticket has expired", Status: http.StatusGone,
			Detail: "The outcome was not reported in time, so the attempt counts as failed.",
		}
	case err != nil:
		return "", Invalid("ticket: send the ticket from the answer to the attempt.")
	}
	// A back end that disconnects and retries must find everything done or nothing.
	ctx = context.WithoutCancel(ctx)
	first, err := a.Settled.Spend(ctx, ticket.ID(), ticket.Expires())
	if err != nil {
		return "", unavailable()
	}
	if !first {
		return "", Problem{
			Type: "already-settled", Title: "The attempt is already settled", Status: http.StatusConflict,
			Detail: "The first outcome stands.",
		}
	}
	err = a.Guard.Settle(ctx, ticket, outcome)
	if required := new(guard.CodeRequired); errors.As(err, &required) {
		return "", codeRequired(required.Code)
	}
	if errors.Is(err, guard.ErrInsufficient) {
		return "", Problem{
			Type: "insufficient", Title: "The password is correct but not sufficient", Status: http.StatusForbidden,
			Detail: "The client is unknown, and the password is leaked or used for password spraying, or the site is under " +
				"attack. Reject the login and answer as for a wrong password. The attempt has failed.",
		}
	}
	if err != nil {
		return "", unavailable()
	}
	if outcome == guard.Succeeded {
		device, _, _ = a.Guard.Device(ticket)
	}
	return device, nil
}

// codeRequired carries the code for the owner, unless the owner was sent one lately.
func codeRequired(code string) Problem {
	sent := code == ""
	return Problem{
		Type: "code-required", Title: "The password is correct, and a verification code is required",
		Status: http.StatusForbidden, Code: code, CodeSent: &sent,
		Detail: "Send the code to the account's owner, if there is one. Reject the login, and answer as for a wrong password. " +
			"The attempt has failed.",
	}
}

// verifyCode is POST /v1/codes/verify, for back ends that ask for the code after the password. A valid code ends an
// attempt that succeeded; an invalid one is charged to the IP address, and to nothing else. A client that is known by
// now, as when the request is repeated, needs no code.
func (a *API) verifyCode(c echo.Context) error {
	attempt, _, err := a.read(c)
	if err != nil {
		return err
	}
	attempt.WantsCode = true
	ctx := context.WithoutCancel(c.Request().Context())
	d, err := a.Guard.Begin(ctx, attempt)
	if err != nil {
		return unavailable()
	}
	if d.Reasons.Has(guard.BadAccountName) {
		return noAccount()
	}
	valid, checks := d.Action == guard.Proceed && (d.CodeValid || d.Known), d.Checks()
	if d.Action = guard.Block; valid {
		d.Action = guard.Proceed
	}
	if checks {
		outcome := guard.Withdrawn
		if valid {
			outcome = guard.Succeeded
		}
		if err := a.Guard.Settle(ctx, d.Ticket, outcome); err != nil {
			return unavailable()
		}
		if device, _, _ := a.Guard.Device(d.Ticket); device != "" {
			c.Response().Header().Set("Authguard-Device", device)
		}
	}
	return c.JSON(http.StatusOK, answerTo(&d))
}
