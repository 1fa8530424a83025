package admin

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/web"
	"authguard/web/pages"
)

func (s *Site) accountsRoutes(e *echo.Echo) {
	e.GET("/accounts", s.page(s.accountsPage))
	e.POST("/accounts/add", s.page(s.addPersonForm))
	e.POST("/accounts/password", s.page(s.newPasswordForm))
	e.POST("/accounts/ask-password", s.form(s.askPasswordForm, "username", "reason"))
	e.POST("/accounts/disable", s.form(s.disableUserForm, "username", "reason", "enable"))
}

// accountsPage is GET /accounts?find=&sort=&after=.
func (s *Site) accountsPage(c echo.Context, session *web.Session) error {
	around, err := s.chrome(c, session)
	if err != nil {
		return err
	}
	return s.showAccounts(c, http.StatusOK, pages.AccountsView{Admin: around})
}

func (s *Site) showAccounts(c echo.Context, status int, v pages.AccountsView) (err error) {
	v.Query = accountsQuery(c)
	if v.Accounts, err = s.of(c).AccountsOf(c.Request().Context(), v.Query); errors.Is(err, control.ErrAsked) {
		return problemOf(err)
	} else if err != nil {
		return err
	}
	page, err := pages.RenderAccounts(v)
	return web.WritePage(c, status, page, err)
}

// secret shows a new password in the response itself, because it must not be stored, not even as a notice.
func (s *Site) secret(c echo.Context, session *web.Session, f web.Form, name, password string, err error) error {
	if err != nil {
		return s.outcome(c, session, f, pages.Notice{}, err)
	}
	v := pages.AccountsView{Admin: s.around(c, session, "/accounts")}
	v.Secret = pages.Secret{What: "Temporary password of", Name: name, Text: password, Hint: oneTimeHint}
	return s.showAccounts(c, http.StatusOK, v)
}

func (s *Site) addPersonForm(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session, "username", "email", "groups", "reason")
	if err != nil {
		return err
	}
	made, err := s.of(c).AddPerson(c.Request().Context(), who(session), accounts.Addition{
		Username: f["username"], Email: f["email"], Groups: strings.FieldsFunc(f["groups"],
			func(r rune) bool { return r == ',' || r == ' ' }),
	}, f["reason"])
	return s.secret(c, session, f, made.Username, made.Password, err)
}

// newPasswordForm sets a user's temporary password: the typed one, or a random one.
func (s *Site) newPasswordForm(c echo.Context, session *web.Session) error {
	f, err := readForm(c, session, "username", "password", "reason")
	if err != nil {
		return err
	}
	password, err := s.of(c).OneTimePassword(c.Request().Context(), who(session), f["username"], f["password"],
		f["reason"])
	if f["password"] != "" {
		return s.outcome(c, session, f,
			pages.Notice{Text: "The password that you entered is temporary. Give it to the owner of", Subject: f["username"]},
			err)
	}
	return s.secret(c, session, f, f["username"], password, err)
}

func (s *Site) askPasswordForm(ctx context.Context, to *control.Control, who string, f web.Form) (pages.Notice, error) {
	err := to.User(ctx, f["username"])
	if err == nil {
		err = to.AskNewPassword(ctx, who, f["username"], f["reason"])
	}
	return pages.Notice{Text: "Signed out everywhere. A verification code and the current password are needed to choose " +
		"a new password for", Subject: f["username"]}, err
}

func (s *Site) disableUserForm(ctx context.Context, to *control.Control, who string,
	f web.Form) (n pages.Notice, err error) {
	if err := to.User(ctx, f["username"]); err != nil {
		return n, err
	}
	if f["enable"] != "" {
		return pages.Notice{Text: "Enabled:", Subject: f["username"]}, to.EnableFor(ctx, who, f["username"], f["reason"])
	}
	return pages.Notice{Text: "Disabled and signed out:", Subject: f["username"]}, to.DisableFor(ctx, who, f["username"],
		f["reason"])
}
