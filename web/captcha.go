package web

import (
	"bytes"
	"errors"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode/challenge"
)

// Media is GET /captcha/{id}.png and .wav: a challenge that was issued, until
// it is spent.
func Media(challenges *challenge.Desk) echo.HandlerFunc {
	return func(c echo.Context) error {
		file := c.Param("file")
		ext := path.Ext(file)
		m, err := challenges.Media(c.Request().Context(), strings.TrimSuffix(file, ext), strings.TrimPrefix(ext, "."))
		switch {
		case errors.Is(err, challenge.ErrGone):
			return refusal(http.StatusNotFound, "problem.challenge-over")
		case errors.Is(err, challenge.ErrBusy):
			p := refusal(http.StatusServiceUnavailable, "problem.busy")
			p.Type, p.Title, p.RetryAfter = OverloadedProblem, "Too much to do right now: try again shortly", 1
			return p
		case err != nil:
			return err
		}
		c.Response().Header().Set("Content-Type", m.Type)
		http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(m.Body))
		return nil
	}
}
