package admin

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/attacks"
	"authguard/internal/times"
	"authguard/web"
	"authguard/web/pages"
)

// attacks is GET /api/attacks?page=&limit=. With format=csv or jsonl it returns all attacks as a file.
func (a *API) attacks(c echo.Context) (any, error) {
	format, err := fileFormat(c)
	if err != nil {
		return nil, err
	}
	if format != "" {
		return nil, a.allAttacks(c, format)
	}
	page, err := number(c, "page", 1)
	if err != nil {
		return nil, err
	}
	limit, err := number(c, "limit", 0)
	if err != nil {
		return nil, err
	}
	return a.of(c).Attacks(c.Request().Context(), int(min(page, 1<<20)), int(min(limit, 1<<20)))
}

func (a *API) allAttacks(c echo.Context, format string) error {
	return a.file(c, "attacks", format, attackColumns(), func(row line) error {
		return a.of(c).EachAttack(c.Request().Context(), func(one attacks.Attack) error { return row(attackCells(one), one) })
	})
}

// attack is GET /api/attacks/:id. format=csv is a row for each suspicious login, jsonl a line for each account.
func (a *API) attack(c echo.Context) (any, error) {
	format, err := fileFormat(c)
	if err != nil {
		return nil, err
	}
	report, err := a.of(c).Attack(c.Request().Context(), c.Param("id"))
	if err != nil || format == "" {
		return report, err
	}
	return nil, a.file(c, "attack-"+report.ID, format, victimColumns(), func(row line) error {
		for _, v := range report.Victims {
			cells := victimCells(v)
			if format != "csv" {
				cells = cells[:1]
			}
			for _, one := range cells {
				if err := row(one, v); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// fileFormat returns the requested file format; empty for none.
func fileFormat(c echo.Context) (string, error) {
	switch format := c.QueryParam("format"); format {
	case "", "json":
		return "", nil
	case "csv", "jsonl":
		return format, nil
	default:
		return "", web.Invalid("format: must be csv, jsonl or json, not %.20q", format)
	}
}

func (s *Site) attacksPage(c echo.Context, session *web.Session) error {
	page, err := number(c, "page", 1)
	if err != nil {
		return err
	}
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	all, err := s.of(c).Attacks(c.Request().Context(), int(min(page, 1<<20)), 0)
	if err != nil {
		return err
	}
	shown, err := pages.RenderAttacks(pages.AttacksView{Admin: around, Attacks: all})
	return web.WritePage(c, http.StatusOK, shown, err)
}

func (s *Site) attackPage(c echo.Context, session *web.Session) error {
	page, err := number(c, "page", 1)
	if err != nil {
		return err
	}
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	around.Path = "/attacks"
	around.Back = pages.At("/attacks/"+url.PathEscape(c.Param("id")), around.Realm) // without the operation to confirm
	report, err := s.of(c).Attack(c.Request().Context(), c.Param("id"))
	if errors.Is(err, attacks.ErrUnknown) {
		return echo.NewHTTPError(http.StatusNotFound, "No such attack in this realm, or its record has expired.")
	}
	if err != nil {
		return err
	}
	view := pages.AttackView{Admin: around, Report: report, Page: int(min(page, 1<<20)), Do: c.QueryParam("do"),
		Selected: c.QueryParams()["account"]}
	if err := s.of(c).Usual(c.Request().Context(), report.Attack, view.OnPage()); err != nil {
		return err
	}
	shown, err := pages.RenderAttack(view)
	return web.WritePage(c, http.StatusOK, shown, err)
}

// exported serves an API answer as a file to a signed-in administrator.
func (s *Site) exported(ask question) echo.HandlerFunc {
	return s.page(func(c echo.Context, _ *web.Session) error {
		if format, _ := fileFormat(c); format == "" {
			c.Response().Header().Set(echo.HeaderContentDisposition, `attachment; filename="attacks.json"`)
		}
		return s.answering(ask)(c)
	})
}

func attackColumns() []string {
	return []string{"id", "kind", "subject", "began", "ended", "shapes", "attempts", "failed", "challenged", "delayed",
		"blocked", "peak_per_minute", "peak_at",
		"addresses", "networks", "accounts", "passwords", "passwords_known", "passwords_repeated", "passwords_sprayed",
		"compromised", "new_clients", "open", "part_of"}
}

func attackCells(a attacks.Attack) []string {
	row := []string{a.ID, a.Kind, a.Subject, times.RFC3339(a.Began), times.RFC3339(a.Ended), strings.Join(a.Shapes, ";")}
	for _, n := range []int64{a.Attempts, a.Failed, a.Challenged, a.Waited, a.Refused, a.Peak.Attempts} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	row = append(row, times.RFC3339(a.Peak.At))
	for _, n := range []int64{a.Addresses, a.Networks, a.Accounts, a.Passwords, a.Known, a.Repeated, a.Sprayed,
		int64(a.Lost), int64(a.Strange), int64(a.Open)} {
		row = append(row, strconv.FormatInt(n, 10))
	}
	return append(row, a.PartOf)
}

func victimColumns() []string {
	return []string{"account", "compromised", "address", "integration", "why", "failures", "first", "last",
		"sessions_ended", "known_clients_removed", "password_change_forced"}
}

// victimCells returns a row for each suspicious login of an account.
func victimCells(v attacks.Victim) (rows [][]string) {
	done := []string{}
	for _, what := range attacks.Resets() {
		text := ""
		if reset := v.Reset(what); reset != nil {
			text = times.RFC3339(reset.At) + " " + reset.Who
		}
		done = append(done, text)
	}
	for _, l := range v.Logins {
		row := []string{l.Account, strconv.FormatBool(v.Lost), l.Address, l.Integration, strings.Join(l.Why, ";"),
			strconv.Itoa(l.Failures), times.RFC3339(l.First), times.RFC3339(l.Last)}
		rows = append(rows, append(row, done...))
	}
	return rows
}
