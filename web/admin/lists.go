package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/internal/lists"
	"authguard/web"
)

// lists is GET /api/lists?find=&verdict=&soon=true: the entries, and the IP lists from files.
func (a *API) lists(c echo.Context) (any, error) {
	q, err := listQuery(c)
	if err != nil {
		return nil, err
	}
	return a.of(c).Listed(c.Request().Context(), q)
}

func listQuery(c echo.Context) (q control.ListQuery, err error) {
	q = control.ListQuery{Find: c.QueryParam("find"), Verdict: lists.Verdict(c.QueryParam("verdict")),
		Soon: c.QueryParam("soon") == "true"}
	if q.Verdict != "" && q.Verdict != lists.Allow && q.Verdict != lists.Block {
		err = web.Invalid("verdict: must be allow or block, not %.20q", q.Verdict)
	}
	return q, err
}

type importQuestion struct {
	Text    string        `json:"text"`
	Verdict lists.Verdict `json:"verdict"`
	For     string        `json:"for"`
	Note    string        `json:"note"`
	SkipBad bool          `json:"skip_bad"`
	DryRun  bool          `json:"dry_run"`
	From    string        `json:"from"` // the IP address that must not lock itself out; empty if unknown
}

// maxImportQuestion allows lists.MaxImport with every line break escaped.
const maxImportQuestion = 2 * lists.MaxImport

// importLists is POST /api/lists/import: a text with one range per line. With dry_run it only returns the plan. One
// invalid line stops the import unless skip_bad skips such lines.
func (a *API) importLists(c echo.Context) (any, error) {
	var q importQuestion
	if !web.SentJSON(c.Request()) {
		return nil, asked(http.StatusUnsupportedMediaType, "send JSON (Content-Type: application/json)")
	}
	if err := web.ReadJSON(c, maxImportQuestion, &q); err != nil {
		return nil, err
	}
	request, err := q.request()
	if err != nil {
		return nil, err
	}
	if q.DryRun {
		return a.of(c).PlanLists(c.Request().Context(), request)
	}
	return a.of(c).ImportLists(c.Request().Context(), sender(c), request)
}

func (q importQuestion) request() (r control.ListImport, err error) {
	r = control.ListImport{Request: lists.Request{Verdict: q.Verdict, Note: q.Note, Forever: q.For == "forever"},
		Text: q.Text, SkipBad: q.SkipBad}
	if q.Verdict != lists.Allow && q.Verdict != lists.Block {
		return r, web.Invalid("verdict: must be allow or block, not %.20q", q.Verdict)
	}
	if !r.Forever {
		if r.For, err = hold(q.For); err != nil {
			return r, err
		}
	}
	r.From, err = address(q.From)
	return r, err
}

type prolongQuestion struct {
	CIDR string `json:"cidr"`
	For  string `json:"for"`
	because
}

// prolong is POST /api/lists/prolong. It sets how long an entry lasts from now; "for" is as in POST /api/lists.
func (a *API) prolong(c echo.Context, q prolongQuestion) (any, error) {
	err := prolong(c.Request().Context(), a.of(c), sender(c), q)
	return done, a.orNear(c, err, q.CIDR)
}

func prolong(ctx context.Context, to *control.Control, who string, q prolongQuestion) error {
	prefix, err := lists.ParsePrefix(q.CIDR)
	if err != nil {
		return web.Invalid("cidr: %s", words(err))
	}
	if q.For == "forever" {
		return to.Prolong(ctx, who, prefix, 0, q.Reason)
	}
	by, err := hold(q.For)
	if err != nil {
		return err
	}
	return to.Prolong(ctx, who, prefix, cmp.Or(by, lists.DefaultFor), q.Reason)
}

// edge is GET /api/edge?verdict=blocked|allowed&limited=&everything=: the ranges for an upstream firewall or proxy.
func (a *API) edge(c echo.Context) (any, error) {
	verdict, ok := map[string]guard.Verdict{"blocked": guard.Blocked, "allowed": guard.Allowed}[c.QueryParam("verdict")]
	if !ok {
		return nil, web.Invalid("verdict: must be blocked or allowed, not %.20q", c.QueryParam("verdict"))
	}
	return a.of(c).Edge(c.Request().Context(), verdict, c.QueryParam("limited") == "true",
		c.QueryParam("everything") == "true")
}

type listQuestion struct {
	CIDR    string        `json:"cidr"`
	Verdict lists.Verdict `json:"verdict"`
	For     string        `json:"for"`
	Note    string        `json:"note"`
	Force   bool          `json:"force"`
}

// list is POST /api/lists. "for" is a duration or "forever", one week by default. The answer is the entry.
func (a *API) list(c echo.Context, q listQuestion) (any, error) {
	request, err := q.request()
	if err != nil {
		return nil, err
	}
	return a.of(c).List(c.Request().Context(), sender(c), request)
}

func (q *listQuestion) request() (request lists.Request, err error) {
	request = lists.Request{Verdict: q.Verdict, Note: q.Note, Force: q.Force, Forever: q.For == "forever"}
	if request.Prefix, err = lists.ParsePrefix(q.CIDR); err != nil {
		return request, web.Invalid("cidr: %s", words(err))
	}
	if !request.Forever {
		if request.For, err = hold(q.For); err != nil {
			return request, err
		}
	}
	if q.Verdict != lists.Allow && q.Verdict != lists.Block {
		return request, web.Invalid("verdict: must be allow or block, not %.20q", q.Verdict)
	}
	return request, nil
}

// unlist is DELETE /api/lists?cidr=&reason=.
func (a *API) unlist(c echo.Context) (any, error) {
	prefix, err := lists.ParsePrefix(c.QueryParam("cidr"))
	if err != nil {
		return nil, web.Invalid("cidr: %s", words(err))
	}
	err = a.of(c).Unlist(c.Request().Context(), sender(c), prefix, c.QueryParam("reason"))
	return done, a.orNear(c, err, c.QueryParam("cidr"))
}

// orNear adds the overlapping entries to ErrNotListed.
func (a *API) orNear(c echo.Context, err error, cidr string) error {
	if !errors.Is(err, lists.ErrNotListed) {
		return err
	}
	prefix, _ := lists.ParsePrefix(cidr)
	return a.notListed(c, prefix)
}

func (a *API) notListed(c echo.Context, prefix netip.Prefix) error {
	entries, err := a.of(c).Listings(c.Request().Context())
	if err != nil {
		return err
	}
	var near []string
	for _, e := range entries {
		if e.Prefix.Overlaps(prefix) && len(near) < 5 {
			near = append(near, e.Prefix.String())
		}
	}
	if len(near) == 0 {
		return asked(http.StatusNotFound, fmt.Sprintf("%s is not on any list, and no entry overlaps it", prefix))
	}
	return asked(http.StatusNotFound, fmt.Sprintf("%s is not on any list; overlapping entries: %s", prefix,
		strings.Join(near, ", ")))
}
