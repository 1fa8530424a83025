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
			Type: "unauthorized", Title: "Invalid token", Status: http.StatusUnauthorized,
			Detail: "the token is unknown, expired or revoked, its creator is no longer an administrator, or it is for the decision API only",
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

// notBy refuses what a token may not do.
func notBy(t tokens.Token, why string) error {
	return web.Problem{Type: "scope", Title: "Insufficient scope", Status: http.StatusForbidden, Detail: why + "; this token has: " + spell(t.Scopes)}
}

// may reports whether a request may do what a scope is for: all but a token's may.
func may(c echo.Context, scope tokens.Scope) bool {
	g, _ := c.Get(grantKey).(grant)
	return g.token == nil || g.token.May(scope)
}

// needs refuses a token without a scope.
func needs(c echo.Context, scope tokens.Scope) error {
	if may(c, scope) {
		return nil
	}
	return notBy(*c.Get(grantKey).(grant).token, "this requires the scope "+string(scope))
}

// ofRealm are the paths that are about one realm. What is elsewhere is of all realms, and
// closed to a token of one: whoever adds a path says so here.
var ofRealm = []string{
	"/api/overview", "/api/status", "/api/series", "/api/mode", "/api/explain", "/api/lookup", "/api/unlock", "/api/forget", "/api/users", "/api/audit", "/api/attacks", "/api/policy", "/api/attacks",
}

// confine keeps a token of one realm there. It names the realm in the request, so that no
// path answers for the default one, or for all.
func confine(c echo.Context, t tokens.Token) error {
	if !t.Confined {
		return nil
	}
	within := func(at string) bool { return c.Path() == at || strings.HasPrefix(c.Path(), at+"/") }
	asked := c.Request().URL.Query()
	switch all := asked["realm"]; {
	case !slices.ContainsFunc(ofRealm, within):
		return web.Problem{Type: "realm", Title: "Token limited to one realm", Status: http.StatusForbidden, Detail: "this applies to all realms; use a token that was created without a realm"}
	case slices.ContainsFunc(all, func(name string) bool { return name != t.Realm }):
		return web.Problem{Type: "realm", Title: "Token limited to one realm", Status: http.StatusForbidden, Detail: fmt.Sprintf("the token is valid only in the realm %s", t.Realm)}
	}
	asked.Set("realm", t.Realm)
	c.Request().URL.RawQuery = asked.Encode()
	return nil
}

// mayChangeWhoSignsIn refuses what would let somebody in for good: tokens, administrators,
// and what those sign in with. A session needs its person to have signed in a moment ago,
// a token the scope.
func mayChangeWhoSignsIn(c echo.Context) error {
	if err := needs(c, tokens.Admin); err != nil {
		return err
	}
	if g, ok := c.Get(grantKey).(grant); ok && g.token == nil && !g.fresh {
		return web.Problem{Type: freshRequired, Title: "Recent sign-in required", Status: http.StatusForbidden, Detail: againWords}
	}
	return nil
}

// mayChange refuses a change of an account to whoever has less power than it gives: for an
// administrator's it is mayChangeWhoSignsIn, and one in groups needs the scope for those. To
// a token that may not change administrators there is no account of such a name: it must
// not find out who is one.
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

// mayUnlock keeps tokens from administrators' counters and places: whoever unlocks between
// guesses guesses without a limit.
func (a *API) mayUnlock(c echo.Context, name string) error {
	held, err := a.of(c).Held(c.Request().Context(), name)
	if err != nil || held != tokens.Admin {
		return err
	}
	return needs(c, held)
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
	because
}

// addToken is POST /api/tokens: a token of the realm, told this once. With scopes it is
// one for this API, good for "for" (90d if that is left out), and for all realms unless
// one is named.
func (a *API) addToken(c echo.Context, q tokenQuestion) (any, error) {
	if err := mayChangeWhoSignsIn(c); err != nil {
		return nil, err
	}
	life, err := hold(q.For)
	if err != nil {
		return nil, err
	}
	g, _ := c.Get(grantKey).(grant)
	made, err := a.of(c).AddToken(c.Request().Context(), sender(c), tokens.Asked{Name: q.Name, Maker: g.maker, Scopes: slices.Compact(slices.Sorted(slices.Values(q.Scopes))), For: life, Confined: len(q.Scopes) > 0 && c.QueryParam("realm") != ""}, q.Reason)
	if err != nil {
		return nil, err
	}
	return nil, c.JSON(http.StatusCreated, made)
}

// revokeToken is DELETE /api/tokens?name=&reason=.
func (a *API) revokeToken(c echo.Context) (any, error) {
	return done, a.of(c).RevokeToken(c.Request().Context(), sender(c), c.QueryParam("name"), c.QueryParam("reason"))
}
