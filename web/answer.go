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

// A Problem is an answer of RFC 9457. Type is a bare word: the contract's name
// for the answer. Handlers return one as their error; it is then written as
// JSON or as a page, whichever the client wants.
type Problem struct {
	Type      string               `json:"type"`
	Title     string               `json:"title"`
	Status    int                  `json:"status"`
	Detail    string               `json:"detail,omitempty"`
	Challenge *challenge.Challenge `json:"challenge,omitempty"`
	// RetryAfter is in whole seconds, as in the header.
	RetryAfter int `json:"retry_after,omitempty"`
	// Login is the login page that leads back to what was asked for.
	Login string `json:"login,omitempty"`

	key    string // of the text that Detail is the English of; empty: it has no other
	values []string
}

// The types of problems.
const (
	WrongCredentials  = "wrong-credentials"
	ChallengeRequired = "challenge-required"
	SlowDown          = "slow-down"
	OverloadedProblem = "overloaded"
	InvalidRequest    = "invalid-request"
	BadAccount        = "bad-account"
)

// Error is the detail, or the title of a problem without one.
func (p Problem) Error() string {
	if p.Detail == "" {
		return p.Title
	}
	return p.Detail
}

// Invalid is the problem of a request that cannot be used (400), in words for
// its sender, who is a program or an administrator.
func Invalid(format string, args ...any) Problem {
	return Problem{Type: InvalidRequest, Title: "Invalid request", Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...)}
}

// Unusable is the problem of a request that cannot be used, in words for anybody:
// a key of package texts, and values for the text.
func Unusable(status int, key string, values ...string) Problem {
	p := refusal(status, key, values...)
	p.Type, p.Title = InvalidRequest, "Invalid request"
	return p
}

// refusal is a problem that its status names, in words for anybody.
func refusal(status int, key string, values ...string) Problem {
	return Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: texts.English().Say(key, values...), key: key, values: values,
	}
}

// Words is the detail in the language of a page. It is empty where there is only
// the English of a program's mistake, and the page is in another language.
func (p Problem) Words(page pages.Page) string {
	switch {
	case p.key != "":
		return page.T(p.key, p.values...)
	case page.Lang() == texts.English().Tag():
		return p.Detail
	}
	return ""
}

// Write answers with problem+json.
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

// problemOf is an error as strangers see it: they learn nothing about what broke.
// known is false for errors that the operator has to hear of.
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

// errorHandler answers what a handler returned as an error.
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

// answer is a problem as JSON, or the page that says the same.
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

// retryAfter is a wait in whole seconds, rounded up, at least one.
func retryAfter(d time.Duration) int { return max(1, int(math.Ceil(d.Seconds()))) }

// WritePage answers with a page, unless it could not be drawn.
func WritePage(c echo.Context, status int, page []byte, err error) error {
	if err != nil {
		return err
	}
	c.Response().Header().Set("Content-Length", strconv.Itoa(len(page))) // one piece, not chunks
	return c.HTMLBlob(status, page)
}
