package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// Tokens are the bearer tokens of the decision API, of all realms: those of the
// configuration, and those that were made by command. Only their digests are kept.
// The zero value holds none; it is safe for concurrent use.
type Tokens struct{ configured, issued atomic.Pointer[tokenSet] }

// A Token lets back ends ask in the name of one realm.
type Token struct {
	Sum   [sha256.Size]byte // of the token
	Realm string
}

// SumToken is what is kept of a token. It is drawn at random, 128 bits and more, so a
// plain hash does: there is nothing to guess.
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

// SetIssued replaces those that were made by command.
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

// RealmOf is the realm of a request's bearer token. It compares with every token, so
// that the time taken says nothing about any.
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

// authorise lets only those on who have a token of this realm.
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
