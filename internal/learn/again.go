package learn

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"

	"authguard/internal/route"
)

// ErrWeak is for two logins that differ, but not in what a guess would lack.
var ErrWeak = errors.New("nothing is proposed: whatever tells the right password's answer from the wrong one's, a wrong password sent without cookies, or with fresh ones, gets as well. Find out what only a login has (a redirection, a value in JSON, a text), and write success by hand")

// A Proposal is a route and, if the app takes the login at other addresses too, the
// folder that needs the same one.
type Proposal struct {
	route.Spec
	Folder string   // such as /*; empty if there is none
	Also   []string // where the app took the login, too
}

// Send sends a request to the app, and follows no redirection.
type Send func(*http.Request) (*http.Response, error)

// Check proposes the route that tells two logins apart, and tries it: it sends the failed
// login again, with a password made up here, as a guesser would send it. What such a
// guess gets is no sign of a success. It asks the app for its page and logs in at most
// eight times.
func Check(ctx context.Context, send Send, failed, succeeded *Login) (p Proposal, err error) {
	if p.Spec, err = Propose(failed, succeeded); err != nil {
		return p, err
	}
	c := checker{ctx: ctx, send: send, login: failed}
	bare, fresh, page, err := c.guesses()
	if err != nil {
		return p, fmt.Errorf("nothing is proposed: the app was to be asked again with a wrong password: %w", err)
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
	return p, err
}

// A checker sends the failed login again.
type checker struct {
	ctx   context.Context
	send  Send
	login *Login
}

// guesses are the app's answers to the login without cookies, to one with those of its
// page, and the page.
func (c checker) guesses() (bare, fresh, page route.Answer, err error) {
	if bare, err = c.ask(c.login.again, nil); err == nil {
		fresh, page, err = c.fresh(c.login.again.url.Path)
	}
	return bare, fresh, page, err
}

// fresh gets the page anew, and sends its cookies and hidden fields with the login.
func (c checker) fresh(to string) (answer, page route.Answer, err error) {
	q := c.login.again
	get := request{method: http.MethodGet, host: q.host, url: q.url, header: http.Header{"Accept": {"text/html,*/*"}}}
	if from, err := url.Parse(q.header.Get("Referer")); err == nil && from.Host == q.host {
		get.url = from
	}
	if page, err = c.ask(get, nil); err != nil {
		return answer, page, err
	}
	q = q.with(hidden(page.Body))
	at := *q.url
	at.Path, at.RawPath = to, ""
	q.url = &at
	answer, err = c.ask(q, page.Header)
	return answer, page, err
}

// ask sends a request with the cookies that an answer has set.
func (c checker) ask(q request, set http.Header) (a route.Answer, err error) {
	to := url.URL{Scheme: "http", Host: q.host, Path: q.url.Path, RawPath: q.url.RawPath, RawQuery: q.url.RawQuery}
	r, err := http.NewRequestWithContext(c.ctx, q.method, to.String(), bytes.NewReader(q.body))
	if err != nil {
		return a, err
	}
	r.Header, r.RemoteAddr = q.header.Clone(), "127.0.0.1:0"
	for _, one := range (&http.Response{Header: set}).Cookies() {
		if one.Value != "" {
			r.AddCookie(&http.Cookie{Name: one.Name, Value: one.Value})
		}
	}
	answer, err := c.send(r)
	if err != nil {
		return a, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return c.login.clean(route.Answer{Status: answer.StatusCode, Header: answer.Header, Body: body, Whole: len(body) < 1<<20}), err
}

// elsewhere are the other addresses where the app takes the login: a front controller
// reads the fields of a request, and not where it went.
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
		if _, where := (route.Table{compiled}).At((&url.URL{Path: to}).EscapedPath()); where == route.Here {
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

// marks are what the app's answers to a wrong password have in common, without what the
// login's page has.
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

// whither is where an answer redirects to.
func whither(a route.Answer) string {
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return u.Path + "?" + u.RawQuery
}

// folderAround is the smallest folder that a path and others are in.
func folderAround(folder string, others []string) string {
	for _, other := range others {
		for folder != "/" && other != folder && !strings.HasPrefix(other, folder+"/") {
			folder = path.Dir(folder)
		}
	}
	return strings.TrimRight(folder, "/") + "/*"
}

// A request is a login's, to be sent again. There is no password in it.
type request struct {
	method, host string
	url          *url.URL
	header       http.Header
	body         []byte
}

// without is a request with a password made up here in place of every text that is the
// one that was typed, and without cookies.
func without(r *http.Request, body []byte, name, password string) request {
	q := request{r.Method, r.Host, r.URL, r.Header.Clone(), body}
	for _, header := range []string{"Cookie", "Accept-Encoding", "Connection", "Content-Length", "Upgrade", "Te", "Trailer", "Proxy-Connection", "Keep-Alive"} {
		q.header.Del(header)
	}
	other := rand.Text()
	if q.header.Get("Authorization") != "" {
		basic := http.Request{Header: q.header}
		basic.SetBasicAuth(name, other)
	}
	values := map[string]string{}
	for _, f := range fieldsOf(r, body) {
		if f.value == password {
			values[f.at] = other
		}
	}
	return q.with(values)
}

// with is the request with other values in its fields; those that it does not have are
// left out.
func (q request) with(values map[string]string) request {
	u := *q.url
	u.RawQuery = replaced("param:", u.RawQuery, values)
	q.url = &u
	switch kind, params, _ := mime.ParseMediaType(q.header.Get("Content-Type")); kind {
	case "application/json":
		q.body = replacedJSON(q.body, values)
	case "application/x-www-form-urlencoded":
		q.body = []byte(replaced("form:", string(q.body), values))
	case "multipart/form-data":
		q.body = replacedParts(q.body, params["boundary"], values)
	}
	return q
}

func replaced(kind, text string, values map[string]string) string {
	all := strings.Split(text, "&")
	for i, pair := range all {
		written, _, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(written)
		if value, ok := values[kind+name]; ok && err == nil {
			all[i] = written + "=" + url.QueryEscape(value)
		}
	}
	return strings.Join(all, "&")
}

func replacedJSON(body []byte, values map[string]string) []byte {
	var top any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&top) != nil {
		return nil // as it is it may hold what was typed
	}
	var walk func(any, string)
	walk = func(at any, pointer string) {
		object, _ := at.(map[string]any)
		for name := range object {
			below := pointer + "/" + escaped(name)
			if value, ok := values["json:"+below]; ok {
				object[name] = value
			}
			walk(object[name], below)
		}
	}
	walk(top, "")
	body, _ = json.Marshal(top)
	return body
}

func replacedParts(body []byte, boundary string, values map[string]string) []byte {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.SetBoundary(boundary)
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for part, err := reader.NextRawPart(); err == nil; part, err = reader.NextRawPart() {
		to, _ := w.CreatePart(part.Header)
		if value, ok := values["form:"+part.FormName()]; ok {
			_, _ = io.WriteString(to, value)
			continue
		}
		_, _ = io.Copy(to, part)
	}
	_ = w.Close()
	return b.Bytes()
}

// hidden are the hidden fields of a page's forms, such as a token against forgeries.
func hidden(page []byte) map[string]string {
	values := map[string]string{}
	for z := html.NewTokenizer(bytes.NewReader(page)); z.Next() != html.ErrorToken; {
		t := z.Token()
		attributes := map[string]string{}
		for _, a := range t.Attr {
			attributes[a.Key] = a.Val
		}
		if t.Data == "input" && strings.EqualFold(attributes["type"], "hidden") && attributes["value"] != "" {
			values["form:"+attributes["name"]] = attributes["value"]
		}
	}
	return values
}
