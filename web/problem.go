package web

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
)

// A Problem is an answer of RFC 9457. Type is a bare word: the contract's name
// for the answer.
type Problem struct {
	Type      string               `json:"type"`
	Title     string               `json:"title"`
	Status    int                  `json:"status"`
	Detail    string               `json:"detail,omitempty"`
	Challenge *challenge.Challenge `json:"challenge,omitempty"`
	// RetryAfter is in whole seconds, as in the header.
	RetryAfter int `json:"retry_after,omitempty"`
}

// The types of problems.
const (
	WrongCredentials  = "wrong-credentials"
	ChallengeRequired = "challenge-required"
	SlowDown          = "slow-down"
	OverloadedProblem = "overloaded"
	InvalidRequest    = "invalid-request"
)

// WriteProblem answers with problem+json.
func WriteProblem(c echo.Context, p Problem) error {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(p); err != nil {
		return err
	}
	return c.Blob(p.Status, "application/problem+json", b.Bytes())
}

// setRetryAfter sets the header, rounded up to whole seconds, at least one.
func setRetryAfter(h http.Header, d time.Duration) int {
	seconds := max(1, int(math.Ceil(d.Seconds())))
	h.Set("Retry-After", strconv.Itoa(seconds))
	return seconds
}

// WantsJSON reports whether the answer should be JSON: Accept names it before
// HTML, or the request was JSON and did not ask for HTML.
func WantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	json, html := strings.Index(accept, "json"), strings.Index(accept, "html")
	if json >= 0 {
		return html < 0 || json < html
	}
	return html < 0 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json")
}

// buffers are used again: an attack gets very many pages.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// writePage answers with a whole page or an error, never with half of one.
func writePage(c echo.Context, status int, render func(io.Writer) error) error {
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	b.Reset()
	if err := render(b); err != nil {
		return err
	}
	c.Response().Header().Set("Content-Length", strconv.Itoa(b.Len())) // one piece, not chunks
	return c.HTMLBlob(status, b.Bytes())
}
