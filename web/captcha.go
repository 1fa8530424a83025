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

// Media adds GET and HEAD /captcha/{id}.png and .wav, which serve a challenge until it is spent.
func Media(e *echo.Echo, challenges *challenge.Issuer) {
	file(e, "/captcha/:file", func(c echo.Context) error {
		name := c.Param("file")
		ext := path.Ext(name)
		m, err := challenges.Media(c.Request().Context(), strings.TrimSuffix(name, ext), strings.TrimPrefix(ext, "."))
		switch {
		case errors.Is(err, challenge.ErrGone):
			return refusal(http.StatusNotFound, "problem.challenge-over")
		case errors.Is(err, challenge.ErrBusy):
			p := refusal(http.StatusServiceUnavailable, "problem.busy")
			p.Type, p.Title, p.RetryAfter = OverloadedProblem, "The server is busy: try again shortly", 1
			return p
		case err != nil:
			return err
		}
		c.Response().Header().Set("Content-Type", m.Type)
		http.ServeContent(c.Response(), c.Request(), "", time.Time{}, bytes.NewReader(m.Body))
		return nil
	})
}
