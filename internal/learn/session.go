package learn

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"authguard/internal/route"
)

// ErrSession is for an app that needs Spec.SignedIn, where no page was found for it.
var ErrSession = errors.New("nothing is proposed: none of the pages tried says whether a visitor is signed in, " +
	"and this app needs one. " +
	"It answers a wrong password like a right one to a visitor who is signed in, " +
	"or a second GET of its login page spoils the form. " +
	"Write the route by hand, with signed_in: [page /PATH, status 200] " +
	"for a page that only visitors who are signed in get")

// signedIn completes a proposal with how to recognize a visitor who is signed in, if the
// proxy's own way does not do for this app. It tries that with the session of the login that
// has succeeded, and with an anonymous one.
func (c checker) signedIn(p *Proposal, succeeded *Login, fresh, page route.Answer) error {
	session := succeeded.jar()
	same, err := c.withSession(p.Spec, session, fresh, page)
	if err != nil {
		return err
	}
	recognized, err := c.recognizes(p.Spec, session)
	if err != nil {
		return err
	}
	undisturbed, err := c.undisturbed(p.Spec, fresh, page)
	byPassword := p.Folder != "" || kindOf(p.Account) == "json" // which costs a password check for each attempt
	if err != nil || undisturbed && !byPassword && (recognized || same == checkedAnyway) {
		return err
	}
	for _, written := range c.pages(succeeded, session, page) {
		spec := p.Spec
		spec.SignedIn = written
		if ok, err := c.recognizes(spec, session); err != nil || !ok {
			continue
		}
		if ok, err := c.undisturbed(spec, fresh, page); err == nil && ok {
			p.SignedIn = written
			return nil
		}
	}
	switch {
	case same == checkedAnyway:
		p.SignedIn = []string{"never"}
	case !undisturbed, same == takenForSuccess && !recognized:
		return ErrSession
	}
	return nil
}

// What an app says to a wrong password with a session.
const (
	unclear = iota
	checkedAnyway
	takenForSuccess
)

// withSession sends the failed login with the session of a visitor who is signed in, and
// the token of a page that is shown to them.
func (c checker) withSession(s route.Spec, session []*http.Cookie, fresh, page route.Answer) (int, error) {
	compiled, err := route.Compile(s)
	if err != nil {
		return unclear, err
	}
	q := c.login.again
	for _, to := range []string{"/", s.Path} {
		shown, err := c.do(c.request(c.get(to), session))
		if err != nil {
			return unclear, err
		}
		q = q.with(hidden(shown.Body))
	}
	answer, err := c.do(c.request(q, session))
	switch {
	case err != nil:
	case compiled.Judge(answer) == route.Succeeded:
		return takenForSuccess, nil
	case c.alike(answer, fresh, page):
		return checkedAnyway, nil
	}
	return unclear, err
}

// recognizes reports whether the proxy would recognize who is signed in.
func (c checker) recognizes(s route.Spec, session []*http.Cookie) (bool, error) {
	basis, err := c.basis(s, c.login.again, session)
	return basis == route.OnSession, err
}

// undisturbed reports whether the proxy's questions leave an anonymous visitor's login as
// it is: an app with one token for each session has made another one by then.
func (c checker) undisturbed(s route.Spec, fresh, page route.Answer) (bool, error) {
	shown, err := c.do(c.request(c.page(), nil))
	if err != nil {
		return false, err
	}
	q, anonymous := c.login.again.with(hidden(shown.Body)), set(shown.Header)
	if basis, err := c.basis(s, q, anonymous); err != nil || basis != route.OnPassword {
		return false, err
	}
	answer, err := c.do(c.request(q, anonymous))
	return err == nil && c.alike(answer, fresh, page), err
}

func (c checker) basis(s route.Spec, q request, cookies []*http.Cookie) (route.Basis, error) {
	compiled, err := route.Compile(s)
	if err != nil {
		return route.OnSession, err
	}
	r := c.request(q, cookies)
	_, offer, err := route.Table{compiled}.Find(r, q.body)
	if err != nil || len(offer.Credentials) == 0 {
		return route.OnSession, err
	}
	return compiled.Basis(r, q.body, offer, func(r *http.Request, body []byte) (route.Answer, error) {
		return c.do(c.request(request{r.Method, r.Host, r.URL, r.Header, body}, nil))
	})
}

// alike reports whether an answer says that the password is wrong, as the one to a fresh
// visitor does.
func (c checker) alike(answer, fresh, page route.Answer) bool {
	return answer.Status == fresh.Status && whither(answer) == whither(fresh) &&
		has(answer, marks(c.login.Answer, fresh, page))
}

// pages are ways to recognize who is signed in: by the page where a login leads, and by
// the site's first one.
func (c checker) pages(succeeded *Login, session []*http.Cookie, page route.Answer) (all [][]string) {
	for _, to := range []string{target(succeeded.Answer), "/"} {
		if to == "" || !plain.MatchString(to) {
			continue
		}
		inside, err := c.do(c.request(c.get(to), session))
		if err != nil {
			continue
		}
		outside, err := c.do(c.request(c.get(to), set(page.Header)))
		at := "page " + to
		switch {
		case err != nil:
		case inside.Status != outside.Status && inside.Status/100 == 2:
			all = append(all, []string{at, fmt.Sprintf("status %d", inside.Status)})
		default:
			texts := lines(inside.Body)
			i := slices.IndexFunc(texts, func(text string) bool {
				return insideText.MatchString(text) && !bytes.Contains(outside.Body, []byte(text))
			})
			if i >= 0 {
				all = append(all, []string{at, "body " + texts[i]})
			}
		}
	}
	return all
}

// jar are the cookies that a browser has after a login.
func (l *Login) jar() []*http.Cookie {
	all := set(l.Answer.Header)
	for _, c := range l.cookies {
		if !slices.ContainsFunc(all, func(one *http.Cookie) bool { return one.Name == c.Name }) {
			all = append(all, c)
		}
	}
	return all
}

// set are the cookies that an answer sets.
func set(h http.Header) []*http.Cookie {
	return slices.DeleteFunc((&http.Response{Header: h}).Cookies(), func(c *http.Cookie) bool { return c.Value == "" })
}
