package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/attacks"
	"authguard/internal/events"
	"authguard/internal/operation"
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

type attackQuestion struct {
	Account string   `json:"account"`
	What    []string `json:"what"`
	operation.Because
}

func (a *API) resetAttack(c echo.Context, q attackQuestion) (any, error) {
	return a.resets(c, c.Param("id"), accounts.AttackReset{Accounts: one(q.Account), What: q.What, Why: q.Reason})
}

func one(account string) []string {
	if account == "" {
		return nil
	}
	return []string{account}
}

type resetAnswer struct {
	Accounts []accounts.Resetting `json:"accounts"`
	Left     int                  `json:"left"` // not processed in time: ask again
}

// resets secures the accounts that the request may change; an administrator's account requires more.
func (a *API) resets(c echo.Context, id string, asked accounts.AttackReset) (answer resetAnswer, err error) {
	by := by(c)
	asked.May = func(_ context.Context, account string) error {
		err := a.of(c).Accounts.MayChange(c.Request().Context(), by, account)
		if errors.Is(err, accounts.ErrUnknown) {
			return errors.New("no such account")
		}
		return err
	}
	asked.Hide = !by.May(operation.Admin)
	if !by.Token {
		asked.Own = by.Maker
	}
	answer.Accounts, answer.Left, err = a.of(c).Accounts.ResetAttack(c.Request().Context(), by.Who, id, asked)
	answer.Accounts = listed(answer.Accounts)
	return answer, err
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

// resetAttackForm is POST /attacks/reset. It secures accounts of an attack: those of the JSON array, or all possibly
// compromised ones.
func (s *Site) resetAttackForm(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session, "id", "accounts", "what", "reason")
	if err != nil {
		return err
	}
	asked := accounts.AttackReset{Why: f["reason"]}
	if f["accounts"] != "" {
		err := json.Unmarshal([]byte(f["accounts"]), &asked.Accounts)
		if err != nil || len(asked.Accounts) == 0 {
			return echo.NewHTTPError(http.StatusBadRequest, "Select accounts. Nothing was changed.")
		}
	}
	if f["what"] != "" {
		asked.What = []string{f["what"]}
	}
	c.Set(byKey, s.by(c, session))
	answer, err := s.resets(c, f["id"], asked)
	return s.outcome(c, session, f, resetNotice(answer), err)
}

func resetNotice(a resetAnswer) (n pages.Notice) {
	done, leftOut, problems := 0, 0, []string{}
	for _, one := range a.Accounts {
		if one.LeftOut {
			leftOut++
		}
		if len(one.Done) > 0 {
			done++
		}
		for _, problem := range one.Problems {
			problems = append(problems, problem)
		}
	}
	switch {
	case done == 1 && len(a.Accounts) == 1:
		n.Text, n.Subject = map[string]string{
			attacks.Sessions: "All sessions ended:", attacks.KnownClients: "All known clients removed:",
			attacks.Password: "Password change forced:",
		}[a.Accounts[0].Done[0]], a.Accounts[0].Account
		if len(a.Accounts[0].Done) > 1 {
			n.Text = "Secured:"
		}
	case done == 0 && len(problems) == 0:
		n.Text = "Nothing left to do."
	default:
		n.Text = "Secured: " + events.Count(done, "account") + "."
	}
	if len(problems) > 0 {
		n.Bad = true
		n.Text = fmt.Sprintf("Secured: %s. Some actions failed (%s). The first: %s", events.Count(done, "account"),
			events.Count(len(problems), "problem"), pages.Sentence(problems[0]))
		n.Subject = ""
	}
	if leftOut > 0 {
		n.Text += " " + events.Count(leftOut, "administrator") + " left out: secure each below."
	}
	if a.Left > 0 {
		n.Text += fmt.Sprintf(" %s not processed in time. Repeat the action.", events.Count(a.Left, "account"))
	}
	return n
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
