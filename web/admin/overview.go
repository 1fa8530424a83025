package admin

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/control"
	"authguard/web"
	"authguard/web/pages"
)

// shownSwitches is how many changes of the mode the overview lists.
const shownSwitches = 20

// overview is GET /, with ?account= and ?address= also the look-up.
func (d Deps) overview(c echo.Context, s *web.Session) error {
	view := d.view(c, s)
	view.LookUp = d.lookUp(c, view.Now)
	var err error
	if view.Notice, err = d.take(s); err != nil {
		return err
	}
	if view.Notice.Text == "" && c.QueryParam("password") == "changed" {
		view.Notice.Text = "Your password is changed. Every other session of yours has ended."
	}
	return show(c, http.StatusOK, func(w io.Writer) error { return pages.RenderAdmin(w, view) })
}

// fragment is GET /fragment: the part of the overview that changes by itself.
func (d Deps) fragment(c echo.Context, s *web.Session) error {
	view := d.view(c, s)
	return show(c, http.StatusOK, func(w io.Writer) error { return pages.RenderLive(w, view) })
}

// show answers with a whole page or an error, never with half of one.
func show(c echo.Context, status int, render func(io.Writer) error) error {
	var page bytes.Buffer
	if err := render(&page); err != nil {
		return err
	}
	return c.HTMLBlob(status, page.Bytes())
}

func (d Deps) view(c echo.Context, s *web.Session) pages.AdminView {
	o := d.Control.Overview(c.Request().Context())
	v := pages.AdminView{
		Site: d.Site, CSRF: s.CSRF, User: s.Account.Account, Now: o.Now, Status: statusView(&o),
		Addresses: subjectViews(o.Addresses), Accounts: subjectViews(o.Accounts), Switches: switchViews(o.Switches),
	}
	for _, w := range o.Warnings {
		v.Warnings = append(v.Warnings, pages.Warning{Title: w.Title, Text: w.Text, Setting: w.Setting})
	}
	for _, m := range o.Minutes {
		v.Minutes = append(v.Minutes, minuteView(m))
	}
	return v
}

func statusView(o *control.Overview) pages.Status {
	state := &o.State
	s := pages.Status{
		Level: levelView(state.Level), CAPTCHA: state.On, Since: switchedAt(o.Switches), Pressure: float64(state.Pressure.Total()),
		Slow: state.SlowAt, Threshold: state.Threshold, Leave: state.LeaveAt,
	}
	switch state.Force.Word {
	case captchamode.ForcedOn:
		s.Control = pages.ForcedOn
	case captchamode.ForcedOff:
		s.Control = pages.ForcedOff
	}
	if s.Forced() {
		s.By, s.Reason, s.Until = state.Force.Who, state.Force.Why, state.Force.Until
	}
	if state.Level == captchamode.Attack && !state.Low.IsZero() {
		s.OffAt = state.Low.Add(state.CoolDown)
	}
	return s
}

func levelView(l captchamode.Level) pages.Level {
	switch l {
	case captchamode.Attack:
		return pages.Attack
	case captchamode.Slow:
		return pages.Slowing
	}
	return pages.Quiet
}

// switchedAt is when the mode itself changed last; zero if it did not.
func switchedAt(all []captchamode.Switch) time.Time {
	for _, s := range slices.Backward(all) {
		if s.On != s.WasOn {
			return s.At
		}
	}
	return time.Time{}
}

func switchViews(all []captchamode.Switch) (views []pages.Switch) {
	for _, s := range slices.Backward(all) {
		if len(views) == shownSwitches {
			break
		}
		v := pages.Switch{At: s.At, To: switchWords(s)}
		if s.Cause == captchamode.ByPerson {
			v.By, v.Reason, v.Until = s.Force.Who, s.Force.Why, s.Force.Until
		}
		views = append(views, v)
	}
	return views
}

func switchWords(s captchamode.Switch) string {
	to := map[string]string{"on": "CAPTCHA mode on", "slow": "Slowing strangers"}[s.Now()]
	if to == "" {
		to = "CAPTCHA mode off"
	}
	if s.Cause == captchamode.ByExpiry || s.Cause == captchamode.ByPerson && s.Force.Word == captchamode.Automatic {
		return to + ", automatic again"
	}
	return to
}

func minuteView(m captchamode.Minute) pages.MinutePoint {
	p := pages.MinutePoint{
		Start: m.Start, Failures: m.Failures, Unsolved: m.Unsolved, Shed: m.Shed,
		Threshold: m.Threshold, Slow: m.SlowAt, Leave: m.LeaveAt, Mode: pages.ModeQuiet,
	}
	switch {
	case m.On:
		p.Mode = pages.ModeCAPTCHA
	case m.Level != captchamode.Calm:
		p.Mode = pages.ModeSlow
	}
	return p
}

func subjectViews(all []control.Subject) (views []pages.Subject) {
	for _, s := range all {
		v := pages.Subject{Name: s.Name, Failures: s.Failures, LastSeen: s.LastSeen}
		v.Status, v.Closed = nextWords(&s)
		if s.Stopped > 0 {
			v.Status += fmt.Sprintf("; %d stopped", s.Stopped)
		}
		views = append(views, v)
	}
	return views
}

// nextWords is what the next attempt of a subject gets.
func nextWords(s *control.Subject) (words string, closed bool) {
	if !s.Known {
		return "not known", false
	}
	switch s.Next.Action {
	case guard.Proceed:
		return "free", false
	case guard.Challenge:
		return "gets a CAPTCHA", true
	case guard.Wait:
		return "waits " + pages.DurationWords(s.Next.RetryAfter), true
	}
	return "refused", true
}
