package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/web"
)

// readyWithin is how long finding out may take: whoever asks gives up soon.
const readyWithin = 2 * time.Second

// healthy is GET /healthz: the process answers.
func healthy(c echo.Context) error { return c.String(http.StatusOK, "ok\n") }

// ready is GET /readyz: 200 if logins can be decided, 503 and why if not.
func (d Deps) ready(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyWithin)
	defer cancel()
	if err := d.Ready(ctx); err != nil {
		return web.WriteProblem(c, web.Problem{
			Type: "not-ready", Title: "The server cannot do its work", Status: http.StatusServiceUnavailable, Detail: words(err),
		})
	}
	return c.String(http.StatusOK, "ready\n")
}
