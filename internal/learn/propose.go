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

// What is wrong with two logins that tell nothing. Each says what to do.
var (
	ErrOther = errors.New("this login went elsewhere than the first one: log in again, at the same form")
	ErrSame  = errors.New("the password was the same as the first time: log in again, with the right one")
	ErrName  = errors.New("the name was another one than the first time: log in again, with the same name")
	ErrAlike = errors.New("the app answered as it did to the wrong password: if you are logged in, its answers cannot be told apart by status, redirection, cookies or text")
)

// Propose is the route that tells the first login, which has failed, from the second,
// which has succeeded.
func Propose(failed, succeeded *Login) (s route.Spec, err error) {
	switch {
	case failed.Method != succeeded.Method || failed.Path != succeeded.Path || failed.Account != succeeded.Account || failed.Password != succeeded.Password:
		return s, ErrOther
	case failed.account != succeeded.account:
		return s, ErrName
	case failed.password == succeeded.password:
		return s, ErrSame
	}
	s = route.Spec{Name: "login", Path: plainPath(succeeded.Path), Account: succeeded.Account, Password: succeeded.Password}
	if succeeded.Method != http.MethodPost {
		s.Methods = []string{succeeded.Method}
	}
	if s.Account == "basic" {
		s.Path, s.Methods = folderOf(succeeded.Path), []string{"ANY"}
	}
	s.Success = rule(failed.Answer, succeeded.Answer)
	compiled, err := route.Compile(s)
	if err != nil {
		return s, err
	}
	if compiled.Judge(succeeded.Answer) != route.Succeeded || compiled.Judge(failed.Answer) != route.Failed {
		return s, ErrAlike
	}
	return s, nil
}

// plainPath is a path without the slash at its end, which makes no difference.
func plainPath(path string) string {
	if path == "/" {
		return path
	}
	return strings.TrimRight(path, "/")
}

// folderOf is the folder that a page is in: a browser sends the header to all of it.
func folderOf(path string) string { return path[:strings.LastIndex(path, "/")+1] + "*" }

// rule is what tells two answers apart: what is in the good one and not in the bad.
func rule(bad, good route.Answer) (success []string) {
	if good.Status/100 == 2 && bad.Status == http.StatusUnauthorized {
		success = append(success, "status 2xx")
	} else {
		success = append(success, fmt.Sprintf("status %d", good.Status))
	}
	cookie := newCookie(bad.Header, good.Header)
	if cookie != "" {
		return append(success, "cookie "+cookie)
	}
	if to, from := target(good), target(bad); good.Status == bad.Status && from != "" && to != from {
		return append(success, "not location "+from+"*")
	}
	if good.Status != bad.Status {
		return success
	}
	return ofBody(success, bad, good)
}

// target is the path that an answer redirects to.
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

// newCookie is the name of a cookie that only the good answer sets, a session's if
// there is one. A hash in it, which is another one for each site, becomes a *.
func newCookie(bad, good http.Header) string {
	before, names := cookies(bad), cookies(good)
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

// cookies are the names of those that an answer sets, and does not take away.
func cookies(h http.Header) (names []string) {
	for _, line := range h.Values("Set-Cookie") {
		c, err := http.ParseSetCookie(line)
		if err == nil && c.Value != "" && c.MaxAge >= 0 && (c.Expires.IsZero() || c.Expires.After(time.Now())) && !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

var (
	tokenNames = regexp.MustCompile(`(?i)token|jwt|session`)
	insideText = regexp.MustCompile(`(?i)^(log|sign) ?out|^(abmelden|ausloggen|d[ée]connexion|cerrar sesi[oó]n)`)
)

// ofBody looks into two answers of one status, without a cookie or another target.
func ofBody(success []string, bad, good route.Answer) []string {
	var before, after map[string]any
	if json.Unmarshal(good.Body, &after) == nil && json.Unmarshal(bad.Body, &before) == nil {
		return append(success, jsonRule(before, after)...)
	}
	// What only who is logged in is shown; what only the other is shown would let every
	// page that nobody has thought of pass for a success.
	inside := slices.DeleteFunc(lines(good.Body), func(text string) bool { return bytes.Contains(bad.Body, []byte(text)) })
	if i := slices.IndexFunc(inside, insideText.MatchString); i >= 0 {
		return append(success, "body "+inside[i])
	}
	if len(inside) > 0 {
		return append(success, "body "+inside[0])
	}
	return success
}

// jsonRule is a member that says so, or a token that is given.
func jsonRule(before, after map[string]any) []string {
	for _, name := range slices.Sorted(maps.Keys(after)) {
		pointer := "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
		if yes, ok := after[name].(bool); ok && before[name] != after[name] {
			return []string{fmt.Sprintf("json %s %v", pointer, yes)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if text, ok := after[name].(string); ok && text != "" && before[name] == nil && tokenNames.MatchString(name) {
			return []string{fmt.Sprintf(`match "%s"\s*:\s*"[^"]`, regexp.QuoteMeta(name))}
		}
	}
	return nil
}

// lines are the texts of a page, without those that a person typed, which are in
// values and not in texts.
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
			if skip == "" && len(text) > 3 && len(text) < 80 && !strings.ContainsAny(text, "&\n\r0123456789") {
				all = append(all, text)
			}
		}
	}
}

// YAML is a route as it is written in the configuration, in the list proxy.routes.
func YAML(s route.Spec) string {
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
	line("success", list(s.Success))
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

// quoted is a text as YAML takes it.
func quoted(text string) string {
	if plain.MatchString(text) && !strings.Contains(text, ": ") && !strings.HasSuffix(text, ":") {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}
