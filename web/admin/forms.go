package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"authguard/captchamode"
	"authguard/internal/control"
	"authguard/web"
	"authguard/web/pages"
)

// A change does what a form asks for and says so.
type change func(ctx context.Context, who string, f fields) (pages.Notice, error)

// form carries a change out and shows its outcome on the overview, once.
func (d Deps) form(do change, names ...string) echo.HandlerFunc {
	return d.page(func(c echo.Context, s *web.Session) error {
		f, err := readFields(c, s, names...)
		if err != nil {
			return err
		}
		notice, err := do(c.Request().Context(), who(s), f)
		if err != nil {
			if notice, err = d.failed(c, err); err != nil {
				return err
			}
		}
		if err := d.leave(s, notice); err != nil {
			return err
		}
		return c.Redirect(http.StatusSeeOther, "/")
	})
}

// failed is an error that whoever sent the form can do something about.
func (d Deps) failed(c echo.Context, err error) (pages.Notice, error) {
	p := problemOf(err)
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, control.ErrUnrecorded) {
		return pages.Notice{}, err
	}
	if p.Status >= http.StatusInternalServerError {
		d.Log.Error("administration failed", "path", c.Path(), "error", err)
		return pages.Notice{Bad: true, Text: "It was done, but could not be recorded in the audit log. The server's log says why."}, nil
	}
	return pages.Notice{Bad: true, Text: "Nothing was changed: " + sentence(p.Detail)}, nil
}

// sentence ends a text with a full stop, and begins it as it is.
func sentence(text string) string {
	if last, _ := utf8.DecodeLastRuneInString(text); unicode.IsPunct(last) {
		return text
	}
	return text + "."
}

const noticeKey = "notice"

// leave keeps a notice for the next overview of the session.
func (d Deps) leave(s *web.Session, n pages.Notice) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return d.Sessions.Put(s, noticeKey, string(text))
}

// take takes the notice that was left, if there is one.
func (d Deps) take(s *web.Session) (n pages.Notice, err error) {
	text, err := d.Sessions.Pop(s, noticeKey)
	if err != nil || text == "" {
		return n, err
	}
	return n, json.Unmarshal([]byte(text), &n)
}

// switchMode is POST /mode.
func (d Deps) switchMode(ctx context.Context, who string, f fields) (pages.Notice, error) {
	if f["mode"] == "auto" {
		err := d.Control.Release(ctx, who, f["reason"])
		return pages.Notice{Text: "CAPTCHA mode is automatic again."}, err
	}
	if f["mode"] != "on" && f["mode"] != "off" {
		return pages.Notice{}, bad("choose automatic, on or off")
	}
	hold, ok := map[string]time.Duration{
		"10m": 10 * time.Minute, "1h": time.Hour, "2h": 2 * time.Hour, "8h": 8 * time.Hour, "24h": 24 * time.Hour, "": control.DefaultForce,
	}[f["for"]]
	if !ok {
		return pages.Notice{}, bad("choose how long from the list")
	}
	err := d.Control.Force(ctx, who, captchamode.Word(f["mode"]), hold, f["reason"])
	return pages.Notice{Text: "CAPTCHA mode is switched " + f["mode"] + " for " + pages.DurationWords(hold) + "."}, err
}

// unlock is POST /unlock.
func (d Deps) unlock(ctx context.Context, who string, f fields) (pages.Notice, error) {
	account, from, err := subjectOf(f)
	if err != nil {
		return pages.Notice{}, err
	}
	return onSubject("Unlocked", account, from), d.Control.Unlock(ctx, who, account, from)
}

// forget is POST /forget.
func (d Deps) forget(ctx context.Context, who string, f fields) (pages.Notice, error) {
	account, from, err := subjectOf(f)
	if err != nil {
		return pages.Notice{}, err
	}
	n := pages.Notice{Text: "Forgotten: all places of", Subject: account}
	if from.IsValid() {
		n.Text = "Forgotten: the place " + from.String() + " of"
	}
	return n, d.Control.ForgetPlaces(ctx, who, account, from)
}

func subjectOf(f fields) (account string, from netip.Addr, err error) {
	from, err = address(f["address"])
	return strings.TrimSpace(f["account"]), from, err
}

func onSubject(text, account string, from netip.Addr) pages.Notice {
	switch {
	case account == "":
		return pages.Notice{Text: text + " the address", Subject: from.String()}
	case from.IsValid():
		text += " at " + from.String()
	}
	return pages.Notice{Text: text + ":", Subject: account}
}
