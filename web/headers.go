package web

import (
	"github.com/labstack/echo/v4"
)

// policy lets pages load nothing but our own files, and nobody frame them.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; media-src 'self'; " +
	"connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// SecureHeaders sets what every answer of ours carries.
func SecureHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		h := c.Response().Header()
		h["Content-Security-Policy"] = []string{policy}
		h["X-Content-Type-Options"] = []string{"nosniff"}
		h["X-Frame-Options"] = []string{"DENY"}
		h["Referrer-Policy"] = []string{"same-origin"}
		h["Cross-Origin-Opener-Policy"] = []string{"same-origin"}
		h["Cache-Control"] = []string{"no-store"}
		return next(c)
	}
}
