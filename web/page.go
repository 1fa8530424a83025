package web

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/web/pages"
)

// Routes adds the paths of the login endpoint.
func (l *Login) Routes(e *echo.Echo) {
	e.Use(l.strictTransport)
	e.GET("/login", l.page)
	e.POST("/login", l.attempt)
	e.POST("/logout", l.leave)
	if l.Second != nil {
		l.secondRoutes(e)
	}
	if l.Passkeys != nil {
		l.passkeyRoutes(e)
	}
	l.CodeRoutes(e)
	if l.Resets != nil {
		l.forgotRoutes(e)
	}
	if l.Control != nil && !l.Admin {
		l.accountRoutes(e)
	}
}

// CodeRoutes adds the verification code page alone.
func (l *Login) CodeRoutes(e *echo.Echo) {
	e.GET("/login/code", l.codePage)
	e.POST("/login/code", l.askCode)
}

func (l *Login) page(c echo.Context) error {
	view := l.view(c, c.QueryParam("next"))
	session, err := l.Sessions.Get(c)
	if err != nil { // a user without a session can still try to log in
		l.Log.Error("the session could not be read for the login page", "error", err)
	}
	if session.held() && !l.Admin {
		return c.Redirect(http.StatusSeeOther, l.toPassword(c, l.next(c.QueryParam("next"))))
	}
	if session != nil {
		view.SignedInAs, view.Account = session.Account.Account, l.Control != nil && !l.Admin
		view.Password = l.replaces() && session.Account.Role != accounts.Admin
		return l.show(c, view)
	}
	ahead, err := l.ahead(c.Request(), l.client(c))
	if err != nil {
		return err
	}
	view.Challenge = l.shown(c, ahead)
	switch {
	case c.QueryParam("signed-out") != "":
		view.Message.Kind = pages.SignedOut
	case c.QueryParam("reset") != "":
		view.Message.Kind = pages.PasswordReset
	case ahead != nil:
		view.Message = pages.Message{Kind: pages.ChallengeAhead, Why: pages.WhySite}
	}
	return l.show(c, view)
}

// codePage is GET /login/code: how to get a verification code.
func (l *Login) codePage(c echo.Context) error { return l.showCode(c, http.StatusOK, pages.CodeView{}) }

func (l *Login) showCode(c echo.Context, status int, view pages.CodeView) error {
	view.Page, view.Admin, view.Mail = l.Look.Page(c.Response().Header(), c.Request()), l.Admin, l.AskCode != nil
	view.Back = l.back(c)
	page, err := pages.RenderCode(view)
	return WritePage(c, status, page, err)
}

func (l *Login) back(c echo.Context) string {
	if l.Look != nil && l.Look.base != "" {
		return ""
	}
	return baseOf(c.Request()) + "/login"
}

// askCode is POST /login/code: it sends a code to the account's owner. The response comes before the account is looked
// up, so it is the same for unknown accounts (R12).
func (l *Login) askCode(c echo.Context) error {
	form, err := ReadForm(c, "username")
	if err != nil {
		return err
	}
	if l.AskCode == nil {
		return refusal(http.StatusNotFound, "problem.no-code")
	}
	asked, err := l.Guard.CodeFor(form["username"], l.client(c).Address)
	if err != nil {
		p := Unusable(http.StatusBadRequest, "problem.no-name")
		return answer(c, p, func() ([]byte, error) {
			page := l.Look.Page(c.Response().Header(), c.Request())
			return pages.RenderCode(pages.CodeView{Page: page, Admin: l.Admin, Mail: true, Problem: p.Words(page),
				Back: l.back(c)})
		})
	}
	l.AskCode(asked)
	if WantsJSON(c.Request()) {
		return c.JSON(http.StatusAccepted, map[string]string{"username": form["username"]})
	}
	return l.showCode(c, http.StatusAccepted, pages.CodeView{Username: form["username"], Asked: true})
}

func (l *Login) show(c echo.Context, view pages.LoginView) error {
	page, err := l.draw(c, view)
	return WritePage(c, http.StatusOK, page, err)
}

func (l *Login) leave(c echo.Context) error {
	if err := l.Sessions.End(c, l.client(c)); err != nil {
		return err
	}
	return c.Redirect(http.StatusSeeOther, baseOf(c.Request())+"/login?signed-out=1")
}
