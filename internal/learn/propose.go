package learn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"

	"authguard/internal/route"
)

// Errors of two logins that cannot be compared. Each says what to do.
var (
	ErrOther = errors.New("this login used another form than the first one: log in again with the same form")
	ErrSame  = errors.New("the password equals the first one: log in again with the right one")
	ErrName  = errors.New("the user name differs from the first one: log in again with the same name")
	ErrAlike = errors.New("the app gave the same answer as for the wrong password: log in with the right password once " +
		"more; if you are signed in, sign out first. If the app rejects every login, let it accept the host name of this " +
		"address")
)

// Propose returns the route that distinguishes the first login, which failed, from the second, which succeeded.
func Propose(failed, succeeded *Login) (s route.Spec, err error) {
	switch {
	case failed.Method != succeeded.Method || failed.Path != succeeded.Path || failed.Account != succeeded.Account ||
		failed.Password != succeeded.Password:
		return s, ErrOther
	case failed.account != succeeded.account:
		return s, ErrName
	case failed.password == succeeded.password:
		return s, ErrSame
	}
	return propose(succeeded, []route.Answer{failed.Answer}, nil)
}

// propose returns the route that distinguishes the successful login from all bad responses. A cookie that a bad
// response or a page sets is not a sign.
func propose(succeeded *Login, bad, pages []route.Answer) (s route.Spec, err error) {
	s = route.Spec{Name: "login", Path: plainPath(succeeded.Path), Account: succeeded.Account,
		Password: succeeded.Password}
	if succeeded.Method != http.MethodPost {
		s.Methods = []string{succeeded.Method}
	}
	if s.Account == "basic" {
		s.Path, s.Methods = folderOf(succeeded.Path), []string{"ANY"}
	}
	if name := succeeded.typed[len(succeeded.typed)-1]; regexp.MustCompile("^" + plainNames + "$").MatchString(name) {
		s.Names = plainNames
	}
	s.Success = rule(bad, pages, succeeded.Answer)
	compiled, err := route.Compile(s)
	if q := succeeded.asTyped; err == nil && q.url != nil {
		s.Passes = compiled.OtherAccounts(&http.Request{Method: q.method, URL: q.url, Header: q.header}, q.body)
		slices.Sort(s.Passes)
		s.Passes = slices.Compact(s.Passes)
		compiled, err = route.Compile(s)
	}
	if err != nil {
		return s, err
	}
	passes := func(a route.Answer) bool { return compiled.Judge(a) == route.Succeeded }
	if !passes(succeeded.Answer) || slices.ContainsFunc(bad, passes) {
		return s, ErrAlike
	}
	return s, nil
}

// plainNames match names that every database compares alike. MySQL treats àlice as alice by default, so each spelling
// would have its own limits.
const plainNames = `[A-Za-z0-9._@+-]+`

// plainPath removes the trailing slash, which makes no difference.
func plainPath(path string) string {
	if path == "/" {
		return path
	}
	return strings.TrimRight(path, "/")
}

// folderOf returns the page's folder: a browser sends the Authorization header to all of it.
func folderOf(path string) string { return path[:strings.LastIndex(path, "/")+1] + "*" }

// rule returns the conditions that distinguish the good response from all bad ones, the most reliable first: JSON
// values, redirects, cookies. It includes all that differ.
func rule(bad, pages []route.Answer, good route.Answer) (success []string) {
	alike := func(a route.Answer) bool { return a.Status == good.Status }
	if good.Status/100 == 2 && bad[0].Status == http.StatusUnauthorized {
		success = append(success, "status 2xx")
	} else {
		success = append(success, fmt.Sprintf("status %d", good.Status))
	}
	success = append(success, jsonRule(bad, good)...)
	success = append(success, locations(bad, good)...)
	if cookie := newCookie(slices.Concat(bad, pages), good); cookie != "" {
		success = append(success, "cookie "+cookie)
	}
	if len(success) > 1 || !slices.ContainsFunc(bad, alike) {
		return success
	}
	return ofBody(success, bad, good)
}

