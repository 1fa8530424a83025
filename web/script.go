package web

import (
	"github.com/labstack/echo/v4"

	"authguard/web/static"
	"authguard/web/texts"
)

// ScriptPath is the script that shows challenges in an app's own page, below the base.
const ScriptPath = "/client.js"

// Script adds GET and HEAD of ScriptPath.
func Script(e *echo.Echo, look *Look) {
	file(e, ScriptPath, func(c echo.Context) error {
		languages := texts.Standard()
		if look != nil && look.now.Load() != nil {
			languages = look.now.Load().Languages()
		}
		return static.ServeClient(c.Response(), c.Request(), languages)
	})
}
