package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
)

// An API is the decision API: back ends in any language ask for a decision,
// check the password themselves and say how it ended.
type API struct {
	Guard *guard.Guard
	// Settled remembers which tickets were used.
	Settled challenge.Spent
	// Later calls f after a time; default time.AfterFunc.
	Later  func(after time.Duration, f func())
	tokens atomic.Pointer[[][32]byte]
}

// SetTokens changes which bearer tokens are accepted; without any the API is
// off.
func (a *API) SetTokens(tokens []string) {
	sums := make([][32]byte, 0, len(tokens))
	for _, t := range tokens {
		sums = append(sums, sha256.Sum256([]byte(t)))
	}
	a.tokens.Store(&sums)
}

// On reports whether there is a token.
func (a *API) On() bool {
	known := a.tokens.Load()
	return known != nil && len(*known) > 0
}

// Routes adds the API's paths.
func (a *API) Routes(e *echo.Echo) {
	e.POST("/v1/attempts", a.begin, a.authorise)
	e.POST(settlePath, a.settle, a.authorise)
	e.POST("/v1/events/:name", a.event, a.authorise)
}

// authorise compares digests, so that the time taken says nothing about any
// token.
func (a *API) authorise(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		scheme, token, _ := strings.Cut(c.Request().Header.Get("Authorization"), " ")
		sum, good := sha256.Sum256([]byte(strings.TrimSpace(token))), 0
		if known := a.tokens.Load(); known != nil {
			for _, one := range *known {
				good |= subtle.ConstantTimeCompare(one[:], sum[:])
			}
		}
		if good == 0 || !strings.EqualFold(scheme, "Bearer") {
			c.Response().Header().Set("WWW-Authenticate", `Bearer realm="authguard"`)
			return Problem{
				Type: "unauthorized", Title: "This needs a bearer token", Status: http.StatusUnauthorized,
				Detail: "Send one of the tokens in api.tokens: Authorization: Bearer TOKEN.",
			}
		}
		return next(c)
	}
}

type attemptRequest struct {
	Account   string `json:"account"`
	Address   string `json:"address"`
	Device    string `json:"device"`
	Code      string `json:"code"`
	Challenge *struct {
		ID     string `json:"id"`
		Answer string `json:"answer"`
		Work   string `json:"work"`
	} `json:"challenge"`
	PasswordFingerprint string `json:"password_fingerprint"`
}

type attemptAnswer struct {
	Decision   string   `json:"decision"`
	Reasons    []string `json:"reasons"`
	Words      []string `json:"words"`
	RetryAfter int      `json:"retry_after,omitempty"`
	// PasswordSuffices comes with proceed. If it is false, the password is to be
	// checked and then answered like a wrong one, right or not.
	PasswordSuffices *bool                `json:"password_suffices,omitempty"`
	Ticket           string               `json:"ticket,omitempty"`
	Challenge        *challenge.Challenge `json:"challenge,omitempty"`
}

// begin is POST /v1/attempts.
func (a *API) begin(c echo.Context) error {
	var in attemptRequest
	if err := ReadJSON(c, MaxBody, &in); err != nil {
		return err
	}
	address, err := netip.ParseAddr(in.Address)
	if err != nil {
		return badAddress()
	}
	ctx := c.Request().Context()
	attempt := guard.Attempt{
		Account: in.Account, Address: address, Devices: []string{in.Device},
		Fingerprint: a.fingerprint(in.PasswordFingerprint), Door: "api", Pass: in.Code,
	}
	if in.Challenge != nil {
		attempt.Solve = challenge.Solve{ID: in.Challenge.ID, Answer: in.Challenge.Answer, Work: in.Challenge.Work}
	}
	d, err := a.Guard.Begin(ctx, attempt)
	if err != nil {
		return unavailable()
	}
	if d.Reasons.Has(guard.BadAccountName) {
		return noAccount()
	}
	out := attemptAnswer{Decision: d.Action.String(), Reasons: d.Reasons.Codes(), Words: []string{}}
	for _, r := range d.Reasons {
		out.Words = append(out.Words, r.String())
	}
	switch d.Action {
	case guard.Proceed:
		out.Ticket = a.Guard.Seal(&d.Ticket)
		suffices := !d.Insufficient
		out.PasswordSuffices = &suffices
		a.expect(d.Ticket)
	case guard.Challenge:
		challenge, err := a.Guard.Issue(ctx, attempt, d)
		if err != nil {
			return err
		}
		out.Challenge = &challenge
	default:
		out.RetryAfter = retryAfter(d.RetryAfter)
	}
	return c.JSON(http.StatusOK, out)
}

