package route

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Verdict is the meaning of the app's response for the password. The zero Verdict is Failed.
type Verdict uint8

const (
	Failed Verdict = iota
	Succeeded
	// Abandoned: the app says that it did not check the password.
	Abandoned
)

type rule struct {
	failure, abandoned []condition
	success, second    all
}

// all is a list of conditions that hold together.
type all []condition

func (list all) holds(a *Answer) bool {
	return !slices.ContainsFunc(list, func(c condition) bool { return !c.holds(a) })
}

// away are the responses of a gateway in front of the app while the app is down. At a 504, the app has the request and
// may still check the password.
var away = []string{"status 502", "status 503"}

func parseRule(s Spec) (r rule, err error) {
	if len(s.Success) == 0 {
		return r, errors.New("success: must be how to recognize a successful login, such as [status 302, cookie sessionid]")
	}
	abandoned := s.Abandoned
	if len(abandoned) == 0 {
		abandoned = away
	}
	var errs []error
	parse := func(key string, texts []string) (all []condition) {
		for _, text := range texts {
			c, err := parseCondition(text)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", key, err))
			}
			if c.what == "sent" && (key != "failure" || c.not) {
				errs = append(errs, fmt.Errorf("%s: sent TEXT is a condition of failure, without not", key))
			}
			c.anySpelling = (key == "success" || key == "second_factor") && c.not || key == "failure" && !c.not
			all = append(all, c)
		}
		return all
	}
	r = rule{success: parse("success", s.Success), failure: parse("failure", s.Failure),
		abandoned: parse("abandoned", abandoned), second: parse("second_factor", s.SecondFactor)}
	return r, errors.Join(errs...)
}

// NeedsBody reports whether Judge reads the response's body.
func (r *Route) NeedsBody() bool {
	for _, list := range [][]condition{r.rule.success, r.rule.failure, r.rule.abandoned, r.rule.second,
		r.signedIn.conditions} {
		for _, c := range list {
			if c.ofBody() {
				return true
			}
		}
	}
	return false
}

// NeedsLocation reports whether Judge reads the target of a redirect.
func (r *Route) NeedsLocation() bool { return len(r.rule.locations()) > 0 }

// Steered reports whether a redirect to a URL may look like a success of an attempt at own, the attempt's escaped path.
// No client may choose such a target.
func (r *Route) Steered(to *url.URL, own string) bool {
	a := &Answer{Header: http.Header{"Location": {to.RequestURI()}}, Own: own}
	redirects := func(holds bool) func(condition) bool {
		return func(c condition) bool { return c.what == "location" && c.holds(a) == holds }
	}
	return slices.ContainsFunc(slices.Concat(r.rule.success, r.rule.abandoned, r.rule.second), redirects(true)) ||
		slices.ContainsFunc(r.rule.failure, redirects(false))
}

// Page returns the path of the login page: the configured one, or in a folder the request's.
func (r *Route) Page(request *url.URL) *url.URL {
	if r.path.folder {
		return &url.URL{Path: request.Path, RawPath: request.RawPath}
	}
	return &url.URL{Path: r.path.written}
}

func (r rule) locations() (found []condition) {
	for _, c := range slices.Concat(r.success, r.failure, r.abandoned, r.second) {
		if c.what == "location" {
			found = append(found, c)
		}
	}
	return found
}

// An Answer is the app's response.
type Answer struct {
	Status int
	Header http.Header
	// Body is the part of the body that was read. Whole reports whether that is all of it and uncompressed. Missing text
	// satisfies no condition.
	Body  []byte
	Whole bool
	// Own is the attempt's escaped path, as the client spelled it. A redirect back to it is no success if the route says
	// where wrong passwords lead.
	Own string
}

// Judge returns the verdict on a response.
func (r *Route) Judge(a Answer) Verdict {
	for _, c := range r.rule.abandoned {
		if c.holds(&a) {
			return Abandoned
		}
	}
	for _, c := range r.rule.failure {
		if c.holds(&a) || c.ofBody() && !a.Whole {
			return Failed
		}
	}
	if r.rule.success.holds(&a) || r.AsksCode(a) {
		return Succeeded
	}
	return Failed
}

