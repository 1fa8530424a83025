package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"authguard/internal/route"
)

// ErrWeak means that the two logins differ only in signs that an attacker without cookies also gets.
var ErrWeak = errors.New("no route is proposed: the app also gives a wrong password without cookies, or with fresh " +
	"ones, the answer of a right password. Find what only a successful login returns (a redirect, a JSON value, a " +
	"text), and set success by hand")

// Proposal is a route. If the app accepts the login at other paths too, it includes the folder that needs the same
// route.
type Proposal struct {
	route.Spec
	Folder string   // such as /*; empty if not needed
	Also   []string // further paths where the app accepted the login
}

// Send sends a request to the app without following redirects.
type Send func(*http.Request) (*http.Response, error)

// Check proposes the route that distinguishes the two logins, and tests it. It repeats the failed login with a
// generated password, as an attacker would. A sign in those responses is no sign of success. It gets the login page and
// tries to log in at most sixteen times, up to four of them with the right password. It erases that password when it
// returns.
func Check(ctx context.Context, send Send, failed, succeeded *Login) (p Proposal, err error) {
	defer succeeded.Forget()
	if p.Spec, err = Propose(failed, succeeded); err != nil {
		return p, err
	}
	c := checker{ctx: ctx, send: send, login: failed, right: succeeded}
	bare, fresh, page, err := c.guesses()
	if err != nil {
		return p, fmt.Errorf("no route is proposed: the test login with a wrong password failed: %w", err)
	}
	p.Spec, err = propose(succeeded, []route.Answer{failed.Answer, bare, fresh}, []route.Answer{page})
	if errors.Is(err, ErrAlike) {
		err = ErrWeak
	}
	if err != nil || p.Account == "basic" {
		return p, err
	}
	p.Also, err = c.elsewhere(p.Spec, fresh, page)
	if len(p.Also) > 0 {
		p.Folder = folderAround(p.Path, p.Also)
	}
	if err == nil {
		err = c.signedIn(&p, page)
	}
	return p, err
}

type checker struct {
	ctx   context.Context
	send  Send
	login *Login
	right *Login
}

// guesses returns the app's responses to the login without cookies and to one with the page's cookies, and the page.
func (c checker) guesses() (bare, fresh, page route.Answer, err error) {
	if bare, err = c.do(c.request(c.login.again, nil)); err == nil {
		fresh, page, err = c.fresh(c.login.again.url.Path)
	}
	for _, a := range []route.Answer{bare, fresh} {
		if err == nil && (a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable) {
			err = fmt.Errorf("it answered %d: wait until its lockout is over, or relax it, and try again", a.Status)
		}
	}
	return bare, fresh, page, err
}

// fresh gets the page again and sends its cookies and hidden fields with the login.
func (c checker) fresh(to string) (answer, page route.Answer, err error) {
	if page, err = c.do(c.request(c.page(), nil)); err != nil {
		return answer, page, err
	}
	q := c.login.again.with(hidden(page.Body))
	at := *q.url
	at.Path, at.RawPath = to, ""
	q.url = &at
	answer, err = c.do(c.request(q, keep(nil, page)))
	return answer, page, err
}

func (c checker) page() request {
	get := c.get("")
	get.url = c.login.again.url
	if from, err := url.Parse(c.login.again.header.Get("Referer")); err == nil && from.Host == get.host {
		get.url = from
	}
	return get
}

func (c checker) get(path string) request {
	return request{http.MethodGet, c.login.again.host, &url.URL{Path: path}, http.Header{"Accept": {"text/html,*/*"}}, nil}
}

func (c checker) request(q request, cookies []*http.Cookie) *http.Request {
	to := url.URL{Scheme: "http", Host: q.host, Path: q.url.Path, RawPath: q.url.RawPath, RawQuery: q.url.RawQuery}
	r, _ := http.NewRequestWithContext(c.ctx, q.method, to.String(), bytes.NewReader(q.body)) // cannot fail
	r.Header, r.RemoteAddr = q.header.Clone(), "127.0.0.1:0"
	for _, one := range cookies {
		r.AddCookie(&http.Cookie{Name: one.Name, Value: one.Value})
	}
	return r
}

func (c checker) do(r *http.Request) (a route.Answer, err error) {
	answer, err := c.send(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return c.login.clean(route.Answer{Status: answer.StatusCode, Header: answer.Header, Body: body,
		Whole: len(body) < 1<<20}), err
}

// elsewhere finds other paths where the app accepts the login: a front controller reads the fields of a request and
// ignores its path.
func (c checker) elsewhere(s route.Spec, fresh, page route.Answer) (also []string, err error) {
	compiled, err := route.Compile(s)
	if err != nil {
		return nil, err
	}
	tried := []string{strings.TrimRight(s.Path, "/") + "/x"}
	for at := s.Path; at != "/" && len(tried) < 6; {
		at = path.Dir(at)
		tried = append(tried, at)
	}
	want := marks(c.login.Answer, fresh, page)
	for _, to := range tried {
		if at, _ := (route.Table{compiled}).At((&url.URL{Path: to}).EscapedPath()); len(at) > 0 && at[0] == compiled {
			continue
		}
		answer, _, err := c.fresh(to)
		if err == nil && answer.Status/100 == 3 && target(answer) == to+"/" {
			answer, _, err = c.fresh(to + "/")
		}
		if err != nil {
			return also, err
		}
		if answer.Status == fresh.Status && whither(answer) == whither(fresh) && has(answer, want) {
			also = append(also, to)
		}
	}
	return also, nil
}

// marks returns the signs that the app's responses to a wrong password share, without those of the login page.
func marks(known, fresh, page route.Answer) []string {
	all := signs(fresh)
	for _, keep := range []func(string) bool{
		func(s string) bool { return slices.Contains(signs(known), s) },
		func(s string) bool { return !slices.Contains(signs(page), s) },
	} {
		if left := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return !keep(s) }); len(left) > 0 {
			all = left
		}
	}
	return all
}

func signs(a route.Answer) (all []string) {
	for pointer, value := range leaves(a) {
		all = append(all, fmt.Sprint(pointer, value))
	}
	if all == nil {
		all = lines(a.Body)
	}
	return all
}

func has(a route.Answer, want []string) bool {
	all := signs(a)
	return !slices.ContainsFunc(want, func(s string) bool { return !slices.Contains(all, s) })
}

func whither(a route.Answer) string {
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return u.Path + "?" + u.RawQuery
}

func folderAround(folder string, others []string) string {
	for _, other := range others {
		for folder != "/" && other != folder && !strings.HasPrefix(other, folder+"/") {
			folder = path.Dir(folder)
		}
	}
	return strings.TrimRight(folder, "/") + "/*"
}
