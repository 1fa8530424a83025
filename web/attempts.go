package web

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/passwords"
	"authguard/web/client"
)

// An API is the decision API: a back end asks for a decision, checks the password itself and reports the outcome.
type API struct {
	Guard   *guard.Guard
	Settled challenge.Spent // tickets that were used
	Tokens  *Tokens         // of callers; only tokens of Realm are accepted
	Realm   string
	// Media renders challenges for callers that request them inline.
	Media    func(ctx context.Context, id, ext string) (challenge.Media, error)
	Identity *client.Identity      // fingerprints from the headers that callers pass on; nil: none
	Leaked   *passwords.LeakedList // passwords that are known from leaks; nil: none
	// Later calls f after a delay; default time.AfterFunc.
	Later func(after time.Duration, f func())
}

// On reports whether the realm has a token.
func (a *API) On() bool { return a.Tokens.Any(a.Realm) }

// Owns reports whether a path belongs to the API: an app behind the proxy may use other paths below /v1/.
func (*API) Owns(path string) bool {
	return path == documentPath || path == attemptsPath || strings.HasPrefix(path, attemptsPath+"/") ||
		strings.HasPrefix(path, eventsPath) || path == codesPath ||
		path == passwordsPath
}

const (
	apiBase       = "/v1/"
	attemptsPath  = apiBase + "attempts"
	settlePath    = attemptsPath + "/settle"
	eventsPath    = apiBase + "events/"
	codesPath     = apiBase + "codes/verify"
	passwordsPath = apiBase + "passwords/check"
	documentPath  = apiBase + "openapi.json"
)

// OpenAPI is the OpenAPI 3.1 description of the API. Tests check every response against it, and
// docs/reference/http-api.md is generated from it.
//
//go:embed openapi.json
var OpenAPI []byte

// Routes adds the API's paths.
func (a *API) Routes(e *echo.Echo) {
	add := func(path string, h echo.HandlerFunc) { e.POST(path, h, a.authorise, onlyJSON) }
	add(attemptsPath, a.begin)
	add(settlePath, a.settle)
	add(settlePath+"/batch", a.settleBatch)
	add(eventsPath+":name", a.event)
	add(codesPath, a.verifyCode)
	add(passwordsPath, a.checkPassword)
	file(e, documentPath, func(c echo.Context) error { return c.JSONBlob(http.StatusOK, OpenAPI) })
}

// onlyJSON requires a JSON content type: a body that one parser reads as a form must not be JSON to another (R11).
func onlyJSON(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if SentJSON(c.Request()) {
			return next(c)
		}
		return Problem{
			Type: InvalidRequest, Title: "JSON required", Status: http.StatusUnsupportedMediaType,
			Detail: "Send JSON with Content-Type: application/json (curl: --json).",
		}
	}
}

type attemptRequest struct {
	Account   string `json:"account"`
	Address   string `json:"address"`
	Device    string `json:"device"`
	Code      string `json:"code"`
	SendsCode bool   `json:"sends_code"` // the caller sends a code to the owner
	Challenge *struct {
		ID     string `json:"id"`
		Answer string `json:"answer"`
		Work   string `json:"work"`
	} `json:"challenge"`
	PasswordTag    string   `json:"password_tag"`
	PasswordLeaked bool     `json:"password_leaked"` // the caller knows it from leaks
	Fingerprint    string   `json:"fingerprint"`
	Headers        []string `json:"headers"` // "Name: value", as received
	Inline         []string `json:"inline"`  // parts of the challenge: image, audio
}

type attemptAnswer struct {
	Decision   string   `json:"decision"`
	Reasons    []string `json:"reasons"`
	Words      []string `json:"words"`
	RetryAfter int      `json:"retry_after,omitempty"`
	// PasswordSuffices comes with proceed. If false, the caller checks the password and then answers like for a wrong one.
	PasswordSuffices *bool                `json:"password_suffices,omitempty"`
	Ticket           string               `json:"ticket,omitempty"`
	Challenge        *challenge.Challenge `json:"challenge,omitempty"`
}

func (a *API) read(c echo.Context) (attempt guard.Attempt, in attemptRequest, err error) {
	if err := ReadJSON(c, MaxBody, &in); err != nil {
		return attempt, in, err
	}
	address, err := netip.ParseAddr(in.Address)
	switch {
	case err != nil:
		return attempt, in, badAddress()
	case badInline(in.Inline):
		return attempt, in, noInline()
	case in.Fingerprint != "" && len(in.Headers) > 0:
		return attempt, in, Invalid("fingerprint: send either fingerprint or headers, not both.")
	}
	attempt = guard.Attempt{
		Account: in.Account, Address: address, Devices: []string{in.Device},
		PasswordTag: a.fingerprint(in.PasswordTag), PasswordLeaked: in.PasswordLeaked,
		Integration: "api", VerificationCode: in.Code,
		WantsCode: in.SendsCode, Fingerprint: a.identity(&in),
	}
	if in.Challenge != nil {
		attempt.Solution = challenge.Solution{ID: in.Challenge.ID, Answer: in.Challenge.Answer, Work: in.Challenge.Work}
	}
	return attempt, in, nil
}

