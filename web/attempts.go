package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
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

// Routes adds the API's paths.
func (a *API) Routes(e *echo.Echo) {
	v1 := e.Group("/v1", a.authorise)
	v1.POST("/attempts", a.begin)
	v1.POST("/attempts/settle", a.settle)
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
			return WriteProblem(c, Problem{
				Type: "unauthorized", Title: "This needs a bearer token", Status: http.StatusUnauthorized,
				Detail: "Send one of the tokens in api.tokens: Authorization: Bearer TOKEN.",
			})
		}
		return next(c)
	}
}

type attemptRequest struct {
	Account   string `json:"account"`
	Address   string `json:"address"`
	Device    string `json:"device"`
	Challenge *struct {
		ID     string `json:"id"`
		Answer string `json:"answer"`
	} `json:"challenge"`
	PasswordFingerprint string `json:"password_fingerprint"`
}

type attemptAnswer struct {
	Decision   string               `json:"decision"`
	Reasons    []string             `json:"reasons"`
	Words      []string             `json:"words"`
	RetryAfter int                  `json:"retry_after,omitempty"`
	Ticket     string               `json:"ticket,omitempty"`
	Challenge  *challenge.Challenge `json:"challenge,omitempty"`
}

// begin is POST /v1/attempts.
func (a *API) begin(c echo.Context) error {
	var in attemptRequest
	if err := readStrict(c, &in); err != nil {
		return err
	}
	address, err := netip.ParseAddr(in.Address)
	if err != nil {
		return invalidField(c, "address: send the client's IP address, such as 192.0.2.1 or 2001:db8::1.")
	}
	ctx := c.Request().Context()
	attempt := guard.Attempt{
		Account: in.Account, Address: address, Devices: []string{in.Device},
		Fingerprint: fingerprint(in.PasswordFingerprint), Door: "api",
	}
	if in.Challenge != nil {
		attempt.Solve = challenge.Solve{ID: in.Challenge.ID, Answer: in.Challenge.Answer}
	}
	d, err := a.Guard.Begin(ctx, attempt)
	if err != nil {
		return unavailable(c)
	}
	if d.Reasons.Has(guard.BadAccountName) {
		return invalidField(c, fmt.Sprintf("account: send 1 to %d bytes of UTF-8 without control characters.", guard.MaxAccount))
	}
	out := attemptAnswer{Decision: d.Action.String(), Reasons: d.Reasons.Codes(), Words: []string{}}
	for _, r := range d.Reasons.All() {
		out.Words = append(out.Words, r.String())
	}
	switch d.Action {
	case guard.Proceed:
		out.Ticket = a.Guard.Seal(&d.Ticket)
		a.expect(&d.Ticket, address)
	case guard.Challenge:
		challenge, err := a.Guard.Issue(ctx, address, d.Counted)
		if err != nil {
			return err
		}
		out.Challenge = &challenge
	default:
		out.RetryAfter = max(1, int(math.Ceil(d.RetryAfter.Seconds())))
	}
	return c.JSON(http.StatusOK, out)
}

// expect sees to it that a ticket which nobody settles counts as pressure. An
// answer that does not come from the store of settled tickets is taken for yes:
// pressure must not rise because a store is down.
func (a *API) expect(ticket *guard.Ticket, address netip.Addr) {
	id, expires := ticket.ID(), ticket.Expires()
	check := func() {
		settled, err := a.Settled.Seen(context.Background(), id, expires)
		if err == nil && !settled {
			a.Guard.Unsettled(address)
		}
	}
	later := a.Later
	if later == nil {
		later = func(after time.Duration, f func()) { time.AfterFunc(after, f) }
	}
	later(a.Guard.Policy().PendingFor, check)
}

// fingerprint shortens what the caller sent to what is kept: 64 bits of a
// digest. The caller has keyed it; a bare hash of a password must never come
// here.
func fingerprint(sent string) uint64 {
	if sent == "" {
		return 0
	}
	sum := sha256.Sum256([]byte(sent))
	return binary.BigEndian.Uint64(sum[:8])
}

