package admin

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/passwords"
	"authguard/web"
)

// The types of the API's problems, beside those of package web.
const (
	notFound = "not-found"
	conflict = "conflict"
)

// answering turns what a handler returns as an error into problem+json.
func (a *API) answering(h echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		err := h(c)
		if err == nil || c.Response().Committed {
			return err
		}
		p := problemOf(err)
		if p.Status >= http.StatusInternalServerError {
			a.Log.Error("administration failed", "path", c.Path(), "who", Who(c), "error", err)
		}
		return web.WriteProblem(c, p)
	}
}

// problemOf is an error as it is told: what happened and what to do next.
// Whoever administers may read what broke.
func problemOf(err error) web.Problem {
	var input *badInput
	switch {
	case errors.As(err, &input):
		return asked(input.status, input.text)
	case errors.Is(err, control.ErrUnrecorded):
		return web.Problem{Type: "unrecorded", Title: "It was done, but is not on record", Status: http.StatusInternalServerError, Detail: words(err)}
	case errors.Is(err, control.ErrAsked):
		return asked(http.StatusBadRequest, words(err))
	case errors.Is(err, accounts.ErrUnknown):
		return asked(http.StatusNotFound, "there is no such account; `authguard user list` shows all of them")
	case errors.Is(err, accounts.ErrTaken):
		return web.Problem{
			Type: conflict, Title: "The name is taken", Status: http.StatusConflict,
			Detail: "the user name or the e-mail address is an account's already, as either of the two; choose another one",
		}
	}
	return passwordProblem(err)
}

func passwordProblem(err error) web.Problem {
	switch {
	case errors.Is(err, accounts.ErrTooShort):
		return asked(http.StatusBadRequest, "the password needs at least 8 characters")
	case errors.Is(err, passwords.ErrTooLong):
		return asked(http.StatusBadRequest, "the password has more than 72 bytes, which is all that bcrypt reads; choose a shorter one")
	case errors.Is(err, guard.ErrAccountName), errors.Is(err, accounts.ErrName):
		return asked(http.StatusBadRequest, "that is no account name: a name has 1 to 256 bytes of UTF-8 text without control characters")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return web.Problem{Type: web.OverloadedProblem, Title: "It took too long", Status: http.StatusServiceUnavailable, Detail: words(err)}
	}
	return web.Problem{Type: "failed", Title: "Something broke in the server", Status: http.StatusInternalServerError, Detail: words(err)}
}

func asked(status int, detail string) web.Problem {
	if status == http.StatusNotFound {
		return web.Problem{Type: notFound, Title: "There is no such thing", Status: status, Detail: detail}
	}
	return web.Problem{Type: web.InvalidRequest, Title: "This cannot be done as it was asked", Status: status, Detail: detail}
}

// packagePrefix is what Go errors begin with and nobody else cares for.
var packagePrefix = regexp.MustCompile(`\b(accounts|control|guard|lists|captchamode|audit|sessions|passwords|database): `)

// words is an error's text without its package names and on one line.
func words(err error) string {
	text := strings.ReplaceAll(err.Error(), control.ErrAsked.Error()+": ", "")
	text = packagePrefix.ReplaceAllString(text, "")
	return strings.ReplaceAll(text, "\n", "; ")
}
