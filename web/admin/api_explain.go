package admin

import (
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/control"
	"authguard/trusted"
	"authguard/web/pages"
)

type reasonAnswer struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// A limitAnswer is how one limit stands. Seconds are whole, rounded up.
type limitAnswer struct {
	Subject string `json:"subject"`
	Used    int    `json:"used"`
	Limit   int    `json:"limit,omitempty"` // 0 for the pair's delay
	Window  int    `json:"window_seconds,omitempty"`
	Then    string `json:"then"`
	Full    bool   `json:"full"`
	FreeIn  int    `json:"free_in_seconds,omitempty"`
	Monitor bool   `json:"monitor,omitempty"`
}

// An explainAnswer is what stands against an account, an address or both. Words
// say all of it in sentences.
type explainAnswer struct {
	Account    string         `json:"account,omitempty"`
	Address    string         `json:"address,omitempty"`
	Decision   string         `json:"decision"`
	RetryAfter int            `json:"retry_after,omitempty"`
	Open       bool           `json:"open"`
	Place      string         `json:"place,omitempty"`
	Listed     string         `json:"listed,omitempty"`
	CAPTCHA    bool           `json:"captcha_mode"`
	Summary    string         `json:"summary"`
	Reasons    []reasonAnswer `json:"reasons"`
	Limits     []limitAnswer  `json:"limits"`
	Words      []string       `json:"words"`
}

// explain is GET /api/explain?account=&address=.
func (a *API) explain(c echo.Context) error {
	from, err := address(c.QueryParam("address"))
	if err != nil {
		return err
	}
	e, err := a.Control.Explain(c.Request().Context(), c.QueryParam("account"), from)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, explained(&e))
}

func explained(e *control.Explanation) explainAnswer {
	d := &e.Decision
	answer := explainAnswer{
		Account: e.Account, Decision: actionWord(d.Action), RetryAfter: seconds(d.RetryAfter), Open: e.Open,
		Listed: verdictWord(e.Listed), CAPTCHA: e.Mode, Summary: e.Summary,
		Reasons: []reasonAnswer{}, Limits: []limitAnswer{}, Words: []string{e.Summary},
	}
	if e.Address.IsValid() {
		answer.Address = e.Address.String()
	}
	if e.Account != "" && e.Address.IsValid() {
		answer.Place = statusWord(e.Status)
	}
	for _, r := range d.Reasons.All() {
		answer.Reasons = append(answer.Reasons, reasonAnswer{r.Code(), r.String()})
	}
	for _, text := range e.Words {
		answer.Words = append(answer.Words, "  "+text)
	}
	for _, l := range e.Lines {
		answer.Limits = append(answer.Limits, limitAnswer{
			Subject: l.Subject.String(), Used: l.Used, Limit: l.Limit.Failures, Window: seconds(l.Limit.Window),
			Then: thenWord(l), Full: l.Full, FreeIn: seconds(l.FreeIn), Monitor: l.Limit.Monitor,
		})
		answer.Words = append(answer.Words, lineWords(l))
	}
	return answer
}

// lineWords is how one limit stands, on one line.
func lineWords(l guard.Line) string {
	if l.Delay {
		if l.Full {
			return fmt.Sprintf("  %s: the next try is due in %s", l.Subject, pages.DurationWords(l.FreeIn))
		}
		return fmt.Sprintf("  %s: no delay now", l.Subject)
	}
	text := fmt.Sprintf("  %s: %d of %d failures in any %s, then %s", l.Subject, l.Used, l.Limit.Failures, windowWords(l.Limit.Window), thenWord(l))
	if l.Full {
		text += "; full, with room again in " + pages.DurationWords(l.FreeIn)
	}
	if l.Limit.Monitor {
		text += " (watched only)"
	}
	return text
}

// windowWords are the words after "any".
func windowWords(d time.Duration) string {
	switch d {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return pages.DurationWords(d)
}

func thenWord(l guard.Line) string {
	if l.Delay {
		return guard.Wait.String()
	}
	return l.Limit.Then.String()
}

func statusWord(s trusted.Status) string {
	switch s {
	case trusted.Privileged:
		return "privileged"
	case trusted.Spent:
		return "spent"
	}
	return "stranger"
}

func verdictWord(v guard.Verdict) string {
	switch v {
	case guard.Allowed:
		return "allowed"
	case guard.Blocked:
		return "blocked"
	}
	return ""
}

func seconds(d time.Duration) int { return int(math.Ceil(d.Seconds())) }

// unlock is POST /api/unlock. With place, the account's place at the address is
// forgotten too, or all its places if no address is given.
func (a *API) unlock(c echo.Context) error {
	var q struct {
		Account string `json:"account"`
		Address string `json:"address"`
		Place   bool   `json:"place"`
	}
	if err := read(c, &q); err != nil {
		return err
	}
	from, err := address(q.Address)
	if err != nil {
		return err
	}
	if q.Place && q.Account == "" {
		return bad("place needs an account: places belong to one")
	}
	ctx := c.Request().Context()
	if err := a.Control.Unlock(ctx, Who(c), q.Account, from); err != nil {
		return err
	}
	if q.Place {
		if err := a.Control.ForgetPlaces(ctx, Who(c), q.Account, from); err != nil {
			return err
		}
	}
	return done(c)
}

// forget is POST /api/forget: an account's place at an address, or all of them.
func (a *API) forget(c echo.Context) error {
	var q struct {
		Account string `json:"account"`
		Address string `json:"address"`
	}
	if err := read(c, &q); err != nil {
		return err
	}
	from, err := address(q.Address)
	if err != nil {
		return err
	}
	if err := a.Control.ForgetPlaces(c.Request().Context(), Who(c), q.Account, from); err != nil {
		return err
	}
	return done(c)
}
