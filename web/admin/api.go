package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/attacks"
	"authguard/internal/audit"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/internal/mfa"
	"authguard/internal/operation"
	"authguard/internal/passwords"
	"authguard/internal/sessions"
	"authguard/web"
)

// An API is the admin console for programs: JSON in, JSON out, errors as problem+json regardless of Accept. The admin
// listener and the commands' socket serve the same API.
type API struct {
	// Control is the default realm's. Realms returns those of all realms, from which ?realm= chooses; it may be nil.
	Control *control.Control
	Realms  func() []*control.Control
	Audit   *audit.Log
	Probes  *control.Probes     // for doctor, at the public listener; nil rejects probes
	More    []control.Operation // beside those of the table
	Log     *slog.Logger
}

// Routes adds the API's paths: inquiries, and the table of operations. admit accepts or rejects a request and sets
// byKey.
func (a *API) Routes(e *echo.Echo, admit echo.MiddlewareFunc) {
	add := func(route string, scope operation.Scope, where control.Where, h question) {
		method, path, _ := strings.Cut(route, " ")
		e.Add(method, "/api"+path, a.answering(h), func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c echo.Context) error {
				c.Set(accessKey, access{scope, where == control.OneRealm})
				return next(c)
			}
		}, admit)
	}
	for _, o := range a.operations() {
		if o.Route != "" && o.Where != control.OwnAccount {
			add(o.Route, o.Scope, o.Where, a.operate(o))
		}
	}
	for _, i := range a.inquiries() {
		add(i.route, i.scope, i.where, i.h)
	}
}

func (a *API) operations() []control.Operation { return append(control.Operations(), a.More...) }

type probeQuestion struct {
	Token string `json:"token"`
}

// expectProbe is POST /api/probe. It announces a request with this token at the public listener.
func (a *API) expectProbe(c echo.Context) (any, error) {
	var q probeQuestion
	if err := readJSON(c, maxQuestion, &q); err != nil {
		return nil, err
	}
	if len(q.Token) < 16 || a.Probes == nil {
		return nil, asked(http.StatusBadRequest, "send a token of at least 16 random characters")
	}
	a.Probes.Expect(q.Token, time.Now())
	return done, nil
}

// probe is GET /api/probe?token=. It returns the request that arrived, or null.
func (a *API) probe(c echo.Context) (any, error) {
	var seen *control.Probe
	if a.Probes != nil {
		seen = a.Probes.Seen(c.QueryParam("token"))
	}
	return map[string]*control.Probe{"seen": seen}, nil
}

const realmKey = "authguard.admin.realm"

// choose stores the realm of a request.
func (a *API) choose(c echo.Context) error {
	name := cmp.Or(c.QueryParam("realm"), guard.DefaultRealm)
	to := a.realm(name)
	if to == nil {
		return asked(http.StatusNotFound, fmt.Sprintf("unknown realm %.60q; the realms are: %s", name,
			strings.Join(a.realmNames(), ", ")))
	}
	c.Set(realmKey, to)
	return nil
}

// of returns the Control of the request's realm.
func (a *API) of(c echo.Context) *control.Control {
	if to, ok := c.Get(realmKey).(*control.Control); ok {
		return to
	}
	return a.Control
}

// realm returns the Control of a realm; nil if there is none.
func (a *API) realm(name string) *control.Control {
	if name == guard.DefaultRealm {
		return a.Control
	}
	if a.Realms != nil {
		for _, one := range a.Realms() {
			if one.Realm() == name {
				return one
			}
		}
	}
	return nil
}

func (a *API) realmNames() (all []string) {
	if a.Realms == nil {
		return []string{guard.DefaultRealm}
	}
	for _, one := range a.Realms() {
		all = append(all, one.Realm())
	}
	return all
}

// byKey is the request's key of its sender.
const byKey = "authguard.admin.by"

func by(c echo.Context) operation.By {
	by, ok := c.Get(byKey).(operation.By)
	if !ok {
		by.Who = "unknown"
	}
	by.Named = c.QueryParam("realm") != ""
	return by
}

// A question is an API handler. Its answer is written as JSON unless the handler has written a response.
type question func(c echo.Context) (answer any, err error)

var done = map[string]bool{"ok": true}

// maxQuestion limits a JSON body, in bytes.
const maxQuestion = 64 << 10

// number parses a positive integer from the query.
func number(c echo.Context, name string, otherwise int64) (int64, error) {
	text := c.QueryParam(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 63)
	if err != nil || n < 1 {
		return 0, web.Invalid("%s: %.20q is not a positive integer", name, text)
	}
	return n, nil
}

