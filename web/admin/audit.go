package admin

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/internal/events"
	"authguard/web"
	"authguard/web/pages"
)

// audit is GET /api/audit: the audit log of all realms or of one, newest first unless order=oldest. With format=csv or
// jsonl it returns all matching rows as a file.
func (a *API) audit(c echo.Context) (any, error) {
	query, err := control.AuditQueryOf(c.QueryParams())
	if err != nil {
		return nil, err
	}
	all := c.QueryParam("realm") == ""
	format, err := fileFormat(c)
	if err != nil {
		return nil, err
	}
	if format != "" {
		return nil, a.export(c, format, query, all)
	}
	return a.of(c).Audit(c.Request().Context(), query, all)
}

// export streams all matching rows as a file.
func (a *API) export(c echo.Context, format string, query control.AuditQuery, all bool) error {
	name := "audit-" + a.of(c).Now().UTC().Format("2006-01-02-1504")
	return a.file(c, name, format, control.AuditColumns(), func(row line) error {
		return a.of(c).ExportAudit(c.Request().Context(), by(c).Who, format, query, all,
			func(e control.Event) error { return row(e.Cells(), e) })
	})
}

// A line writes one row of a file: its cells as CSV, or the whole row as JSON.
type line func(cells []string, whole any) error

// file streams a file row by row, so memory stays bounded. It ends if the client disconnects or stops reading. CSV
// cells cannot become spreadsheet formulas (CSV injection).
func (a *API) file(c echo.Context, name, format string, columns []string, rows func(row line) error) error {
	to := &stream{c: c, control: http.NewResponseController(c.Response()), name: name + "." + format}
	buffer := bufio.NewWriterSize(to, 64<<10)
	lines, table := json.NewEncoder(buffer), csv.NewWriter(buffer)
	to.kind = "application/jsonl"
	row := func(_ []string, whole any) error { return lines.Encode(whole) }
	if format == "csv" {
		table.UseCRLF = true // RFC 4180
		to.kind = "text/csv; charset=utf-8; header=present"
		row = func(cells []string, _ any) error {
			for i := range cells {
				cells[i] = events.Cell(cells[i])
			}
			return table.Write(cells)
		}
		if err := table.Write(columns); err != nil {
			return err
		}
	}
	err := rows(row)
	table.Flush()
	switch {
	case err == nil:
		to.begin() // even without rows
		return errors.Join(table.Error(), buffer.Flush())
	case c.Response().Committed: // a truncated file must not look complete
		a.Log.Error("an export ended early", "file", to.name, "who", by(c).Who, "error", err)
		panic(http.ErrAbortHandler)
	}
	return err
}

// A stream sends a file while it is generated. An error before its first bytes becomes a problem response.
type stream struct {
	c          echo.Context
	control    *http.ResponseController
	kind, name string
}

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.begin()
	_ = s.control.SetWriteDeadline(time.Now().Add(writeWithin))
	return s.c.Response().Write(p)
}

func (s *stream) begin() {
	if s.c.Response().Committed {
		return
	}
	h := s.c.Response().Header()
	h.Set(echo.HeaderContentType, s.kind)
	h.Set(echo.HeaderContentDisposition, fmt.Sprintf("attachment; filename=%q", s.name))
	_ = s.control.SetReadDeadline(time.Time{}) // the request has been read
	s.c.Response().WriteHeader(http.StatusOK)
}

func (s *Site) auditPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	view := pages.AuditView{Admin: around}
	if view.Query, err = control.AuditQueryOf(c.QueryParams()); err == nil {
		view.Query.Limit = pages.AuditRows
		view.Query.Zone = cmp.Or(view.Query.Zone, "Local")
		if view.Query.Kind+view.Query.What == "" {
			view.Query.Challenges = cmp.Or(view.Query.Challenges, "hide")
		}
		view.AuditPage, err = s.of(c).Audit(c.Request().Context(), view.Query, false)
	}
	status := http.StatusOK
	if err != nil {
		notice, err := s.failed(c, err)
		if err != nil {
			return err
		}
		status, view.Problem = http.StatusBadRequest, pages.AuditProblem(notice.Text)
	}
	page, err := pages.RenderAudit(view)
	return web.WritePage(c, status, page, err)
}
