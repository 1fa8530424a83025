package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/operation"
	"authguard/web"
)

// access is what a token needs for a route.
type access struct {
	scope    operation.Scope // empty: no token is admitted
	oneRealm bool            // a token of one realm may use it
}

// accessKey is the request's key of its access.
const accessKey = "authguard.admin.access"

// bearer returns the token in the Authorization header. URLs end up in logs and histories, so they carry none.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// byToken admits a token with the required scope. Browsers do not send the header by themselves (CSRF).
func (a *API) byToken(c echo.Context, text string) error {
	token, ok, err := a.Control.Accounts.Tokens.Find(c.Request().Context(), text, a.Control.Now())
	if err != nil {
		return err
	}
	if !ok {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="authguard administration"`)
		return web.Problem{
			Type: "unauthorized", Title: "Invalid token", Status: http.StatusUnauthorized,
			Detail: "the token is unknown, expired or revoked, its creator is no longer an administrator, or it is for the " +
				"decision API only",
		}
	}
	by := operation.By{Who: "token:" + token.Name, Token: true, Scopes: token.Scopes, Maker: token.Maker}
	needs, _ := c.Get(accessKey).(access)
	if needs.scope == "" {
		return operation.OutOfScope(token.Scopes, "only signed-in administrators can do this")
	}
	c.Set(byKey, by)
	return cmp.Or(by.Needs(needs.scope), confine(c, token, needs))
}

// confine restricts a token to its realm, which it sets in the request instead of the default or all realms.
func confine(c echo.Context, t accounts.Token, needs access) error {
	if !t.Confined {
		return nil
	}
	const title = "Token limited to one realm"
	asked := c.Request().URL.Query()
	switch all := asked["realm"]; {
	case !needs.oneRealm:
		return operation.Refused{Type: "realm", Title: title,
			Detail: "this applies to all realms; use a token that was created without a realm"}
	case slices.ContainsFunc(all, func(name string) bool { return name != t.Realm }):
		return operation.Refused{Type: "realm", Title: title,
			Detail: "the token is valid only in the realm " + t.Realm}
	}
	asked.Set("realm", t.Realm)
	c.Request().URL.RawQuery = asked.Encode()
	return nil
}

// tokens is GET /api/tokens: the tokens of all realms that a command or a page created.
func (a *API) tokens(c echo.Context) (any, error) {
	all, err := a.of(c).Accounts.Tokens.All(c.Request().Context())
	return map[string]any{"tokens": listed(all)}, err
}