// AsksCode reports whether the response to a correct password asks for a code.
func (r *Route) AsksCode(a Answer) bool { return len(r.rule.second) > 0 && r.rule.second.holds(&a) }

// Echoes reports whether the request contains a text that signals success, in any encoding. A page that repeats a field
// (next=Log out) would make a wrong password look correct. XML-RPC calls and responses share elements, so they are
// exempt.
func (r *Route) Echoes(req *http.Request, body []byte) bool {
	if r.account.kind == xmlrpc {
		return false
	}
	var texts []string
	signals := slices.Concat(r.rule.success, r.rule.second)
	for _, c := range signals {
		if !c.not && (c.what == "body" || c.what == "match") {
			texts = said(req, body)
			break
		}
	}
	return slices.ContainsFunc(signals, func(c condition) bool {
		return !c.not && slices.ContainsFunc(texts, func(text string) bool {
			return c.what == "body" && strings.Contains(strings.ToLower(text), strings.ToLower(c.text)) || c.what == "match" &&
				c.pattern.MatchString(text)
		})
	})
}

// Continues reports whether the request contains a text of a "sent" condition, in any encoding: it continues a login,
// perhaps of another account than the one that it names.
func (r *Route) Continues(req *http.Request, body []byte) bool {
	return slices.ContainsFunc(r.rule.failure, func(c condition) bool {
		if c.what != "sent" {
			return false
		}
		text := req.URL.RequestURI() + "\n" + string(body)
		once := unescape(text)
		return slices.ContainsFunc([]string{text, once, unescape(once)}, func(one string) bool {
			return strings.Contains(strings.ToLower(one), strings.ToLower(c.text))
		})
	})
}

// EchoesText is Echoes for a Referer or a cookie, which the proxy can withhold: the page that a visitor has left may be
// /logout.
func (r *Route) EchoesText(text string) bool {
	return r.Echoes(&http.Request{URL: new(url.URL), Header: http.Header{"From": {text}}}, nil)
}

// said returns the values in a request, decoded as apps do. It omits names: many logins have a field named token.
func said(req *http.Request, body []byte) []string {
	all := []string{string(body), req.URL.RequestURI()}
	for name, values := range req.Header {
		if name != "Referer" && name != "Cookie" { // EchoesText
			all = append(all, strings.Join(values, " "))
		}
	}
	text := sentNames.ReplaceAllString(strings.Join(all, "\n"), "\n")
	once := unescape(strings.ReplaceAll(text, "+", " "))
	all = []string{text, once, html.UnescapeString(unescape(once))}
	for _, one := range all {
		all = append(all, markup.ReplaceAllString(one, ""))
	}
	return all
}

var (
	sentNames = regexp.MustCompile(`"[^"]*"\s*:|(?m:^|[&?;])[^=&;\s]*=`)
	markup    = regexp.MustCompile(`<[^>]*>`)
)

type condition struct {
	not     bool
	what    string // status, location, cookie, cleared, body, match, json, sent, never
	text    string
	pattern *regexp.Regexp // of location, cookies and match
	folded  *regexp.Regexp // of location, for a path as At compares it; of cookies, for a CookieName
	// anySpelling: the location of a wrong password matches in every spelling. Many apps redirect a login at /LOGIN or
	// /%6Cogin back to that spelling.
	anySpelling bool
	from, to    int      // of status
	pointer     []string // of json
}

var statusPattern = regexp.MustCompile(`^[1-5](\d\d|xx)$`)

