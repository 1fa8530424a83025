package proxy

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"authguard/web"
)

// A JavaScript login cannot show our page. So the app's pages get a script that shows challenges (web.Script). It is the
// first one in the head, because it has to wrap fetch before the app's scripts keep a copy.

// scripts reports whether the response to a request gets the script, if it is a page.
func (v *visit) scripts(r *http.Request) bool {
	if v.route != nil || v.probe != nil || r.Method != http.MethodGet && r.Method != http.MethodHead || !wantsPage(r) ||
		r.Header.Get("X-Requested-With") != "" {
		return false
	}
	return v.app.Script == "always" || v.app.Script == "auto" && (v.app.Routes.ReadsJSON() || v.proxy.scripted.Load())
}

// fromScript reports whether a script sends a login.
func fromScript(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Dest") == "empty" || r.Header.Get("X-Requested-With") != "" || web.WantsJSON(r)
}

// changed marks the ETag of a page with the script. A browser must not reuse a page without it.
const changed = `-authguard"`

// askPlain changes the app's request for a page: no compression, and a 304 only for a page with the script.
func askPlain(h http.Header) {
	h.Del("Accept-Encoding")
	tags := h.Get("If-None-Match")
	if h.Del("If-None-Match"); strings.Contains(tags, changed) {
		h.Set("If-None-Match", strings.ReplaceAll(tags, changed, `"`))
		return
	}
	h.Del("If-Modified-Since")
}

// insert adds the script to a page as it streams.
func (v *visit) insert(answer *http.Response) error {
	h := answer.Header
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	same := answer.StatusCode == http.StatusNotModified
	switch {
	case same:
	case answer.StatusCode != http.StatusOK || kind != "text/html" || h.Get("Content-Range") != "" ||
		strings.HasPrefix(strings.ToLower(h.Get("Content-Disposition")), "attachment"):
		return nil
	}
	policies, nonce, why := takes(h, v.in.Host+v.proxy.Base+web.ScriptPath)
	if why != "" {
		v.unscripted(why)
		return nil
	}
	tag := `<script src="` + v.proxy.Base + web.ScriptPath + `"></script>`
	if nonce != "" {
		tag = strings.Replace(tag, ">", ` nonce="`+nonce+`">`, 1)
	}
	if !same && answer.Request.Method != http.MethodHead {
		start, at, err := startOf(answer.Body)
		if err != nil {
			return err
		}
		parts := []io.Reader{bytes.NewReader(start), answer.Body}
		if at >= 0 {
			parts = []io.Reader{bytes.NewReader(start[:at]), strings.NewReader(tag), bytes.NewReader(start[at:]), answer.Body}
		}
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(parts...), answer.Body}
		if at < 0 {
			return nil // not a page
		}
	}
	if len(policies) > 0 {
		h["Content-Security-Policy"] = policies
	}
	if tag := h.Get("Etag"); strings.HasSuffix(tag, `"`) {
		h.Set("Etag", strings.TrimSuffix(tag, `"`)+changed)
	}
	for _, name := range [...]string{"Accept-Ranges", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest"} {
		h.Del(name)
	}
	if n, err := strconv.ParseInt(h.Get("Content-Length"), 10, 64); err == nil && !same {
		h.Set("Content-Length", strconv.FormatInt(n+int64(len(tag)), 10))
		if answer.ContentLength >= 0 {
			answer.ContentLength = n + int64(len(tag))
		}
	}
	return nil
}

// takes returns why a page cannot get the script, by its headers, or else what allow returns.
func takes(h http.Header, script string) (policies []string, nonce, why string) {
	_, parameters, _ := mime.ParseMediaType(h.Get("Content-Type"))
	policies, nonce, ok := allow(h["Content-Security-Policy"], script)
	switch {
	case h.Get("Content-Encoding") != "":
		why = "the app compresses pages without being asked to"
	case strings.HasPrefix(strings.ToLower(parameters["charset"]), "utf-16"):
		why = "the page is in UTF-16"
	case !ok:
		why = "the app's Content-Security-Policy allows no script of its own site"
	}
	return policies, nonce, why
}

// Unscripted returns why a page with these headers would not get the script for challenges; empty if it would, or if the
// app's pages get none.
func (a App) Unscripted(h http.Header, host string) (why string) {
	if a.Script == "always" || a.Script == "auto" && a.Routes.ReadsJSON() {
		_, _, why = takes(h, host+Base+web.ScriptPath)
	}
	return why
}

