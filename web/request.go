package web

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge/remote"
	"authguard/web/client"
)

// policy lets pages load only our own files and forbids framing.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; media-src 'self'; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// policyFor is the policy of a page with a provider's widget, and allows that provider only.
func policyFor(s remote.Service) string {
	open := policy
	for directive, sources := range map[string][]string{"style-src": s.Styles, "script-src": s.Scripts,
		"connect-src": s.Connects} {
		if len(sources) > 0 {
			open = strings.Replace(open, directive+" 'self'", directive+" 'self' "+strings.Join(sources, " "), 1)
		}
	}
	return open + "; frame-src " + strings.Join(s.Frames, " ")
}

// SetHeaders sets the headers of every response.
func SetHeaders(h http.Header) {
	h["Content-Security-Policy"] = []string{policy}
	h["X-Content-Type-Options"] = []string{"nosniff"}
	h["X-Frame-Options"] = []string{"DENY"}
	h["Referrer-Policy"] = []string{"same-origin"}
	h["Cross-Origin-Opener-Policy"] = []string{"same-origin"}
	h["Cache-Control"] = []string{"no-store"}
}

func secureHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		SetHeaders(c.Response().Header())
		return next(c)
	}
}

// Timed reports the time until a response began: the client sets the pace of a stream after that. The route is a
// pattern such as /login, or empty for an unknown path.
func Timed(tell func(r *http.Request, route string, status int, took time.Duration)) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			began := time.Now()
			c.Response().Before(func() { tell(c.Request(), c.Path(), c.Response().Status, time.Since(began)) })
			return next(c)
		}
	}
}

// sameOrigin rejects forms and JSON from pages of other sites (CSRF): such a page must not sign its visitors in or out.
func sameOrigin(origin string) echo.MiddlewareFunc {
	protection := http.NewCrossOriginProtection()
	if origin != "" {
		_ = protection.AddTrustedOrigin(origin) // the configuration was validated
	}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if protection.Check(c.Request()) != nil {
				return refusal(http.StatusForbidden, "problem.other-site")
			}
			return next(c)
		}
	}
}

func recovered(log *slog.Logger) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) (err error) {
			defer func() {
				if r := recover(); r != nil {
					if r == http.ErrAbortHandler {
						panic(r)
					}
					log.Error("handler panicked", "path", c.Path(), "panic", r)
					err = echo.NewHTTPError(http.StatusInternalServerError)
				}
			}()
			return next(c)
		}
	}
}

// MaxBody is the largest form and the largest decision API body, in bytes.
const MaxBody = 16 << 10

// ReadJSON decodes a body of one JSON object, at most limit bytes, into a struct. All integrations use it.
// encoding/json takes the last of two equal names and folds case. To it "ADDRESS" and "addre\u017fs" (with a long s)
// are an address, but not to a proxy in front (R11). Unknown names are errors, too: a misspelled "until" must not
// become a permanent block. The error is a Problem.
func ReadJSON(c echo.Context, limit int64, into any) error {
	body, err := readBody(c, limit)
	if err != nil {
		return err
	}
	if jsontext.Value(body).Kind() != '{' {
		return Invalid("Send one JSON object.")
	}
	// Not with a Decoder: Unmarshal reuses its own, and each has 4 KiB.
	if err := json.Unmarshal(body, into, json.RejectUnknownMembers(true)); err != nil {
		return Invalid("%s", jsonWords(err))
	}
	return nil
}

func readBody(c echo.Context, limit int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(c.Response(), c.Request().Body, limit))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, Unusable(http.StatusRequestEntityTooLarge, "problem.too-large", "bytes", strconv.FormatInt(limit, 10))
	}
	if err != nil {
		return nil, Unusable(http.StatusBadRequest, "problem.body")
	}
	return body, nil
}

// jsonWords describes a JSON error without Go's terms.
func jsonWords(err error) string {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax) && errors.Is(err, jsontext.ErrDuplicateName):
		return fmt.Sprintf("Send the field %.40q only once.", syntax.JSONPointer.LastToken())
	case errors.As(err, &syntax) && strings.HasSuffix(syntax.Err.Error(), "after top-level value"):
		return "Send a single JSON object with nothing after it."
	case errors.As(err, &syntax):
		return "Invalid JSON: " + strings.TrimPrefix(syntax.Err.Error(), "jsontext: ") + "."
	case errors.Is(err, json.ErrUnknownName) && errors.As(err, &meaning):
		return fmt.Sprintf("Unknown field %.40q.", meaning.JSONPointer.LastToken())
	case errors.As(err, &meaning):
		kind := map[jsontext.Kind]string{'n': "null", 't': "boolean", 'f': "boolean", '0': "number", '"': "string",
			'{': "object", '[': "list"}
		return fmt.Sprintf("The field %.40q must not be a JSON %s.", meaning.JSONPointer.LastToken(), kind[meaning.JSONKind])
	}
	return "Invalid JSON."
}