// parseCondition parses a condition, negated by a leading "not". * stands for any text in paths and names.
//
//   - "status 302" or "status 2xx"
//   - "location /account*": the target of a redirect
//   - "cookie NAME": a cookie that is set; "cleared NAME": one that is removed
//   - "body TEXT": a text in the body; "match REGEXP": a regular expression
//   - "json /POINTER VALUE": a value in a JSON response
//   - "sent TEXT": a text in the request, only of a failure; see Continues
//   - "never": no response is a success, so every request counts, such as password resets
func parseCondition(written string) (c condition, err error) {
	text := strings.TrimSpace(written)
	text, c.not = strings.CutPrefix(text, "not ")
	c.what, c.text, _ = strings.Cut(strings.TrimSpace(text), " ")
	c.text = strings.TrimSpace(c.text)
	if (c.text == "") != (c.what == "never") {
		return c, fmt.Errorf("must be like status 302, location /account*, cookie NAME, cleared NAME, body TEXT, match "+
			"REGEXP or json /ok true, with or without not, or never, not %.60q", written)
	}
	switch c.what {
	case "status":
		if !statusPattern.MatchString(c.text) {
			return c, fmt.Errorf("status must be like 302 or 3xx, not %.60q", c.text)
		}
		c.from, _ = strconv.Atoi(strings.ReplaceAll(c.text, "x", "0"))
		c.to, _ = strconv.Atoi(strings.ReplaceAll(c.text, "x", "9"))
	case "location":
		c.pattern, c.folded = wildcard(c.text, ""), wildcard(c.text, "(?i)")
	case "cookie", "cleared":
		c.pattern, c.folded = wildcard(c.text, ""), wildcard(CookieName(c.text), "")
	case "json":
		var at string
		at, c.text, _ = strings.Cut(c.text, " ")
		if c.pointer, err = parsePointer(at); err == nil && !json.Valid([]byte(c.text)) {
			err = fmt.Errorf(`json must be like json /ok true or json /state "done", not %.60q`, written)
		}
	case "match":
		c.pattern, err = regexp.Compile(c.text)
	case "body", "sent", "never":
	default:
		return c, fmt.Errorf("unknown condition %.60q: use status, location, cookie, cleared, body, match, json, sent or never",
			c.what)
	}
	return c, err
}

// wildcard returns the regular expression of a text in which * stands for any text.
func wildcard(text, flags string) *regexp.Regexp {
	return regexp.MustCompile(flags + "^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
}

func (c condition) never() bool { return c.what == "never" && !c.not }

func (c *condition) ofBody() bool { return c.what == "body" || c.what == "match" || c.what == "json" }

func (c *condition) holds(a *Answer) bool {
	if c.ofBody() && c.not && !a.Whole {
		return false
	}
	return c.finds(a) != c.not
}

func (c *condition) finds(a *Answer) bool {
	switch c.what {
	case "status":
		return c.from <= a.Status && a.Status <= c.to
	case "location":
		return c.location(a)
	case "cookie":
		return c.cookie(a.Header, true)
	case "cleared":
		return c.cookie(a.Header, false)
	case "body":
		return strings.Contains(string(a.Body), c.text)
	case "match":
		return c.pattern.Match(a.Body)
	case "sent", "never":
		return false
	}
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	if err != nil || !strings.Contains(kind, "json") || !a.Whole {
		return false
	}
	var top, want any
	if json.Unmarshal(a.Body, &top) != nil || json.Unmarshal([]byte(c.text), &want) != nil {
		return false
	}
	got, ok := follow(top, c.pointer)
	return ok && fmt.Sprint(got) == fmt.Sprint(want)
}

func (c *condition) location(a *Answer) bool {
	to, err := url.Parse(a.Header.Get("Location"))
	switch {
	case err != nil || a.Header.Get("Location") == "":
		return false
	case c.pattern.MatchString(to.RequestURI()) || !c.anySpelling:
		return c.pattern.MatchString(to.RequestURI())
	case a.Own != "" && fold(decode(to.EscapedPath())) == fold(decode(a.Own)):
		return true
	}
	plain, readings := read(to.EscapedPath())
	return slices.ContainsFunc(append(readings, plain), func(path string) bool {
		return c.folded.MatchString(path) || c.folded.MatchString(path+"/") || c.folded.MatchString(path+"?"+to.RawQuery)
	})
}

// cookie reports whether a cookie ends up set, or removed: an app may do both in one response, and browsers keep the
// last.
func (c *condition) cookie(h http.Header, set bool) bool {
	gone := map[[3]string]bool{}
	for _, line := range h.Values("Set-Cookie") {
		one, err := http.ParseSetCookie(line)
		if err != nil || !c.pattern.MatchString(one.Name) {
			continue
		}
		which := [3]string{one.Name, one.Domain, cmp.Or(one.Path, "/")}
		gone[which] = one.Value == "" || one.MaxAge < 0 || !one.Expires.IsZero() && one.Expires.Before(time.Now())
	}
	for _, gone := range gone {
		if gone != set {
			return true
		}
	}
	return false
}