// unscripted reports once why pages of the app do not get the script.
func (v *visit) unscripted(why string) {
	if _, reported := v.proxy.reported.LoadOrStore(why, true); !reported {
		v.proxy.Log.Warn("a page of the app gets no script for challenges: its users need "+v.proxy.Base+solvePath,
			"path", v.in.URL.Path, "reason", why)
	}
}

// mostStart is how much of a page is searched for its head, in bytes.
const mostStart = 64 << 10

// startOf reads the start of a page, and returns the position of its head; -1 if it is not a page.
func startOf(body io.Reader) (read []byte, at int, err error) {
	read = make([]byte, 0, 4<<10)
	for len(read) < mostStart {
		if len(read) == cap(read) {
			read = slices.Grow(read, cap(read))
		}
		n, err := body.Read(read[len(read):min(cap(read), mostStart)])
		read = read[:len(read)+n]
		if at, found := headAt(read); found {
			return read, at, nil
		}
		if err == io.EOF {
			break
		} else if err != nil {
			return read, -1, err
		}
	}
	return read, -1, nil
}

var (
	opening = regexp.MustCompile(`(?i)^<(?:html|head)(?:[\s/](?:[^>"']|"[^"]*"|'[^']*')*)?>`)
	opens   = regexp.MustCompile(`(?i)^<(?:html|head)[\s/>]`)
	element = regexp.MustCompile(`^<[A-Za-z]`)
)

// headAt returns the position of the head: after <head>, or before the first other element, which implies one. It is -1
// for text. found: more text does not change that.
func headAt(page []byte) (at int, found bool) {
	rest := bytes.TrimPrefix(page, []byte("\ufeff"))
	for {
		rest = bytes.TrimLeft(rest, " \t\r\n\f")
		at = len(page) - len(rest)
		end := 0
		switch {
		case len(rest) > 0 && rest[0] != '<' && !strings.HasPrefix("\ufeff", string(rest)):
			return -1, true
		case len(rest) < len("<head>"):
			return 0, false
		case bytes.HasPrefix(rest, []byte("<!--")):
			if end = bytes.Index(rest[2:], []byte("-->")); end >= 0 {
				end += 2 + len("-->")
			}
		case rest[0] == '<' && (rest[1] == '!' || rest[1] == '?'):
			end = bytes.IndexByte(rest, '>') + 1
		case opens.Match(rest):
			end = len(opening.Find(rest))
			if end > 0 && bytes.EqualFold(rest[:5], []byte("<head")) {
				return at + end, true
			}
		case element.Match(rest):
			return at, true
		default:
			return -1, true
		}
		if end <= 0 {
			return 0, false
		}
		rest = rest[end:]
	}
}

var (
	nonceOf   = regexp.MustCompile(`(?i)^'nonce-([A-Za-z0-9+/_=-]+)'$`)
	plainHost = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?/`)
)

// allow changes policies so that they allow one script of the app's own site, and no more. It returns a nonce of the
// policies that the script has to carry, if there is one. ok is false if they cannot allow it.
func allow(headers []string, script string) (policies []string, nonce string, ok bool) {
	for _, header := range headers {
		var changed []string
		for policy := range strings.SplitSeq(header, ",") {
			policy, own, ok := allowIn(policy, script)
			if !ok || own != "" && nonce != "" && own != nonce {
				return nil, "", false
			}
			if own != "" {
				nonce = own
			}
			changed = append(changed, policy)
		}
		policies = append(policies, strings.Join(changed, ","))
	}
	return policies, nonce, true
}

func allowIn(policy, script string) (changed, nonce string, ok bool) {
	directives := strings.Split(policy, ";")
	at, from := -1, ""
	for _, name := range [...]string{"script-src-elem", "script-src", "default-src"} {
		at = slices.IndexFunc(directives, func(d string) bool {
			fields := strings.Fields(d)
			return len(fields) > 0 && strings.EqualFold(fields[0], name)
		})
		if from = name; at >= 0 {
			break
		}
	}
	if at < 0 {
		return policy, "", true
	}
	sources := strings.Fields(directives[at])[1:]
	has := func(source string) bool {
		return slices.ContainsFunc(sources, func(s string) bool { return strings.EqualFold(s, source) })
	}
	for _, s := range sources {
		if m := nonceOf.FindStringSubmatch(s); m != nil {
			return policy, m[1], true
		}
	}
	switch {
	case has("'strict-dynamic'") || len(sources) == 0 || has("'none'"):
		return "", "", false
	case has("'self'") || has("*"):
		return policy, "", true
	case !plainHost.MatchString(script):
		return "", "", false
	case from == "default-src": // for scripts only
		return policy + "; script-src " + strings.Join(append(sources, script), " "), "", true
	}
	directives[at] += " " + script
	return strings.Join(directives, ";"), "", true
}
