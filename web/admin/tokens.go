package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"authguard/internal/tokens"
	"authguard/web"
)

// A grant is what a request may do. The commands' socket has none, and may do everything.
type grant struct {
	token *tokens.Token // nil: an administrator's session
	fresh bool          // of a session: its person signed in a moment ago
	maker string        // the administrator by whom tokens are made
}

// grantKey is where a request keeps its grant.
const grantKey = "authguard.admin.grant"

// changes are the scopes that a change below a path of the API needs; the longest path
// counts. What is not here no token may change.
var changes = map[string]tokens.Scope{
	"/api/mode": tokens.Mode, "/api/unlock": tokens.Unlock, "/api/forget": tokens.Unlock, "/api/lists": tokens.Lists,
	"/api/users": tokens.Accounts, "/api/accounts": tokens.Accounts, "/api/attacks": tokens.Accounts, "/api/alerts": tokens.Alerts,
	"/api/policy": tokens.Policy, "/api/tokens": tokens.Admin, "/api/administrators": tokens.Admin, "/api/probe": tokens.Admin,
}

// scopeFor is the scope that a request needs; none for what no token may do.
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

// bearer is the token that a request brings in its header, and nowhere else: what stands
// in a URL is in logs and histories.
func bearer(r *http.Request) (token string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
}

// byToken lets a program in that has a token with the scope for what it asks. No browser
// sends one by itself, so that no other site's page can use it.
func (a *API) byToken(c echo.Context, text string) error {
	token, ok, err := a.Control.TokenOf(c.Request().Context(), text)
	if err != nil {
		return err
	}
	if !ok {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="authguard administration"`)
		return web.Problem{
			Type: "unauthorized", Title: "The token is not good here", Status: http.StatusUnauthorized,
			Detail: "it is unknown, has expired or was revoked, its maker is no administrator any more, or it is one of the decision API",
		}
	}
	needs := scopeFor(c.Request().Method, c.Path())
	if needs == "" || !token.May(needs) {
		return web.Problem{
			Type: "scope", Title: "The token may not do this", Status: http.StatusForbidden,
			Detail: "it needs the scope " + cmp.Or(string(needs), "of no token: only administrators who are signed in may") + "; this one has: " + spell(token.Scopes),
		}
	}
	c.Set(whoKey, "token:"+token.Name)
	c.Set(grantKey, grant{token: &token, maker: token.Maker})
	return nil
}

func spell(scopes []tokens.Scope) string {
	all := make([]string, len(scopes))
	for i, one := range scopes {
		all[i] = string(one)
	}
	return strings.Join(all, ", ")
}

// mayChangeWhoSignsIn refuses what would let somebody in for good: tokens, administrators,
// and what those sign in with. A session needs its person to have signed in a moment ago,
// a token the scope.
func mayChangeWhoSignsIn(c echo.Context) error {
	switch g, ok := c.Get(grantKey).(grant); {
	case !ok:
		return nil
	case g.token != nil && !g.token.May(tokens.Admin):
		return web.Problem{
			Type: "scope", Title: "The token may not do this", Status: http.StatusForbidden,
			Detail: "administrators and tokens need the scope admin; this one has: " + spell(g.token.Scopes),
		}
	case g.token == nil && !g.fresh:
		return web.Problem{Type: freshRequired, Title: "Sign in again first", Status: http.StatusForbidden, Detail: againWords}
	}
	return nil
}

// mayChange is mayChangeWhoSignsIn if an account is an administrator's.
func (a *API) mayChange(c echo.Context, name string) error {
	admins, err := a.of(c).IsAdministrator(c.Request().Context(), name)
	if err != nil || !admins {
		return err
	}
	return mayChangeWhoSignsIn(c)
}

// tokens is GET /api/tokens: those of all realms that were made by command or on a page.
func (a *API) tokens(c echo.Context) (any, error) {
	all, err := a.of(c).Tokens(c.Request().Context())
	return map[string]any{"tokens": listed(all)}, err
}

type tokenQuestion struct {
	Name   string         `json:"name"`
	Scopes []tokens.Scope `json:"scopes"`
	For    string         `json:"for"`
}

// addToken is POST /api/tokens: a token of the realm, told this once. With scopes it is
// one for this API, and good for "for" (90d if that is left out).
func (a *API) addToken(c echo.Context, q tokenQuestion) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	life, err := hold(q.For)
	if err != nil {
		return nil, err
	}
	g, _ := c.Get(grantKey).(grant)
	made, err := a.of(c).AddToken(c.Request().Context(), sender(c), tokens.Asked{Name: q.Name, Maker: g.maker, Scopes: slices.Compact(slices.Sorted(slices.Values(q.Scopes))), For: life})
	if err != nil {
		return nil, err
	}
	return nil, c.JSON(http.StatusCreated, made)
}

// revokeToken is DELETE /api/tokens?name=.
func (a *API) revokeToken(c echo.Context) (any, error) {
	return done, a.of(c).RevokeToken(c.Request().Context(), sender(c), c.QueryParam("name"))
}

// administrators is GET /api/administrators: who they are, and how they sign in.
func (a *API) administrators(c echo.Context) (any, error) {
	all, err := a.Control.Administrators(c.Request().Context())
	return map[string]any{"administrators": listed(all)}, err
}

type resetQuestion struct {
	Username string `json:"username"`
	Reason   string `json:"reason"`
}

// resetFactors is POST /api/administrators/second-factor: it removes all second factors of
// an administrator who has lost them.
func (a *API) resetFactors(c echo.Context, q resetQuestion) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	n, err := a.Control.ResetFactors(c.Request().Context(), sender(c), q.Username, q.Reason)
	return map[string]any{"ok": true, "removed": n}, err
}

// sessions is GET /api/administrators/sessions?username=.
func (a *API) sessions(c echo.Context) (any, error) {
	all, err := a.Control.SessionsOf(c.Request().Context(), c.QueryParam("username"))
	return map[string]any{"sessions": listed(all)}, err
}

// endSessions is DELETE /api/administrators/sessions?username=&id=; without an id it ends
// all of them.
func (a *API) endSessions(c echo.Context) (any, error) {
	ctx, name := c.Request().Context(), c.QueryParam("username")
	if name == "" {
		return nil, web.Invalid("username: say whose sessions")
	}
	if id := c.QueryParam("id"); id != "" {
		return done, a.Control.EndSession(ctx, sender(c), name, id)
	}
	n, err := a.Control.EndSessions(ctx, sender(c), name, "")
	return map[string]any{"ok": true, "ended": n}, err
}
