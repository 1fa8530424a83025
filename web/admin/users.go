package admin

import (
	"cmp"
	"net/http"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/control"
	"authguard/internal/tokens"
)

// usersPage is the default number of accounts in an answer.
const usersPage = 200

// users is GET /api/users?find=&sort=&after=&limit=. "next" is the after of the following page.
func (a *API) users(c echo.Context) (any, error) {
	limit, err := number(c, "limit", usersPage)
	if err != nil {
		return nil, err
	}
	q := accountsQuery(c)
	q.Limit = int(limit)
	return a.of(c).AccountsOf(c.Request().Context(), q)
}

func accountsQuery(c echo.Context) control.AccountsQuery {
	return control.AccountsQuery{Find: c.QueryParam("find"), Sort: c.QueryParam("sort"), After: c.QueryParam("after")}
}

type addQuestion struct {
	Username   string        `json:"username"`
	Email      string        `json:"email"`
	Groups     []string      `json:"groups"`
	Password   string        `json:"password"`
	Role       accounts.Role `json:"role"`
	MustChange bool          `json:"must_change"`
	because
}

func (a *API) addUser(c echo.Context, q addQuestion) (any, error) {
	if q.Role == accounts.Admin {
		if err := mayChangeWhoSignsIn(c); err != nil {
			return nil, err
		}
	}
	if len(q.Groups) > 0 {
		if err := needs(c, tokens.Groups); err != nil {
			return nil, err
		}
	}
	account, err := a.of(c).AddUser(c.Request().Context(), sender(c), accounts.Addition{
		Username: q.Username, Email: q.Email, Groups: q.Groups, Password: q.Password, Role: q.Role, MustChange: q.MustChange,
	}, q.Reason)
	if err != nil {
		return nil, err
	}
	return nil, c.JSON(http.StatusCreated, account)
}

type passwordQuestion struct {
	Username   string `json:"username"`
	Password   string `json:"password"`
	MustChange bool   `json:"must_change"`
	because
}

// setPassword is POST /api/users/set-password. It ends the account's sessions and removes its known clients.
func (a *API) setPassword(c echo.Context, q passwordQuestion) (any, error) {
	if err := a.mayChange(c, q.Username); err != nil {
		return nil, err
	}
	return done, a.of(c).SetPassword(c.Request().Context(), sender(c), q.Username, q.Password, q.MustChange, q.Reason)
}

type askPasswordQuestion struct {
	Username string `json:"username"`
	because
}

// askPassword is POST /api/users/ask-password. It forces a password change, for a password that an attacker may have.
func (a *API) askPassword(c echo.Context, q askPasswordQuestion) (any, error) {
	if err := a.mayChange(c, q.Username); err != nil {
		return nil, err
	}
	return done, a.of(c).AskNewPassword(c.Request().Context(), sender(c), q.Username, q.Reason)
}

type groupsQuestion struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
	because
}

// setGroups is POST /api/users/groups. It replaces the account's groups.
func (a *API) setGroups(c echo.Context, q groupsQuestion) (any, error) {
	if err := cmp.Or(needs(c, tokens.Groups), a.mayChange(c, q.Username)); err != nil {
		return nil, err
	}
	return done, a.of(c).SetGroups(c.Request().Context(), sender(c), q.Username, q.Groups, q.Reason)
}

type disableQuestion struct {
	Username string `json:"username"`
	Enable   bool   `json:"enable"`
	because
}

// disableUser is POST /api/users/disable; with enable it enables the account.
func (a *API) disableUser(c echo.Context, q disableQuestion) (any, error) {
	if err := a.mayChange(c, q.Username); err != nil {
		return nil, err
	}
	change := a.of(c).DisableFor
	if q.Enable {
		change = a.of(c).EnableFor
	}
	return done, change(c.Request().Context(), sender(c), q.Username, q.Reason)
}

func (a *API) deleteUser(c echo.Context) (any, error) {
	name := c.QueryParam("username")
	if err := a.mayChange(c, name); err != nil {
		return nil, err
	}
	return done, a.of(c).DeleteFor(c.Request().Context(), sender(c), name, c.QueryParam("reason"))
}

// endUserSessions is DELETE /api/users/sessions?username=&reason=. It ends the user's sessions at all integrations.
func (a *API) endUserSessions(c echo.Context) (any, error) {
	name := c.QueryParam("username")
	if err := a.mayChange(c, name); err != nil {
		return nil, err
	}
	n, err := a.of(c).EndUserSessions(c.Request().Context(), sender(c), name, c.QueryParam("reason"))
	return map[string]int64{"ended": n}, err
}

type codeQuestion struct {
	Username string `json:"username"`
	For      string `json:"for"`
	because
}

// issueCode is POST /api/users/create-code. Only this response has the code; "for" is one hour by default.
func (a *API) issueCode(c echo.Context, q codeQuestion) (any, error) {
	if err := a.mayChange(c, q.Username); err != nil {
		return nil, err
	}
	life, err := hold(q.For)
	if err != nil {
		return nil, err
	}
	return a.of(c).IssueCode(c.Request().Context(), sender(c), q.Username, life, q.Reason)
}