// badAddress and noAccount are 400.
func badAddress() Problem {
	return Invalid("address: send the client's IP address, such as 192.0.2.1 or 2001:db8::1.")
}

func noAccount() Problem {
	return Invalid("account: send 1 to %d bytes of UTF-8 without control characters and such as cannot be seen or stand for others.", guard.MaxAccount)
}

// expect counts a ticket as pressure if nobody settles it in time. If the store
// of settled tickets does not answer, the ticket is taken for settled: pressure
// must not rise because a store is down.
func (a *API) expect(ticket guard.Ticket) {
	id, expires := ticket.ID(), ticket.Expires()
	check := func() {
		settled, err := a.Settled.Seen(context.Background(), id, expires)
		if err == nil && !settled {
			a.Guard.Unsettled(&ticket)
		}
	}
	later := a.Later
	if later == nil {
		later = func(after time.Duration, f func()) { time.AfterFunc(after, f) }
	}
	later(a.Guard.Policy().PendingFor, check)
}

// fingerprint keys once more what the caller has keyed. No password begins with
// NUL, so that nothing a caller sends is like what another door sees.
func (a *API) fingerprint(sent string) uint64 {
	if sent == "" {
		return 0
	}
	return a.Guard.Fingerprint("\x00" + sent)
}

// settle is POST /v1/attempts/settle.
func (a *API) settle(c echo.Context) error {
	var in struct {
		Ticket  string `json:"ticket"`
		Outcome string `json:"outcome"`
	}
	if err := ReadJSON(c, MaxBody, &in); err != nil {
		return err
	}
	outcome, ok := outcomes[in.Outcome]
	if !ok {
		return Invalid("outcome: send failed, succeeded or abandoned.")
	}
	ticket, err := a.Guard.Open(in.Ticket)
	switch {
	case errors.Is(err, guard.ErrTicketExpired):
		return Problem{
			Type: "expired", Title: "The ticket has expired", Status: http.StatusGone,
			Detail: "Nobody said in time how the attempt ended, so it counts as failed.",
		}
	case err != nil:
		return Invalid("ticket: send the ticket that the attempt was answered with.")
	}
	// A back end that hangs up must find, when it asks again, all done or nothing.
	ctx := context.WithoutCancel(c.Request().Context())
	first, err := a.Settled.Spend(ctx, ticket.ID(), ticket.Expires())
	if err != nil {
		return unavailable()
	}
	if !first {
		return Problem{
			Type: "already-settled", Title: "The attempt was settled already", Status: http.StatusConflict,
			Detail: "The first outcome stands.",
		}
	}
	err = a.Guard.Settle(ctx, ticket, outcome)
	if errors.Is(err, guard.ErrInsufficient) {
		return Problem{
			Type: "insufficient", Title: "The password is right, and is not enough", Status: http.StatusForbidden,
			Detail: "It is being tried on many accounts. Let nobody in, and answer as for a wrong password. The attempt has failed.",
		}
	}
	if err != nil {
		return unavailable()
	}
	if device, _, _ := a.Guard.Device(ticket); outcome == guard.Succeeded && device != "" {
		c.Response().Header().Set("Authguard-Device", device)
	}
	return c.NoContent(http.StatusNoContent)
}

var outcomes = map[string]guard.Outcome{
	"failed": guard.Failed, "succeeded": guard.Succeeded, "abandoned": guard.Abandoned,
}

// unavailable is 503: a store cannot be asked.
func unavailable() Problem {
	return Problem{
		Type: OverloadedProblem, Title: "The counters cannot be asked right now", Status: http.StatusServiceUnavailable, RetryAfter: 1,
	}
}
