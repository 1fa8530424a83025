package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
	"authguard/web/pages"
	"authguard/web/texts"
)

// A Problem is an error response (RFC 9457). Type is a bare word from the API contract. Handlers return a Problem as
// their error; the client gets JSON or a page, as it prefers.
type Problem struct {
	Type       string               `json:"type"`
	Title      string               `json:"title"`
	Status     int                  `json:"status"`
	Detail     string               `json:"detail,omitempty"`
	Challenge  *challenge.Challenge `json:"challenge,omitempty"`
	RetryAfter int                  `json:"retry_after,omitempty"` // in whole seconds, as in the header
	Login      string               `json:"login,omitempty"`       // the login page that leads back to the requested page

	key    string // of Detail's text, which is its English; empty: not translated
	values []string
}

// Types of problems.
const (
	WrongCredentials  = "wrong-credentials"
	ChallengeRequired = "challenge-required"
	SlowDown          = "slow-down"
	OverloadedProblem = "overloaded"
	InvalidRequest    = "invalid-request"
	BadAccount        = "bad-account"
)

// Error returns the detail or, without one, the title.
func (p Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Invalid is the problem of an invalid request (400) from a program or an administrator. It is not translated.
func Invalid(format string, args ...any) Problem {
	return Problem{Type: InvalidRequest, Title: "Invalid request", Status: http.StatusBadRequest,
		Detail: fmt.Sprintf(format, args...)}
}

// Unusable is the problem of an invalid request from a user: key and values are for package texts.
func Unusable(status int, key string, values ...string) Problem {
	p := refusal(status, key, values...)
	p.Type, p.Title = InvalidRequest, "Invalid request"
	return p
}

// refusal is a problem with the title of its status and a translated detail.
func refusal(status int, key string, values ...string) Problem {
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: texts.English().Say(key, values...), key: key, values: values,
	}
}

// Words returns the detail in the language of a page; empty if it exists in English only and the page is in another
// language.
func (p Problem) Words(page pages.Page) string {
	switch {
	case p.key != "":
		return page.T(p.key, p.values...)
	case page.Lang() == texts.English().Tag():
		return p.Detail
	}
	return ""
}

// Write sends the problem as problem+json.
func (p Problem) Write(w http.ResponseWriter) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(p); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	_, err := w.Write(b.Bytes())
	return err
}

// problemOf converts an error to a response that reveals no internals. The caller logs the error unless known.
func problemOf(err error) (p Problem, known bool) {
	p = Problem{Type: "about:blank", Status: http.StatusInternalServerError}
	he := new(echo.HTTPError)
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &he):
		p.Status, known = he.Code, true
		if text, ok := he.Message.(string); ok && text != http.StatusText(he.Code) {
			p.Detail = text
		}
	case errors.Is(err, ErrSessions):
		p.Status, p.RetryAfter = http.StatusServiceUnavailable, 1
	}
	p.Title = http.StatusText(p.Status)
	return p, known
}

func errorHandler(look *Look, log *slog.Logger) echo.HTTPErrorHandler {
	return func(err error, c echo.Context) {
		if c.Response().Committed {
			return
		}
		p, known := problemOf(err)
		if !known && !gone(c) {
			log.Error("request failed", "path", c.Path(), "error", err)
		}
		failed := answer(c, p, func() ([]byte, error) {
			page := look.Page(c.Response().Header(), c.Request())
			return pages.RenderError(pages.ErrorView{Page: page, Status: p.Status, Detail: p.Words(page)})
		})
		if failed != nil {
			log.Error("error page failed", "error", failed)
		}
	}
}

func answer(c echo.Context, p Problem, draw func() ([]byte, error)) error {
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if WantsJSON(c.Request()) {
		return p.Write(c.Response())
	}
	page, err := draw()
	return WritePage(c, p.Status, page, err)
}

func retryAfter(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// WritePage sends a page, unless err is set.
func WritePage(c echo.Context, status int, page []byte, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Length", strconv.Itoa(len(page))) // one piece, not chunks
	return c.HTMLBlob(status, page)
}
