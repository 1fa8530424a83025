package learn

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"authguard/internal/route"
)

// ErrSession means that the app needs Spec.SignedIn, and no page for it was found.
var ErrSession = errors.New("no route is proposed: none of the tested pages shows whether a visitor is signed in, " +
	"and this app needs one. A signed-in visitor gets the same answer for a wrong password as for a right one, " +
	"or a second GET of its login page invalidates the form, or a wrong password ends a session, " +
	"or it accepts no second login (a CAPTCHA, a code). " +
	"Write the route by hand, with signed_in: [page /PATH, status 200] " +
	"for a page that only signed-in visitors get")

// signedIn adds SignedIn to a proposal if the proxy's default method does not recognize a signed-in user in this app.
// It tests that with the session of the successful login, and with an anonymous one.
func (c checker) signedIn(p *Proposal, page route.Answer) error {
	same, session, err := c.withSession(p.Spec, c.right.jar())
	if err != nil {
		return err
	}
	recognized, err := c.recognizes(p.Spec, session)
	if err != nil {
		return err
	}
	undisturbed, err := c.undisturbed(p.Spec)
	byPassword := p.Folder != "" || kindOf(p.Account) == "json" // costs a password check for each attempt
	if err != nil || undisturbed && !byPassword && (recognized || same == checkedAnyway) {
		return err
	}
	for _, written := range c.pages(session, page) {
		spec := p.Spec
		spec.SignedIn = written
		if ok, err := c.recognizes(spec, session); err != nil || !ok {
			continue
		}
		if ok, err := c.undisturbed(spec); err == nil && ok {
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

// The app's responses to a wrong password with a session.
const (
	unclear = iota
	checkedAnyway
	takenForSuccess
)

// withSession sends a right and a wrong password with the session of a signed-in user and the token of a page they see.
// It also returns the session afterwards. The wrong password alone proves nothing: apps answer a missing token like a
// wrong password.
func (c checker) withSession(s route.Spec, session []*http.Cookie) (int, []*http.Cookie, error) {
	compiled, err := route.Compile(s)
	if err != nil {
		return unclear, session, err
	}
	var verdicts []route.Verdict
	for _, q := range []request{c.right.asTyped, c.login.again} {
		for _, to := range []string{"/", s.Path} {
			shown, err := c.do(c.request(c.get(to), session))
			if err != nil {
				return unclear, session, err
			}
			q, session = q.with(hidden(shown.Body)), keep(session, shown)
		}
		answer, err := c.do(c.request(q, session))
		if err != nil {
			return unclear, session, err
		}
		verdicts = append(verdicts, compiled.Judge(answer))
		if len(verdicts) == 1 {
			session = keep(session, answer)
		}
	}
	switch {
	case verdicts[1] == route.Succeeded:
		return takenForSuccess, session, nil
	case verdicts[0] == route.Succeeded:
		return checkedAnyway, session, nil
	}
	return unclear, session, nil
}

func (c checker) recognizes(s route.Spec, session []*http.Cookie) (bool, error) {
	basis, err := c.basis(s, c.login.again, session)
	return basis == route.OnSession, err
}

// undisturbed reports whether an anonymous user can sign in after the proxy's own requests. An app with one token per
// session has replaced the token by then.
func (c checker) undisturbed(s route.Spec) (bool, error) {
	shown, err := c.do(c.request(c.page(), nil))
	if err != nil {
		return false, err
	}
	q, anonymous := c.right.asTyped.with(hidden(shown.Body)), keep(nil, shown)
	if basis, err := c.basis(s, q, anonymous); err != nil || basis != route.OnPassword {
		return false, err
	}
	compiled, err := route.Compile(s)
	if err != nil {
		return false, err
	}
	answer, err := c.do(c.request(q, anonymous))
	if err != nil || compiled.Judge(answer) != route.Succeeded {
		return false, err
	}
	return c.lasts(compiled, q, anonymous, answer)
}

// lasts reports whether a session is still signed in after the proxy has asked in it: an app may end it at a wrong
// password, or at its login page. The page that the login leads to shows that.
func (c checker) lasts(compiled *route.Route, q request, anonymous []*http.Cookie, success route.Answer) (bool, error) {
	session, to := keep(anonymous, success), target(success)
	before := c.request(q, anonymous)
	_, offer, err := route.Table{compiled}.Find(before, q.body)
	if err != nil || to == "" {
		return true, err
	}
	first, err := c.do(c.request(c.get(to), session))
	if err != nil {
		return false, err
	}
	compiled.SignsIn(before, c.request(q, session), q.body, offer, c.ask)
	last, err := c.do(c.request(c.get(to), session))
	signsOut := func(a route.Answer) bool { return slices.ContainsFunc(lines(a.Body), insideText.MatchString) }
	return first.Status == last.Status && whither(first) == whither(last) && (!signsOut(first) || signsOut(last)), err
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
	return compiled.Basis(r, q.body, offer, c.ask)
}

// ask implements route.Ask.
func (c checker) ask(r *http.Request, body []byte) (route.Answer, error) {
	return c.do(c.request(request{r.Method, r.Host, r.URL, r.Header, body}, nil))
}

// pages returns ways to recognize a signed-in user: by the page that a login leads to, and by the site's front page.
func (c checker) pages(session []*http.Cookie, page route.Answer) (all [][]string) {
	for _, to := range []string{target(c.right.Answer), "/"} {
		if to == "" || !plain.MatchString(to) {
			continue
		}
		inside, err := c.do(c.request(c.get(to), session))
		if err != nil {
			continue
		}
		outside, err := c.do(c.request(c.get(to), keep(nil, page)))
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

func (l *Login) jar() []*http.Cookie { return keep(l.cookies, l.Answer) }

// keep returns the browser's cookies after a response. The last of several with one name wins, unless it deletes the
// cookie. phpMyAdmin sets its session cookie three times in a response.
func keep(cookies []*http.Cookie, a route.Answer) (all []*http.Cookie) {
	all = slices.Clone(cookies)
	for _, one := range (&http.Response{Header: a.Header}).Cookies() {
		all = slices.DeleteFunc(all, func(c *http.Cookie) bool { return c.Name == one.Name })
		if one.Value != "" && one.MaxAge >= 0 {
			all = append(all, one)
		}
	}
	return all
}