// listed makes JSON show an empty list as [], not null.
func listed[T any](all []T) []T { return append([]T{}, all...) }

// answering writes a handler's answer or a problem. Administrators can read the details of an internal error.
func (a *API) answering(h question) echo.HandlerFunc {
	return func(c echo.Context) error {
		var answer any
		err := a.choose(c)
		if err == nil {
			answer, err = h(c)
		}
		switch {
		case c.Response().Committed:
			return err
		case err == nil:
			return c.JSON(http.StatusOK, answer)
		}
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError {
			a.Log.Error("admin API failed", "path", c.Path(), "who", by(c).Who, "error", err)
		}
		return p
	}
}

// problemOf turns an error into a problem for the client: what happened and what to do next.
func problemOf(err error) (p web.Problem) {
	var refused operation.Refused
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refused):
		return web.Problem{Type: refused.Type, Title: refused.Title, Status: http.StatusForbidden, Detail: refused.Detail}
	case errors.Is(err, operation.ErrUnrecorded):
		return web.Problem{Type: "unrecorded", Title: "Done, but not recorded in the audit log",
			Status: http.StatusInternalServerError, Detail: words(err)}
	case errors.Is(err, operation.ErrAsked):
		return asked(http.StatusBadRequest, words(err))
	case errors.Is(err, attacks.ErrUnknown):
		return asked(http.StatusNotFound,
			"no such attack in this realm, or its record has expired; `authguard attack list` shows all")
	case errors.Is(err, lists.ErrNotListed), errors.Is(err, accounts.ErrTokenUnknown):
		return asked(http.StatusNotFound, words(err))
	case errors.Is(err, accounts.ErrUnknown):
		return asked(http.StatusNotFound, "no such account; `authguard user list` shows all")
	case errors.Is(err, accounts.ErrTaken), errors.Is(err, accounts.ErrTokenTaken):
		return web.Problem{Type: "conflict", Title: "Name already in use", Status: http.StatusConflict, Detail: words(err)}
	case errors.Is(err, accounts.ErrLast):
		return web.Problem{Type: "conflict", Title: "Last administrator", Status: http.StatusConflict, Detail: words(err)}
	case errors.Is(err, accounts.ErrGroup):
		return asked(http.StatusBadRequest, strings.TrimPrefix(err.Error(), "accounts: "))
	case errors.Is(err, mfa.ErrUnknown), errors.Is(err, sessions.ErrUnknown):
		return asked(http.StatusNotFound, words(err))
	case errors.Is(err, mfa.ErrCode), errors.Is(err, mfa.ErrEnrolled), errors.Is(err, mfa.ErrPasskey),
		errors.Is(err, mfa.ErrMost):
		return asked(http.StatusBadRequest, words(err))
	case errors.Is(err, accounts.ErrTooShort):
		return asked(http.StatusBadRequest, "the password must have at least 8 characters")
	case errors.Is(err, accounts.ErrLeaked):
		return asked(http.StatusBadRequest, words(err))
	case errors.Is(err, passwords.ErrTooLong):
		return asked(http.StatusBadRequest,
			"the password has more than 72 bytes, the maximum of bcrypt; choose a shorter one")
	case errors.Is(err, passwords.ErrNUL):
		return asked(http.StatusBadRequest, "the password contains a NUL character, which is not allowed; remove it")
	case errors.Is(err, guard.ErrAccountName), errors.Is(err, accounts.ErrName):
		return asked(http.StatusBadRequest,
			"invalid account name: use 1 to 256 bytes of UTF-8 without control, invisible or ambiguous characters")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return web.Problem{Type: web.OverloadedProblem, Title: "Timed out", Status: http.StatusServiceUnavailable,
			Detail: words(err)}
	}
	return web.Problem{Type: "failed", Title: "Internal error", Status: http.StatusInternalServerError, Detail: words(err)}
}

func asked(status int, detail string) web.Problem {
	if status == http.StatusNotFound {
		return web.Problem{Type: "not-found", Title: "Not found", Status: status, Detail: detail}
	}
	return web.Problem{Type: web.InvalidRequest, Title: "Invalid request", Status: status, Detail: detail}
}

// packagePrefix matches the package names in our errors, which mean nothing to users.
var packagePrefix = regexp.MustCompile(
	`\b(accounts|alerts|control|operation|guard|lists|codes|captchamode|audit|sessions|passwords|database|mfa|` +
		`policy): `)

// words returns an error's text on one line without package names.
func words(err error) string {
	text := strings.ReplaceAll(err.Error(), operation.ErrAsked.Error()+": ", "")
	text = packagePrefix.ReplaceAllString(text, "")
	return strings.ReplaceAll(text, "\n", "; ")
}