// answerTo returns what every decision has.
func answerTo(d *guard.Decision) attemptAnswer {
	out := attemptAnswer{Decision: d.Action.String(), Reasons: d.Reasons.Codes(), Words: []string{}}
	for _, r := range d.Reasons {
		out.Words = append(out.Words, r.String())
	}
	if d.Action == guard.Delay || d.Action == guard.Block {
		out.RetryAfter = retryAfter(d.RetryAfter)
	}
	return out
}

func (a *API) begin(c echo.Context) error {
	attempt, in, err := a.read(c)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	d, err := a.Guard.Begin(ctx, attempt)
	if err != nil {
		return unavailable()
	}
	if d.Reasons.Has(guard.BadAccountName) {
		return noAccount()
	}
	out := answerTo(&d)
	switch d.Action {
	case guard.Proceed, guard.FakeFailure:
		out.Ticket = a.Guard.Seal(&d.Ticket)
		suffices := !d.Insufficient
		out.PasswordSuffices = &suffices
		a.expect(&d.Ticket)
	case guard.Challenge:
		issued, err := a.Guard.Issue(ctx, attempt, d)
		if err != nil {
			return err
		}
		out.Challenge, err = a.inline(ctx, issued, in.Inline)
		if err != nil {
			return err
		}
	}
	return c.JSON(http.StatusOK, out)
}

func badAddress() Problem {
	return Invalid("address: send the client's IP address, such as 192.0.2.1 or 2001:db8::1.")
}

// noAccount has its own type: the client sent the invalid name, so the calling program is not at fault.
func noAccount() Problem {
	p := Invalid("account: send 1 to %d bytes of UTF-8 without control, invisible or ambiguous characters.",
		guard.MaxAccount)
	p.Type = BadAccount
	return p
}

func badInline(wanted []string) bool {
	return slices.ContainsFunc(wanted, func(one string) bool { return one != "image" && one != "audio" })
}

func noInline() Problem { return Invalid("inline: send image, audio or both.") }

// inline replaces the requested media of a challenge by data URLs.
func (a *API) inline(ctx context.Context, c challenge.Challenge, wanted []string) (*challenge.Challenge, error) {
	for _, one := range wanted {
		at, ext := &c.Image, "png"
		if one == "audio" {
			at, ext = &c.Audio, "wav"
		}
		if *at == "" || strings.HasPrefix(*at, "data:") {
			continue
		}
		m, err := a.Media(ctx, c.ID, ext)
		if errors.Is(err, challenge.ErrBusy) {
			return nil, overloaded("Too many challenges are being rendered for this IP address")
		} else if err != nil {
			return nil, err
		}
		*at = "data:" + m.Type + ";base64," + base64.StdEncoding.EncodeToString(m.Body)
	}
	return &c, nil
}

// expect adds a ticket to the failure rate if the caller does not settle it in time. If the store of settled tickets
// fails, the ticket counts as settled: an outage must not raise the failure rate.
func (a *API) expect(ticket *guard.Ticket) {
	unsettled := a.Guard.Unsettled(ticket)
	if unsettled == nil {
		return
	}
	id, expires := ticket.ID(), ticket.Expires()
	check := func() {
		settled, err := a.Settled.Seen(context.Background(), id, expires)
		if err == nil && !settled {
			unsettled()
		}
	}
	later := a.Later
	if later == nil {
		later = func(after time.Duration, f func()) { time.AfterFunc(after, f) }
	}
	later(a.Guard.Policy().CheckTimeout, check)
}

// identity keys the fingerprint that the caller sent or, without one, the client's headers. The NUL prefix keeps it
// apart from the fingerprints of other integrations.
func (a *API) identity(in *attemptRequest) uint32 {
	switch {
	case !a.Identity.On():
		return 0
	case in.Fingerprint != "":
		return a.Guard.Identity("\x00identity " + in.Fingerprint)
	}
	return a.Guard.Identity(a.Identity.OfLines(in.Headers))
}

// fingerprint keys the caller's password tag again. No password begins with NUL, so no caller can imitate a tag of
// another integration.
func (a *API) fingerprint(sent string) uint64 {
	if sent == "" {
		return 0
	}
	return a.Guard.Fingerprint("\x00" + sent)
}

func unavailable() Problem { return overloaded("The counters are unavailable") }

func overloaded(title string) Problem {
	return Problem{Type: OverloadedProblem, Title: title, Status: http.StatusServiceUnavailable, RetryAfter: 1}
}

// checkPassword is POST /v1/passwords/check: whether a password's hash is on the list of leaked passwords.
func (a *API) checkPassword(c echo.Context) error {
	var in struct {
		SHA1 string `json:"sha1"`
		NTLM string `json:"ntlm"`
	}
	if err := ReadJSON(c, MaxBody, &in); err != nil {
		return err
	}
	var list *passwords.LeakedFilter
	if a.Leaked != nil {
		list = a.Leaked.Filter()
	}
	if list == nil {
		return Problem{Type: "no-password-list", Title: "There is no list of leaked passwords", Status: http.StatusNotFound,
			Detail: "Set passwords.leaked.file."}
	}
	hash, key := in.SHA1, "sha1"
	if list.Kind == passwords.NTLM {
		hash, key = in.NTLM, "ntlm"
	}
	found, err := list.HasHash(hash)
	if err != nil {
		return Invalid("%s: send the password's %v hash in hexadecimal, as the list has them.", key, list.Kind)
	}
	return c.JSON(http.StatusOK, map[string]bool{"leaked": found})
}
