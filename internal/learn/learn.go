// Package learn proposes the guarded route of an app's login from one failed and one successful login. It writes no
// password to disk. A keyed digest shows whether two texts are equal, and its key exists only in memory. The failed
// login is kept until the process ends, with a generated password, so that it can be repeated. The successful login
// keeps its password until Check has repeated it: only that proves that the app still accepts a login.
package learn

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/net/html"

	"authguard/internal/route"
	"authguard/internal/seal"
)

// Watcher collects the login forms of the pages it sees. It is safe for concurrent use.
type Watcher struct {
	key       []byte
	mu        sync.Mutex
	passwords map[string]string // name of a password field to the name of the account field before it
	steps     bool              // a form asks for the account without a password
}

// New returns an empty Watcher.
func New() *Watcher {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // never fails
	return &Watcher{key: key, passwords: map[string]string{}}
}

// Page scans a page for password fields of its forms.
func (w *Watcher) Page(page []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	account, asked := "", false
	for z := html.NewTokenizer(bytes.NewReader(page)); z.Next() != html.ErrorToken; {
		t := z.Token()
		attributes := attributesOf(t)
		name := attributes["name"]
		switch {
		case t.Data == "form":
			w.steps = w.steps || accountNames.MatchString(account) && !otherNames.MatchString(account) && !asked
			account, asked = "", false
		case t.Data != "input" || name == "":
		case strings.EqualFold(attributes["type"], "password"):
			w.passwords[name], asked = cmp.Or(w.passwords[name], account), true
		case slices.Contains([]string{"", "text", "email", "tel"}, strings.ToLower(attributes["type"])):
			account = name
		}
	}
}

// InSteps reports whether a page had a form with an account and no password.
func (w *Watcher) InSteps() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps
}

func attributesOf(t html.Token) map[string]string {
	all := map[string]string{}
	for _, a := range t.Attr {
		all[a.Key] = a.Val
	}
	return all
}

// Login is a request with a password, and the app's response.
type Login struct {
	Method, Path string
	Account      string // a route's locator of the account
	Password     string
	Answer       route.Answer
	account      string // digests of the credentials
	password     string
	typed        []string // the password, which Answered removes, and the name
	again        request  // with a generated password
	asTyped      request
	cookies      []*http.Cookie // sent with the request
}

// Answered records the app's response without the credentials that it repeats. It erases the password, except in the
// request itself.
func (l *Login) Answered(a route.Answer) {
	l.Answer = l.clean(a)
	l.typed = l.typed[1:]
}

// Forget erases the password in the request itself.
func (l *Login) Forget() { l.asTyped = request{} }

// typedHere replaces credentials in a response; JSON stays valid.
const typedHere = "\uFFFD"

// clean removes the credentials from a response, ignoring case.
func (l *Login) clean(a route.Answer) route.Answer {
	a.Header = a.Header.Clone()
	for _, text := range l.typed {
		if len(text) > 2 {
			a.Body = regexp.MustCompile(`(?i)`+regexp.QuoteMeta(text)).ReplaceAll(a.Body, []byte(typedHere))
			a.Header.Set("Location", strings.ReplaceAll(a.Header.Get("Location"), url.QueryEscape(text), ""))
		}
	}
	return a
}

var (
	passwordNames = regexp.MustCompile(`(?i)pass|pwd|passwort|kennwort|contrase|motdepasse|^pw$|^pin$|secret`)
	accountNames  = regexp.MustCompile(
		`(?i)^(user|login|log|account|e?mail|name|id|identifier|u|uid|uname)$|user_?name|user_?id|login|e-?mail|account|benutzer`,
	)
	otherNames = regexp.MustCompile(
		`(?i)token|csrf|nonce|redirect|next|return|session|remember|submit|captcha|^id$|grant|client`)
)

type field struct{ at, name, value string }

