package admin

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/control"
)

// A subjectAnswer is one of the tops. Next is what its next attempt would get;
// empty if that could not be found out.
type subjectAnswer struct {
	Name     string    `json:"name"`
	Failures int       `json:"failures"`
	Stopped  int       `json:"stopped"`
	LastSeen time.Time `json:"last_seen"`
	Next     string    `json:"next,omitempty"`
}

type warningAnswer struct {
	Code    string `json:"code"`
	Title   string `json:"title"`
	Text    string `json:"text"`
	Setting string `json:"setting,omitempty"`
}

type overviewAnswer struct {
	Now       time.Time            `json:"now"`
	Mode      captchamode.State    `json:"mode"`
	Minutes   []captchamode.Minute `json:"minutes"`
	Switches  []captchamode.Switch `json:"switches"`
	Addresses []subjectAnswer      `json:"addresses"`
	Accounts  []subjectAnswer      `json:"accounts"`
	Warnings  []warningAnswer      `json:"warnings"`
	Held      int                  `json:"held"`
}

// overview is GET /api/overview.
func (a *API) overview(c echo.Context) error {
	o := a.Control.Overview(c.Request().Context())
	answer := overviewAnswer{
		Now: o.Now, Mode: o.State, Minutes: append([]captchamode.Minute{}, o.Minutes...),
		Switches: append([]captchamode.Switch{}, o.Switches...), Addresses: subjects(o.Addresses), Accounts: subjects(o.Accounts),
		Warnings: []warningAnswer{}, Held: o.Held,
	}
	for _, w := range o.Warnings {
		answer.Warnings = append(answer.Warnings, warningAnswer(w))
	}
	return c.JSON(http.StatusOK, answer)
}

func subjects(all []control.Subject) []subjectAnswer {
	answers := make([]subjectAnswer, 0, len(all))
	for _, s := range all {
		answer := subjectAnswer{Name: s.Name, Failures: s.Failures, Stopped: s.Stopped, LastSeen: s.LastSeen}
		if s.Known {
			answer.Next = actionWord(s.Next.Action)
		}
		answers = append(answers, answer)
	}
	return answers
}

// actionWord is one of the contract's four decisions.
func actionWord(a guard.Action) string {
	switch a {
	case guard.Proceed, guard.Wait, guard.Challenge:
		return a.String()
	}
	return guard.Refuse.String()
}

// mode is GET /api/mode.
func (a *API) mode(c echo.Context) error {
	return c.JSON(http.StatusOK, a.Control.Overview(c.Request().Context()).State)
}

// setMode is PUT /api/mode. "for" is a duration such as 2h; without one it is
// two hours. The answer is the mode as it is then.
func (a *API) setMode(c echo.Context) error {
	var q struct {
		Mode   string `json:"mode"`
		For    string `json:"for"`
		Reason string `json:"reason"`
	}
	if err := read(c, &q); err != nil {
		return err
	}
	hold, err := hold(q.For)
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	switch q.Mode {
	case "auto":
		err = a.Control.Release(ctx, Who(c), q.Reason)
	case "on", "off":
		if q.Reason == "" {
			return bad("say why in the field reason: whoever finds the mode forced later needs to know")
		}
		err = a.Control.Force(ctx, Who(c), captchamode.Word(q.Mode), hold, q.Reason)
	default:
		err = bad("mode: say on, off or auto, not %.20q", q.Mode)
	}
	if err != nil {
		return err
	}
	return a.mode(c)
}

// hold reads how long something is to last; empty is 0, which leaves it to the
// default.
func hold(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, bad("for: %.20q is no duration above 0: write something like 30m, 2h or 168h", text)
	}
	return d, nil
}
