package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/operation"
	"authguard/web"
)

// maxImport limits an imported file, in bytes.
const maxImport = 4 << 30

// A finish is the last line of the response.
type finish struct {
	Imported *int                   `json:"imported,omitempty"`
	Error    string                 `json:"error,omitempty"`
	Problems []accounts.LineProblem `json:"problems,omitempty"`
	More     int                    `json:"more,omitempty"`
}

// importUsers is POST /api/users/import?format=htpasswd|shadow|csv&size=BYTES&reason= with the file as the body. The
// response is 200 with lines of JSON: {"done","total"} for progress, then one with "imported", "problems" or "error".
// An import is atomic.
func (a *API) importUsers(c echo.Context) (any, error) {
	format := accounts.Format(c.QueryParam("format"))
	if format != accounts.Htpasswd && format != accounts.Shadow && format != accounts.CSV {
		return nil, web.Invalid("format: must be htpasswd, shadow or csv")
	}
	size, err := number(c, "size", max(c.Request().ContentLength, 1))
	if err != nil {
		return nil, err
	}
	why := c.QueryParam("reason")
	if len(why) > operation.MaxReason { // before reading the file
		return nil, web.Invalid("shorten the reason to at most %d bytes", operation.MaxReason)
	}
	write := startLines(c)
	n, err := a.of(c).Accounts.Import(c.Request().Context(), by(c).Who, accounts.ImportRequest{
		File: http.MaxBytesReader(c.Response(), c.Request().Body, maxImport), Format: format, Size: size,
		Groupless: !by(c).May(operation.Groups),
		Progress:  func(done, total int64) { write(map[string]int64{"done": done, "total": total}) },
	}, why)
	write(a.finished(c, n, err))
	return nil, nil
}

func (a *API) finished(c echo.Context, n int, err error) finish {
	var refused *accounts.ImportError
	switch {
	case err == nil:
		return finish{Imported: &n}
	case errors.As(err, &refused):
		for i := range refused.Problems {
			p := &refused.Problems[i]
			p.Text = packagePrefix.ReplaceAllString(p.Text, "")
		}
		return finish{Problems: refused.Problems, More: refused.More}
	}
	p := problemOf(err)
	a.Log.Error("import failed", "who", by(c).Who, "error", err)
	return finish{Error: p.Detail}
}

// startLines begins a response of JSON lines, written while the request is still being read. It lifts the server's time
// limits, because hashing a long file takes long. If the client disconnects, nothing is imported.
func startLines(c echo.Context) (write func(line any)) {
	control := http.NewResponseController(c.Response())
	// A connection that does not support these has no such limits.
	_ = control.EnableFullDuplex()
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	c.Response().Header().Set(echo.HeaderContentType, "application/x-ndjson")
	c.Response().WriteHeader(http.StatusOK)
	to := json.NewEncoder(c.Response())
	return func(line any) {
		if to.Encode(line) == nil {
			_ = control.Flush()
		}
	}
}