// Login returns the login of a request, without the response; nil if the request has no password. The Account is empty
// if the request has a password and no account. body must be complete.
func (w *Watcher) Login(r *http.Request, body []byte) *Login {
	l := &Login{Method: r.Method, Path: r.URL.Path, cookies: r.Cookies()}
	if name, password, ok := r.BasicAuth(); ok {
		w.took(l, name, password)
		l.Account, l.again, l.asTyped = "basic", without(r, body, name, password), bare(r, body)
		return l
	}
	fields := fieldsOf(r, body)
	best, name, password, alone := 0, "", "", ""
	for i, f := range fields {
		n := w.isPassword(f)
		if n > 0 && f.value != "" {
			alone = f.at
		}
		if account := w.accountOf(fields, i); n > best && f.value != "" && account >= 0 {
			best = n
			name, password = fields[account].value, f.value
			l.Account, l.Password = fields[account].at, f.at
		}
	}
	if l.Password == "" && alone == "" {
		return nil
	}
	if l.Password == "" {
		return &Login{Method: l.Method, Path: l.Path, Password: alone}
	}
	w.took(l, name, password)
	l.again, l.asTyped = without(r, body, name, password), bare(r, body)
	return l
}

func (w *Watcher) took(l *Login, account, password string) {
	l.account, l.password, l.typed = w.digest(account), w.digest(password), []string{password, account}
}

func (w *Watcher) digest(text string) string {
	return string(seal.MAC(w.key, text))
}

// isPassword rates how likely a field is a password's; 0: not at all.
func (w *Watcher) isPassword(f field) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.passwords[f.name]
	switch {
	case known:
		return 2
	case passwordNames.MatchString(f.name) && !otherNames.MatchString(f.name):
		return 1
	}
	return 0
}

// accountOf returns the account field of a password: the one before it in the page's form, one with a typical name, or
// the one before it in the request.
func (w *Watcher) accountOf(fields []field, password int) int {
	w.mu.Lock()
	before := w.passwords[fields[password].name]
	w.mu.Unlock()
	best, at := 0, -1
	for i, f := range fields {
		score := 0
		switch {
		case i == password || f.value == "" || kindOf(f.at) != kindOf(fields[password].at):
		case f.name == before:
			score = 4
		case accountNames.MatchString(f.name) && !otherNames.MatchString(f.name):
			score = 3
		case i == password-1 && !otherNames.MatchString(f.name):
			score = 2
		}
		if score > best {
			best, at = score, i
		}
	}
	return at
}

func kindOf(locator string) string { kind, _, _ := strings.Cut(locator, ":"); return kind }

// fieldsOf returns the texts of a request, in their order if there is one.
func fieldsOf(r *http.Request, body []byte) (all []field) {
	switch kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind {
	case "application/json":
		var top any
		if json.Unmarshal(body, &top) == nil {
			all = members(top, "")
		}
	case "application/x-www-form-urlencoded":
		all = pairs("form:", string(body))
	case "multipart/form-data":
		all = parts(r, body)
	}
	return append(all, pairs("param:", r.URL.RawQuery)...)
}

func pairs(kind, text string) (all []field) {
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		value, err2 := url.QueryUnescape(value)
		if err == nil && err2 == nil {
			all = append(all, field{kind + name, name, value})
		}
	}
	return all
}

func parts(r *http.Request, body []byte) (all []field) {
	clone := r.Clone(r.Context())
	clone.Body = io.NopCloser(bytes.NewReader(body))
	reader, err := clone.MultipartReader()
	if err != nil {
		return nil
	}
	for part, err := reader.NextPart(); err == nil; part, err = reader.NextPart() {
		if text, err := io.ReadAll(part); err == nil && part.FileName() == "" {
			all = append(all, field{"form:" + part.FormName(), part.FormName(), string(text)})
		}
	}
	return all
}

func members(at any, pointer string) (all []field) {
	object, _ := at.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		below := pointer + "/" + escaped(name)
		if text, ok := object[name].(string); ok {
			all = append(all, field{"json:" + below, name, text})
		}
		all = append(all, members(object[name], below)...)
	}
	return all
}

func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
