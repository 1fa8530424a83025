package admin

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/operation"
)

// maxImport limits an imported file, in bytes.
const maxImport = 4 << 30

// A finish is the last line of a failed upload.
type finish struct {
	Error    string                 `json:"error,omitempty"`
	Problems []accounts.LineProblem `json:"problems,omitempty"`
	More     int                    `json:"more,omitempty"`
}

// upload is an operation of the table whose body is a file; its fields are in the query. The response is 200 with lines
// of JSON: {"done","total"} for progress, then the answer, or a finish. What can be rejected without the file is a
// problem.
func (a *API) upload(c echo.Context, o control.Operation, q operation.Uploaded) (any, error) {
	fill(q, c.QueryParam)
	size, err := number(c, "size", max(c.Request().ContentLength, 0))
	if err != nil {
		return nil, err
	}
	write := startLines(c)
	file := http.MaxBytesReader(c.Response(), c.Request().Body, maxImport)
	// If the rest of the file is left to net/http, it closes a full-duplex connection during the next request.
	defer func() { _, _ = io.Copy(io.Discard, file) }()
	q.Upload(file, size,
		func(done, total int64) { write(map[string]int64{"done": done, "total": total}) })
	change, err := a.of(c).Operate(c.Request().Context(), o, by(c), q)
	switch {
	case errors.Is(err, operation.ErrAsked) && !c.Response().Committed:
		return nil, err
	case err != nil:
		write(a.finished(c, err))
	default:
		write(change.Answer)
	}
	return nil, nil
}

func (a *API) finished(c echo.Context, err error) finish {
	var refused *accounts.ImportError
	if errors.As(err, &refused) {
		for i := range refused.Problems {
			p := &refused.Problems[i]
			p.Text = packagePrefix.ReplaceAllString(p.Text, "")
		}
		return finish{Problems: refused.Problems, More: refused.More}
	}
	a.Log.Error("import failed", "who", by(c).Who, "error", err)
	return finish{Error: problemOf(err).Detail}
}

// startLines prepares a response of JSON lines, written while the request is still being read. It lifts the server's
// time limits, because hashing a long file takes long. If the client disconnects, nothing is imported.
func startLines(c echo.Context) (write func(line any)) {
	control := http.NewResponseController(c.Response())
	// A connection that does not support these has no such limits.
	_ = control.EnableFullDuplex()
	_ = control.SetReadDeadline(time.Time{})
	_ = control.SetWriteDeadline(time.Time{})
	to := json.NewEncoder(c.Response())
	return func(line any) {
		c.Response().Header().Set(echo.HeaderContentType, "application/x-ndjson")
		if to.Encode(line) == nil {
			_ = control.Flush()
		}
	}
}
