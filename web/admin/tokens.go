package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/internal/tokens"
	"authguard/web"
)

// A grant is the authority of a request. The commands' socket has none and may do everything.
type grant struct {
	token *tokens.Token // nil for an administrator's session
	fresh bool          // the session has a recent sign-in
	maker string        // the administrator who creates tokens
}

// grantKey is the request's key of its grant.
const grantKey = "authguard.admin.grant"

// changes maps API paths to the scope for a change; the longest match counts. Tokens cannot change any other path.
var changes = map[string]tokens.Scope{
	"/api/mode": tokens.Mode, "/api/unlock": tokens.Unlock, "/api/forget": tokens.Unlock, "/api/lists": tokens.Lists,
	"/api/users": tokens.Accounts, "/api/accounts": tokens.Accounts, "/api/attacks": tokens.Accounts,
	"/api/alerts": tokens.Alerts,
	"/api/policy": tokens.Policy, "/api/tokens": tokens.Admin, "/api/administrators": tokens.Admin,
	"/api/probe": tokens.Admin,
}

// scopeFor returns the scope that a request needs; empty if tokens are not allowed.
func scopeFor(method, path string) (needs tokens.Scope) {
	longest := 0
	for at, scope := range changes {
		if (path == at || strings.HasPrefix(path, at+"/")) && len(at) > longest {
			needs, longest = scope, len(at)
		}
	}
	if (method == http.MethodGet || method == http.MethodHead) && needs != tokens.Admin {
		return tokens.Read
	}
	return needs
}

// bearer returns the token in the Authorization header. URLs end up in logs and histories, so they carry none.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// byToken admits a token with the required scope. Browsers do not send the header by themselves (CSRF).
func (a *API) byToken(c echo.Context, text string) error {
	token, ok, err := a.Control.TokenOf(c.Request().Context(), text)
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
	c.Set(grantKey, grant{token: &token, maker: token.Maker})
	wants := scopeFor(c.Request().Method, c.Path())
	if wants == "" {
		return notBy(token, "only signed-in administrators can do this")
	}
	if err := cmp.Or(needs(c, wants), confine(c, token)); err != nil {
		return err
	}
	c.Set(whoKey, "token:"+token.Name)
	return nil
}

func spell(scopes []tokens.Scope) string {
	all := make([]string, len(scopes))
	for i, one := range scopes {
		all[i] = string(one)
	}
	return strings.Join(all, ", ")
}

// notBy is the error for a token with insufficient scope.
func notBy(t tokens.Token, why string) error {
	return web.Problem{Type: "scope", Title: "Insufficient scope", Status: http.StatusForbidden, Detail: why +
		"; this token has: " + spell(t.Scopes)}
}

// may reports whether the request has a scope. Only tokens are restricted.
func may(c echo.Context, scope tokens.Scope) bool {
	g, _ := c.Get(grantKey).(grant)
	return g.token == nil || g.token.May(scope)
}

// needs returns an error if a token lacks a scope.
func needs(c echo.Context, scope tokens.Scope) error {
	if may(c, scope) {
		return nil
	}
	return notBy(*c.Get(grantKey).(grant).token, "this requires the scope "+string(scope))
}

// ofRealm are the paths about one realm. All others, and new paths, are closed to a token of one realm.
var ofRealm = []string{
	"/api/overview", "/api/status", "/api/series", "/api/mode", "/api/explain", "/api/lookup", "/api/unlock",
	"/api/forget", "/api/users", "/api/audit", "/api/attacks", "/api/policy", "/api/attacks",
}

// confine restricts a token to its realm, which it sets in the request instead of the default or all realms.
func confine(c echo.Context, t tokens.Token) error {
	if !t.Confined {
		return nil
	}
	within := func(at string) bool { return c.Path() == at || strings.HasPrefix(c.Path(), at+"/") }
	asked := c.Request().URL.Query()
	switch all := asked["realm"]; {
	case !slices.ContainsFunc(ofRealm, within):
		return web.Problem{Type: "realm", Title: "Token limited to one realm", Status: http.StatusForbidden,
			Detail: "this applies to all realms; use a token that was created without a realm"}
	case slices.ContainsFunc(all, func(name string) bool { return name != t.Realm }):
		return web.Problem{Type: "realm", Title: "Token limited to one realm", Status: http.StatusForbidden,
			Detail: fmt.Sprintf("the token is valid only in the realm %s", t.Realm)}
	}
	asked.Set("realm", t.Realm)
	c.Request().URL.RawQuery = asked.Encode()
	return nil
}

// mayChangeWhoSignsIn protects tokens, administrators and their credentials, through which an attacker could gain
// permanent access. A session needs a recent sign-in, a token the scope.
func mayChangeWhoSignsIn(c echo.Context) error {
	if err := needs(c, tokens.Admin); err != nil {
		return err
	}
	if g, ok := c.Get(grantKey).(grant); ok && g.token == nil && !g.fresh {
		return web.Problem{Type: freshRequired, Title: "Recent sign-in required", Status: http.StatusForbidden,
			Detail: againWords}
	}
	return nil
}

// mayChange requires at least the power that the account gives: mayChangeWhoSignsIn for an administrator's, the scope
// for one in groups. For a token without the scope, an administrator's account does not exist, so that the token cannot
// enumerate administrators.
func (a *API) mayChange(c echo.Context, name string) error {
	held, err := a.of(c).Held(c.Request().Context(), name)
	switch {
	case err != nil || held == "":
		return err
	case held == tokens.Admin && !may(c, tokens.Admin):
		return accounts.ErrUnknown
	case held == tokens.Admin:
		return mayChangeWhoSignsIn(c)
	}
	return needs(c, held)
}

// mayUnlock keeps tokens from administrators' counters and known clients. Otherwise an attacker could reset the limits
// between guesses.
func (a *API) mayUnlock(c echo.Context, name string) error {
	held, err := a.of(c).Held(c.Request().Context(), name)
	if err != nil || held != tokens.Admin {
		return err
	}
	return needs(c, held)
}

// tokens is GET /api/tokens: the tokens of all realms that a command or a page created.
func (a *API) tokens(c echo.Context) (any, error) {
	all, err := a.of(c).Tokens(c.Request().Context())
	return map[string]any{"tokens": listed(all)}, err
}

type tokenQuestion struct {
	Name   string         `json:"name"`
	Scopes []tokens.Scope `json:"scopes"`
	For    string         `json:"for"`
	because
}

// addToken is POST /api/tokens. Only this response has the token. With scopes it is for this API, lasts "for" (90d by
// default), and is valid in all realms unless one is named.
func (a *API) addToken(c echo.Context, q tokenQuestion) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	life, err := hold(q.For)
	if err != nil {
		return nil, err
	}
	g, _ := c.Get(grantKey).(grant)
	made, err := a.of(c).AddToken(c.Request().Context(), sender(c), tokens.Asked{Name: q.Name, Maker: g.maker,
		Scopes: slices.Compact(slices.Sorted(slices.Values(q.Scopes))), For: life, Confined: len(q.Scopes) > 0 &&
			c.QueryParam("realm") != ""}, q.Reason)
	if err != nil {
		return nil, err
	}
	return nil, c.JSON(http.StatusCreated, made)
}

func (a *API) revokeToken(c echo.Context) (any, error) {
	return done, a.of(c).RevokeToken(c.Request().Context(), sender(c), c.QueryParam("name"), c.QueryParam("reason"))
}
