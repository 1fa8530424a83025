package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/audit"
	"authguard/internal/control"
)

// An API is the administration for programs: JSON in, JSON out, errors as
// problem+json whatever Accept says. The administration's listener and the
// commands' socket serve the same one. It asks nobody who he is: whoever mounts
// it sees to that and calls SetWho.
type API struct {
	Control *control.Control
	Audit   *audit.Log
	Log     *slog.Logger
}

// Routes adds the API's paths to a group, which is /api by contract.
func (a *API) Routes(g *echo.Group) {
	add := func(method, path string, h echo.HandlerFunc) { g.Add(method, path, a.answering(h)) }
	add(http.MethodGet, "/overview", a.overview)
	add(http.MethodGet, "/status", a.overview)
	add(http.MethodGet, "/mode", a.mode)
	add(http.MethodPut, "/mode", a.setMode)
	add(http.MethodGet, "/explain", a.explain)
	add(http.MethodPost, "/unlock", a.unlock)
	add(http.MethodPost, "/forget", a.forget)
	add(http.MethodGet, "/lists", a.lists)
	add(http.MethodPost, "/lists", a.list)
	add(http.MethodDelete, "/lists", a.unlist)
	add(http.MethodGet, "/users", a.users)
	add(http.MethodPost, "/users", a.addUser)
	add(http.MethodPost, "/users/passwd", a.setPassword)
	add(http.MethodPost, "/users/disable", a.disableUser)
	add(http.MethodPost, "/users/import", a.importUsers)
	add(http.MethodGet, "/audit", a.recent)
}

// whoKey is where a request keeps who sent it.
const whoKey = "authguard.admin.who"

// SetWho says who sent the request, such as "admin:ann" or "cli:root": it goes
// on record with whatever is changed.
func SetWho(c echo.Context, who string) { c.Set(whoKey, who) }

// Who is what SetWho said; "unknown" if it was not called.
func Who(c echo.Context) string {
	if who, ok := c.Get(whoKey).(string); ok && who != "" {
		return who
	}
	return "unknown"
}

// A badInput is what is wrong with a request, in words for whoever sent it.
type badInput struct {
	status int
	text   string
}

func (b *badInput) Error() string { return b.text }

func bad(format string, args ...any) error {
	return &badInput{http.StatusBadRequest, fmt.Sprintf(format, args...)}
}

// maxQuestion is the largest JSON body that is read, in bytes.
const maxQuestion = 64 << 10

// read reads the one JSON object of a request. A field that is not known is an
// error: a misspelt "until" must not become a block for ever. Only what says
// that it is JSON is read, which no other site's form can say.
func read(c echo.Context, question any) error {
	r := c.Request()
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &badInput{http.StatusUnsupportedMediaType, "send JSON (Content-Type: application/json)"}
	}
	d := json.NewDecoder(http.MaxBytesReader(c.Response(), r.Body, maxQuestion))
	d.DisallowUnknownFields()
	err := d.Decode(question)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is more than one JSON object")
		}
	}
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return &badInput{http.StatusRequestEntityTooLarge, fmt.Sprintf("send at most %d bytes", maxQuestion)}
	}
	if err != nil {
		return bad("the JSON cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}

// address reads an address; empty is none.
func address(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return a, bad("%.60q is no IP address: write something like 192.0.2.7 or 2001:db8::7", text)
	}
	return a.Unmap().WithZone(""), nil
}

// done answers that something was done.
func done(c echo.Context) error { return c.JSON(http.StatusOK, map[string]bool{"ok": true}) }
