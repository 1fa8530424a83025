package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/lists"
)

// An entryAnswer is one entry of the allow and block lists; without Expires it
// is for good.
type entryAnswer struct {
	CIDR    string    `json:"cidr"`
	Verdict string    `json:"verdict"`
	Note    string    `json:"note,omitempty"`
	By      string    `json:"by"`
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires,omitzero"`
}

func entryOf(e lists.Entry) entryAnswer {
	return entryAnswer{
		CIDR: e.Prefix.String(), Verdict: string(e.Verdict), Note: e.Note, By: e.CreatedBy,
		Created: e.CreatedAt, Expires: e.ExpiresAt,
	}
}

// lists is GET /api/lists.
func (a *API) lists(c echo.Context) error {
	entries, err := a.Control.Listings(c.Request().Context())
	if err != nil {
		return err
	}
	answers := make([]entryAnswer, 0, len(entries))
	for _, e := range entries {
		answers = append(answers, entryOf(e))
	}
	return c.JSON(http.StatusOK, map[string]any{"lists": answers})
}

// list is POST /api/lists. "for" is a duration or "forever"; without one it is a
// week. The answer is the entry.
func (a *API) list(c echo.Context) error {
	var q struct {
		CIDR    string `json:"cidr"`
		Verdict string `json:"verdict"`
		For     string `json:"for"`
		Note    string `json:"note"`
		Force   bool   `json:"force"`
	}
	if err := read(c, &q); err != nil {
		return err
	}
	request := lists.Request{Note: q.Note, Force: q.Force, Forever: q.For == "forever"}
	var err error
	if request.Prefix, err = lists.ParsePrefix(q.CIDR); err != nil {
		return bad("cidr: %s", words(err))
	}
	if !request.Forever {
		if request.For, err = hold(q.For); err != nil {
			return err
		}
	}
	put := a.Control.Block
	switch q.Verdict {
	case string(lists.Allow):
		put = a.Control.Allow
	case string(lists.Block):
	default:
		return bad("verdict: say allow or block, not %.20q", q.Verdict)
	}
	entry, err := put(c.Request().Context(), Who(c), request)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, entryOf(entry))
}

// unlist is DELETE /api/lists?cidr=.
func (a *API) unlist(c echo.Context) error {
	prefix, err := lists.ParsePrefix(c.QueryParam("cidr"))
	if err != nil {
		return bad("cidr: %s", words(err))
	}
	err = a.Control.Unlist(c.Request().Context(), Who(c), prefix)
	if errors.Is(err, lists.ErrNotListed) {
		return a.notListed(c, prefix)
	}
	if err != nil {
		return err
	}
	return done(c)
}

// notListed says what is listed there instead.
func (a *API) notListed(c echo.Context, prefix netip.Prefix) error {
	entries, err := a.Control.Listings(c.Request().Context())
	if err != nil {
		return err
	}
	var near []string
	for _, e := range entries {
		if e.Prefix.Overlaps(prefix) {
			near = append(near, e.Prefix.String())
		}
	}
	if len(near) == 0 {
		return &badInput{http.StatusNotFound, fmt.Sprintf("%s is on no list, and no range around or within it is", prefix)}
	}
	return &badInput{http.StatusNotFound, fmt.Sprintf("%s itself is on no list; listed there: %s", prefix, strings.Join(near[:min(len(near), 5)], ", "))}
}