// settle is POST /v1/attempts/settle.
func (a *API) settle(c echo.Context) error {
	var in struct {
		Ticket  string `json:"ticket"`
		Outcome string `json:"outcome"`
	}
	if err := readStrict(c, &in); err != nil {
		return err
	}
	outcome, ok := outcomes[in.Outcome]
	if !ok {
		return invalidField(c, "outcome: send failed, succeeded or abandoned.")
	}
	ticket, err := a.Guard.Open(in.Ticket)
	switch {
	case errors.Is(err, guard.ErrTicketExpired):
		return WriteProblem(c, Problem{
			Type: "expired", Title: "The ticket has expired", Status: http.StatusGone,
			Detail: "Nobody said in time how the attempt ended, so it counts as failed.",
		})
	case err != nil:
		return invalidField(c, "ticket: send the ticket that the attempt was answered with.")
	}
	ctx := c.Request().Context()
	first, err := a.Settled.Spend(ctx, ticket.ID(), ticket.Expires())
	if err != nil {
		return unavailable(c)
	}
	if !first {
		return WriteProblem(c, Problem{
			Type: "already-settled", Title: "The attempt was settled already", Status: http.StatusConflict,
			Detail: "The first outcome stands.",
		})
	}
	if err := a.Guard.Settle(ctx, ticket, outcome); err != nil {
		return unavailable(c)
	}
	if device, _ := a.Guard.Device(ticket); outcome == guard.Succeeded && device != "" {
		c.Response().Header().Set("Authguard-Device", device)
	}
	return c.NoContent(http.StatusNoContent)
}

var outcomes = map[string]guard.Outcome{
	"failed": guard.Failed, "succeeded": guard.Succeeded, "abandoned": guard.Abandoned,
}

// readStrict reads one JSON object without unknown fields, and without fields
// that come twice or in other case: encoding/json would take the last of them,
// another parser the first (R11).
func readStrict(c echo.Context, into any) error {
	r := c.Request()
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), r.Body, MaxBody))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return echo.NewHTTPError(http.StatusRequestEntityTooLarge, fmt.Sprintf("Send at most %d bytes.", MaxBody))
	}
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, "The body could not be read.")
	}
	if name := ambiguous(body); name != "" {
		return echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("Send the field %.40q once, in lower case.", name))
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			return echo.NewHTTPError(http.StatusBadRequest, "Send one JSON object and nothing after it.")
		}
		return nil
	}
	if kind := new(json.UnmarshalTypeError); errors.As(err, &kind) {
		if kind.Field == "" {
			return echo.NewHTTPError(http.StatusBadRequest, "Send one JSON object.")
		}
		return echo.NewHTTPError(http.StatusBadRequest, fmt.Sprintf("The field %s cannot be a JSON %s.", kind.Field, kind.Value))
	}
	return echo.NewHTTPError(http.StatusBadRequest, "The JSON cannot be used: "+strings.TrimPrefix(err.Error(), "json: "))
}

// ambiguous is the first name in any object of a JSON text that comes twice or
// is not in lower case; empty if there is none, or the text ends before.
func ambiguous(body []byte) string {
	type level struct {
		names map[string]bool // nil: a list
		value bool            // of an object: a value comes next
	}
	d := json.NewDecoder(bytes.NewReader(body))
	var levels []level
	for {
		token, err := d.Token()
		if err != nil {
			return ""
		}
		var now *level
		if n := len(levels); n > 0 {
			now = &levels[n-1]
		}
		if name, ok := token.(string); ok && now != nil && now.names != nil && !now.value {
			if now.names[name] || strings.ToLower(name) != name {
				return name
			}
			now.names[name], now.value = true, true
			continue
		}
		switch token {
		case json.Delim('}'), json.Delim(']'):
			levels = levels[:len(levels)-1]
			continue
		}
		if now != nil {
			now.value = false
		}
		switch token {
		case json.Delim('{'):
			levels = append(levels, level{names: map[string]bool{}})
		case json.Delim('['):
			levels = append(levels, level{})
		}
	}
}

func invalidField(c echo.Context, detail string) error {
	return WriteProblem(c, Problem{Type: InvalidRequest, Title: "The request cannot be used", Status: http.StatusBadRequest, Detail: detail})
}

func unavailable(c echo.Context) error {
	return WriteProblem(c, Problem{
		Type: OverloadedProblem, Title: "The counters cannot be asked right now", Status: http.StatusServiceUnavailable,
		RetryAfter: setRetryAfter(c.Response().Header(), time.Second),
	})
}