// locations distinguish a redirect from those of the bad responses.
func locations(bad []route.Answer, good route.Answer) (all []string) {
	to := target(good)
	for _, a := range bad {
		one, from := "", target(a)
		switch {
		case a.Status/100 != 3 || good.Status/100 != 3 || from == "" || whither(a) == whither(good):
		case !strings.HasPrefix(to, from):
			one = "not location " + from + "*"
		case whither(good) == to+"?" && to != "":
			one = "location " + to
		}
		if one != "" && !slices.Contains(all, one) {
			all = append(all, one)
		}
	}
	return all
}

func target(a route.Answer) string {
	u, err := url.Parse(a.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return u.Path
}

var (
	hashed       = regexp.MustCompile(`[0-9A-Fa-f]{16,}`)
	sessionNames = regexp.MustCompile(`(?i)sess|auth|logged|sid|token|remember|user`)
)

// newCookie returns the name of a cookie that only the good response sets, preferably a session's. A hash in the name,
// which differs per site, becomes a *.
func newCookie(others []route.Answer, good route.Answer) string {
	var before []string
	for _, a := range others {
		before = append(before, cookies(a.Header)...)
	}
	names := cookies(good.Header)
	slices.SortStableFunc(names, func(a, b string) int {
		return boolInt(sessionNames.MatchString(b)) - boolInt(sessionNames.MatchString(a))
	})
	for _, name := range names {
		pattern := hashed.ReplaceAllString(name, "*")
		all := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, ".*") + "$")
		if !slices.ContainsFunc(before, all.MatchString) {
			return pattern
		}
	}
	return ""
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// cookies returns the names of cookies that a response sets, without those it deletes.
func cookies(h http.Header) (names []string) {
	for _, line := range h.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err == nil && c.Value != "" && c.MaxAge >= 0 && (c.Expires.IsZero() || c.Expires.After(time.Now())) &&
			!slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

var (
	tokenNames = regexp.MustCompile(`(?i)token|jwt|session`)
	insideText = regexp.MustCompile(`(?i)^(log|sign) ?out|^(abmelden|ausloggen|d[ée]connexion|cerrar sesi[oó]n)`)
)

// ofBody compares bodies of responses with equal status, cookies and redirect.
func ofBody(success []string, bad []route.Answer, good route.Answer) []string {
	if all := leaves(good); all != nil {
		return append(success, tokenRule(leaves(bad[0]), all)...)
	}
	// Use text that only signed-in users see. With the reverse, every unexpected page would count as a success.
	inside := slices.DeleteFunc(lines(good.Body), func(text string) bool {
		return slices.ContainsFunc(bad, func(a route.Answer) bool { return bytes.Contains(a.Body, []byte(text)) })
	})
	if i := slices.IndexFunc(inside, insideText.MatchString); i >= 0 {
		return append(success, "body "+inside[i])
	}
	if len(inside) > 0 {
		return append(success, "body "+inside[0])
	}
	return success
}

// leaves returns the values of a JSON response by pointer; nil if it is not JSON.
func leaves(a route.Answer) map[string]any {
	var top any
	if !strings.Contains(a.Header.Get("Content-Type"), "json") || json.Unmarshal(a.Body, &top) != nil {
		return nil
	}
	all := map[string]any{}
	var walk func(any, string)
	walk = func(at any, pointer string) {
		object, ok := at.(map[string]any)
		if !ok {
			all[pointer] = at
		}
		for name := range object {
			walk(object[name], pointer+"/"+escaped(name))
		}
	}
	walk(top, "")
	return all
}

var word = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,15}$`)

// jsonRule returns a JSON value that shows success: one that the failed login has with another value, or a true that it
// lacks. A text must be a single word; names and tokens are not.
func jsonRule(bad []route.Answer, good route.Answer) []string {
	best, rank := "", 4
	after, before := leaves(good), leaves(bad[0])
	for _, pointer := range slices.Sorted(maps.Keys(after)) {
		other := func(a route.Answer) bool { return leaves(a)[pointer] == after[pointer] }
		n := 4
		switch value := after[pointer].(type) {
		case bool:
			if _, ok := before[pointer].(bool); ok {
				n = 0
			} else if value {
				n = 3
			}
		case string:
			if _, ok := before[pointer].(string); ok && word.MatchString(value) {
				n = 1
			}
		case float64:
			if _, ok := before[pointer].(float64); ok && value == float64(int(value)) && value > -1000 && value < 1000 {
				n = 2
			}
		}
		if n < rank && !strings.ContainsAny(pointer, " "+typedHere) && !slices.ContainsFunc(bad, other) {
			value, _ := json.Marshal(after[pointer])
			best, rank = fmt.Sprintf("json %s %s", pointer, value), n
		}
	}
	if best == "" {
		return nil
	}
	return []string{best}
}

// tokenRule matches a token that only the successful response contains.
func tokenRule(before, after map[string]any) []string {
	for _, pointer := range slices.Sorted(maps.Keys(after)) {
		name := pointer[strings.LastIndex(pointer, "/")+1:]
		if text, ok := after[pointer].(string); ok && text != "" && before[pointer] == nil && tokenNames.MatchString(name) {
			return []string{fmt.Sprintf(`match "%s"\s*:\s*"[^"]`, regexp.QuoteMeta(name))}
		}
	}
	return nil
}

// lines returns the texts of a page. User input is in attributes, so it is not included.
func lines(page []byte) (all []string) {
	skip := ""
	for z := html.NewTokenizer(bytes.NewReader(page)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return all
		case html.StartTagToken:
			if name, _ := z.TagName(); string(name) == "script" || string(name) == "style" {
				skip = string(name)
			}
		case html.EndTagToken:
			if name, _ := z.TagName(); string(name) == skip {
				skip = ""
			}
		case html.TextToken:
			text := strings.TrimSpace(string(z.Raw()))
			if skip == "" && len(text) > 3 && len(text) < 80 && !strings.ContainsAny(text, "&\n\r0123456789"+typedHere) {
				all = append(all, text)
			}
		}
	}
}

// YAML returns a proposal for the list proxy.routes of the configuration.
func YAML(p Proposal) string {
	text, all := "", p.specs()
	if slices.Equal(p.Success, never) {
		text = "    # The app gives a right and a wrong password the same answer. With never, each login counts as failed:\n" +
			"    # after five in 24 hours the account needs a challenge, and no client becomes known. It is better to write\n" +
			"    # what only a successful login returns, such as cookie NAME, json /POINTER VALUE or body TEXT.\n"
	}
	text += yaml(all[0])
	if len(all) > 1 {
		if !strings.HasSuffix(p.Path, "*") {
			text += "    # Other forms at " + p.Path + " are rejected until the route above has a field of each:\n" +
				"    # passes: [form:FIELD].\n"
		}
		text += "    # The app takes the same login at " + strings.Join(p.Also, ", ") + " too: it checks the fields, not\n" +
			"    # the path. Without this route guesses sent there are not counted.\n"
		text += yaml(all[1])
	}
	return text
}

func yaml(s route.Spec) string {
	var b strings.Builder
	line := func(key, value string) { fmt.Fprintf(&b, "      %s: %s\n", key, value) }
	fmt.Fprintf(&b, "    - name: %s\n", s.Name)
	line("path", quoted(s.Path))
	if len(s.Methods) > 0 {
		line("methods", list(s.Methods))
	}
	line("account", quoted(s.Account))
	if s.Password != "" {
		line("password", quoted(s.Password))
	}
	if s.Names != "" {
		line("names", quoted(s.Names)+" # other characters are rejected")
	}
	if len(s.Passes) > 0 {
		line("passes", list(s.Passes)+" # fields of the login; delete each by which the app looks up the account")
	}
	line("success", list(s.Success))
	if len(s.SignedIn) > 0 {
		line("signed_in", list(s.SignedIn))
	}
	return b.String()
}

func list(texts []string) string {
	all := make([]string, len(texts))
	for i, text := range texts {
		all[i] = quoted(text)
	}
	return "[" + strings.Join(all, ", ") + "]"
}

var plain = regexp.MustCompile(`^[A-Za-z/][\w /.:*-]*$`)

func quoted(text string) string {
	if plain.MatchString(text) && !strings.Contains(text, ": ") && !strings.HasSuffix(text, ":") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
