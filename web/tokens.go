package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// Tokens are the bearer tokens of the decision API, of all realms: from the configuration and from commands. It keeps
// digests only. The zero value holds none; it is safe for concurrent use.
type Tokens struct{ configured, issued atomic.Pointer[tokenSet] }

// A Token authenticates back ends for one realm.
type Token struct {
	Sum   [sha256.Size]byte // of the token
	Realm string
}

// SumToken hashes a token for storage. A plain hash suffices: tokens are random, with 128 bits or more.
func SumToken(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }

type tokenSet struct {
	all    []Token
	realms map[string]bool // that have any
}

func newTokenSet(all []Token) *tokenSet {
	s := &tokenSet{all: all, realms: map[string]bool{}}
	for _, t := range all {
		s.realms[t.Realm] = true
	}
	return s
}

// SetConfigured replaces the tokens of the configuration.
func (t *Tokens) SetConfigured(all []Token) { t.configured.Store(newTokenSet(all)) }

// SetIssued replaces the tokens that were created by command.
func (t *Tokens) SetIssued(all []Token) { t.issued.Store(newTokenSet(all)) }

// Any reports whether a realm has a token.
func (t *Tokens) Any(realm string) bool {
	for _, set := range []*tokenSet{t.configured.Load(), t.issued.Load()} {
		if set != nil && set.realms[realm] {
			return true
		}
	}
	return false
}

// RealmOf returns the realm of a request's bearer token. It compares with every token, so that timing reveals none.
func (t *Tokens) RealmOf(r *http.Request) (realm string, ok bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); token == "" || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	sent := SumToken(token)
	for _, set := range []*tokenSet{t.configured.Load(), t.issued.Load()} {
		if set == nil {
			continue
		}
		for i := range set.all {
			if subtle.ConstantTimeCompare(set.all[i].Sum[:], sent[:]) == 1 {
				realm, ok = set.all[i].Realm, true
			}
		}
	}
	return realm, ok
}

// authorise requires a token of this realm.
func (a *API) authorise(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		if realm, ok := a.Tokens.RealmOf(c.Request()); ok && realm == a.Realm {
			return next(c)
		}
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="authguard"`)
		return Problem{
			Type: "unauthorized", Title: "Bearer token required", Status: http.StatusUnauthorized,
			Detail: "Send a token of this realm: Authorization: Bearer TOKEN. `authguard token create NAME` makes one.",
		}
	}
}
