package learn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"authguard/internal/route"
)

// ErrOrder means that a wrong password gets the second login's response, and not the first one's.
var ErrOrder = errors.New("no route is proposed: the app answered a wrong password like the second login. Start again, " +
	"and log in with the wrong password first")

// Proposal is a route. If the app accepts the login at other paths too, it includes the folder that needs the same
// route. If the app answers a wrong password like the right one, Success is "never".
type Proposal struct {
	route.Spec
	Folder  string   // such as /*; empty if not needed
	Also    []string // further paths where the app accepted the login
	Script  bool     // a script sent the login
	Counted []string // paths where a wrong login was sent, which the proposal counts as failed
}

func (p Proposal) specs() []route.Spec {
	if p.Folder == "" {
		return []route.Spec{p.Spec}
	}
	folder := p.Spec
	folder.Path, folder.Passes = p.Folder, nil // passes are only for a single path
	return []route.Spec{p.Spec, folder}
}

var never = []string{"never"}

// Send sends a request to the app without following redirects.
type Send func(*http.Request) (*http.Response, error)

// Check proposes the route that distinguishes the two logins, and tests it. It repeats the failed login with a
// generated password, as an attacker would. A sign in those responses is no sign of success. It gets the login page and
// tries to log in at most sixteen times, up to four of them with the right password. It erases that password when it
// returns.
func Check(ctx context.Context, send Send, failed, succeeded *Login) (p Proposal, err error) {
	defer succeeded.Forget()
	if p.Spec, err = Propose(failed, succeeded); err != nil && !errors.Is(err, ErrAlike) {
		return p, err
	}
	c := checker{ctx: ctx, send: send, login: failed, right: succeeded}
	h := failed.again.header
	p.Script = h.Get("Sec-Fetch-Dest") == "empty" || h.Get("X-Requested-With") != ""
	bare, fresh, page, err := c.guesses()
	if err != nil {
		return p, fmt.Errorf("no route is proposed: the test login with a wrong password failed: %w", err)
	}
	if first, err := route.Compile(p.Spec); err == nil && first.Judge(failed.Answer) != route.Succeeded &&
		first.Judge(bare) == route.Succeeded && first.Judge(fresh) == route.Succeeded {
		return p, ErrOrder
	}
	p.Spec, err = propose(succeeded, []route.Answer{failed.Answer, bare, fresh}, []route.Answer{page})
	if errors.Is(err, ErrAlike) {
		p.Success, err = never, nil
	}
	answers := map[string]route.Answer{succeeded.Path: fresh}
	if err == nil && p.Account != "basic" {
		p.Also, err = c.elsewhere(p.Spec, fresh, page, answers)
	}
	if len(p.Also) > 0 {
		p.Folder = folderAround(p.Path, p.Also)
	}
	if err == nil && p.Account != "basic" && !slices.Equal(p.Success, never) {
		err = c.signedIn(&p, page)
	}
	if err == nil {
		p.Counted, err = c.counted(p.specs(), answers)
	}
	return p, err
}

// counted returns the paths of the answers, or an error if the routes do not count a wrong login at one of them.
func (c checker) counted(specs []route.Spec, answers map[string]route.Answer) (all []string, err error) {
	var table route.Table
	for _, s := range specs {
		compiled, err := route.Compile(s)
		if err != nil {
			return nil, err
		}
		table = append(table, compiled)
	}
	for _, to := range slices.Sorted(maps.Keys(answers)) {
		q := c.login.again.at(to)
		there, _ := table.At(q.url.EscapedPath())
		found, offer, err := there.Find(c.request(q, nil), q.body)
		if err != nil || found == nil || len(offer.Credentials) != 1 || found.Judge(answers[to]) != route.Failed {
			return nil, fmt.Errorf("no route is proposed: the tested one does not count a wrong login at %s. Write the route "+
				"by hand", to)
		}
		all = append(all, to)
	}
	return all, nil
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
	answer, err = c.do(c.request(c.login.again.with(hidden(page.Body)).at(to), keep(nil, page)))
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
// ignores its path. It adds the responses there to answers.
func (c checker) elsewhere(s route.Spec, fresh, page route.Answer, answers map[string]route.Answer) (also []string,
	err error) {
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
			also, answers[to] = append(also, to), answer
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

// has reports whether a response has at least half of the signs: the rest may repeat its path, as MediaWiki's tabs do.
func has(a route.Answer, want []string) bool {
	all, n := signs(a), 0
	for _, s := range want {
		n += boolInt(slices.Contains(all, s))
	}
	return 2*n >= len(want)
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