// SentJSON reports whether a request declares a JSON body, which a form of another site cannot do.
func SentJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}

// A Form holds the fields of a request, each at most once.
type Form map[string]string

// ReadForm reads the named fields of a form or a JSON object and ignores others. A repeated field, or one that is not
// text, is an error: another parser could read another account name (R11). The error is a Problem.
func ReadForm(c echo.Context, fields ...string) (Form, error) {
	if SentJSON(c.Request()) {
		return readJSONForm(c, fields)
	}
	kind, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, Unusable(http.StatusUnsupportedMediaType, "problem.kind")
	}
	body, err := readBody(c, MaxBody)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(string(body)) // body only: names in the URL's query do not count
	if err != nil {
		return nil, Unusable(http.StatusBadRequest, "problem.form")
	}
	f := make(Form, len(fields))
	for _, name := range fields {
		switch all := values[name]; len(all) {
		case 0:
		case 1:
			f[name] = all[0]
		default:
			return nil, Unusable(http.StatusBadRequest, "problem.twice", "field", name)
		}
	}
	return f, nil
}

func readJSONForm(c echo.Context, fields []string) (Form, error) {
	var all map[string]jsontext.Value
	if err := ReadJSON(c, MaxBody, &all); err != nil {
		return nil, err
	}
	f := make(Form, len(fields))
	for _, name := range fields {
		value, sent := all[name]
		if !sent {
			continue
		}
		var text string
		if value.Kind() != '"' || json.Unmarshal(value, &text) != nil {
			return nil, Invalid("The field %s must be a JSON string.", name)
		}
		f[name] = text
	}
	return f, nil
}

// LocalPath returns next if it is a path of this site, otherwise "/" (open redirect). To browsers, "//host", "/\host"
// and paths after control characters are other sites.
func LocalPath(next string) string {
	if len(next) > maxNext || !strings.HasPrefix(next, "/") || strings.ContainsFunc(next, unicode.IsControl) ||
		strings.Contains(next, `\`) || strings.HasPrefix(next, "//") {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") {
		return "/"
	}
	return next
}

// WantsJSON reports whether the client expects JSON: an API path, Accept with JSON before HTML, or a JSON request that
// does not accept HTML.
func WantsJSON(r *http.Request) bool {
	for _, api := range []string{"/v1", "/api"} {
		if rest, ok := strings.CutPrefix(r.URL.Path, api); ok && (rest == "" || rest[0] == '/') {
			return true
		}
	}
	return client.WantsJSON(r)
}

// clientKey is where a request's context keeps its Client.
const clientKey = "client"

// client finds the request's client once.
func (l *Login) client(c echo.Context) Client {
	if found, ok := c.Get(clientKey).(Client); ok {
		return found
	}
	found := l.Edge.Client(c.Request())
	c.Set(clientKey, found)
	return found
}

// strictTransport sets HSTS (RFC 6797) for TLS clients, for this host and half a year. Otherwise an attacker on the
// network reads and redirects the first plain request.
func (l *Login) strictTransport(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if client := l.client(c); client.Secure && l.Secure.Of(client) {
			c.Response().Header().Set("Strict-Transport-Security", "max-age=15768000")
		}
		return next(c)
	}
}

// asksForAnother reports whether a path is one of those, where the requested site may differ from the Host header.
func asksForAnother(path string) bool {
	return slices.Contains([]string{verifyPath, deniedPath, addressPath}, path)
}

// cutURL splits a URL without decoding or normalizing it.
func cutURL(text string) (scheme, host, uri string) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return "", "", text
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return strings.ToLower(scheme), rest[:i], rest[i:]
	}
	return strings.ToLower(scheme), rest, "/"
}

func baseOf(r *http.Request) string {
	base, _ := r.Context().Value(baseKey{}).(string)
	return base
}
