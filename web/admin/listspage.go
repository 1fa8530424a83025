package admin

import (
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/web"
	"authguard/web/pages"
)

func (s *Site) listsPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	return s.showLists(c, http.StatusOK, pages.ListsView{Admin: around,
		Add: pages.ListsForm{Verdict: string(lists.Block)}})
}

func (s *Site) showLists(c echo.Context, status int, v pages.ListsView) (err error) {
	if v.Query, err = listQuery(c); err != nil {
		v.Query.Verdict = ""
	}
	if page, err := number(c, "page", 1); err == nil {
		v.Page = int(page)
	}
	v.Selected = c.QueryParams()["remove"]
	if v.Listed, err = s.of(c).Lists.Listed(c.Request().Context(), v.Query); err != nil {
		return err
	}
	page, err := pages.RenderLists(v)
	return web.WritePage(c, status, page, err)
}

// importForm is POST /lists/import. It shows the plan for the typed or uploaded text and imports after a confirmation,
// without the ranges that would lock out the administrator or all clients behind a proxy, unless these are confirmed.
func (s *Site) importForm(c echo.Context, session *web.Session) error {
	f, err := readUpload(c, session)
	if err != nil {
		return err
	}
	if f["file"] != "" {
		f["text"] = f["file"]
	}
	q := lists.ImportLists{Text: f["text"], Verdict: lists.Verdict(f["verdict"]), For: f["for"], Note: f["note"],
		SkipBad: f["skip_bad"] == "true", DryRun: f["confirm"] != "true"}
	q.SkipDoubtful = !q.DryRun && f["lock_out"] != "true"
	if own := s.Login.Edge.Client(c.Request()).Address; own.IsValid() {
		q.From = own.String()
	}
	change, err := s.of(c).Do(c.Request().Context(), s.by(c, session), q)
	if !q.DryRun && err == nil {
		return s.shown(c, session, f, control.Form{}, change, nil)
	} else if !q.DryRun {
		return s.outcome(c, session, f, pages.Notice{}, err)
	}
	plan := new(lists.Plan)
	if err == nil {
		plan, _ = change.Answer.(*lists.Plan)
	}
	view := pages.ListsView{Admin: s.around(c, session, "/lists"), Plan: plan, Add: pages.ListsForm{Text: q.Text,
		Verdict: f["verdict"], For: f["for"], Note: f["note"]}}
	if err != nil {
		notice, err := s.failed(c, err)
		if err != nil {
			return err
		}
		view.Plan, view.Problem = nil, notice.Text
		return s.showLists(c, http.StatusUnprocessableEntity, view)
	}
	return s.showLists(c, http.StatusOK, view)
}

// maxUpload allows the text twice, typed and as a file, plus the rest of the form.
const maxUpload = 2*lists.MaxImport + 1<<16

// readUpload reads the import form with its optional file, in memory only.
func readUpload(c echo.Context, session *web.Session) (web.Form, error) {
	c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, maxUpload)
	parts, err := c.Request().MultipartReader()
	if err != nil {
		return nil, echo.NewHTTPError(http.StatusUnsupportedMediaType, "Send the form of the page IP lists.")
	}
	f := web.Form{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		var text []byte
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(part, lists.MaxImport+1))
		}
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) || len(text) > lists.MaxImport {
			return nil, echo.NewHTTPError(http.StatusRequestEntityTooLarge,
				"The list is larger than 1 MiB. Nothing was changed. Import it in parts, or add the file to the setting lists.")
		}
		name := ""
		if err == nil {
			name = part.FormName()
		}
		if _, twice := f[name]; err != nil || twice {
			return nil, echo.NewHTTPError(http.StatusBadRequest,
				"The form could not be read. Nothing was changed. Go back and try again.")
		}
		f[name] = strings.ToValidUTF8(string(text), "\uFFFD")
	}
	if !session.ValidCSRF(f["csrf"]) {
		return nil, echo.NewHTTPError(http.StatusForbidden,
			"This form belongs to an earlier sign-in. Nothing was changed. Go back, reload the page and try again.")
	}
	return f, nil
}
