package route

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// A path is where a route is: one path, or a folder.
type path struct {
	written string // without the /* of a folder
	folded  string // see fold; empty for the folder of everything
	folder  bool
	page    string // of one path: see pageOf
	script  string // folded without the script's extension; empty if it has none
	below   *path  // of one path without a script's extension: the folder of its name
}

func parsePath(written string) (p path, err error) {
	rest, folder := strings.CutSuffix(written, "/*")
	switch plain, readings := read(rest); {
	case !strings.HasPrefix(written, "/"):
		return p, errors.New("path: must begin with /, such as /login or /account/*")
	case strings.ContainsAny(rest, "*?#%;"):
		return p, errors.New("path: must be a plain path without a query and escapes, with * only at the end, after a /")
	case len(readings) > 0:
		return p, errors.New("path: must be written without //, /./, /../ and \\")
	default:
		p = path{written: rest, folded: plain, folder: folder, page: pageOf(known.ReplaceAllString(plain, ""))}
		if at := script.FindStringIndex(plain + "/"); at != nil && at[1] == len(plain)+1 {
			p.script = plain[:at[0]]
		} else if plain != "" && !folder {
			p.below = &path{folded: known.ReplaceAllString(plain, ""), folder: true}
		}
		return p, nil
	}
}

// Paths are pages and folders of an app, in the syntax of [Spec].
type Paths []path

// ParsePaths reads them.
func ParsePaths(written []string) (all Paths, err error) {
	for _, one := range written {
		p, failed := parsePath(one)
		if failed == nil && p.folded == "" {
			failed = errors.New("path: must be below /")
		}
		all, err = append(all, p), errors.Join(err, failed)
	}
	return all, err
}

// ParseFolders is ParsePaths where /* may stand for everything.
func ParseFolders(written []string) (all Paths, err error) {
	for _, one := range written {
		p, failed := parsePath(one)
		all, err = append(all, p), errors.Join(err, failed)
	}
	return all, err
}

// Surely reports whether every server takes a request with this path, as it was sent,
// for one of these and nothing else: what is decoded, cut off, merged or resolved by
// somebody, or written in other letters, is not.
func (all Paths) Surely(escaped string) bool {
	once := decode(escaped)
	if strings.ContainsAny(once, "%;") || !utf8.ValidString(once) || odd.MatchString(once) || strings.Count(once, "/") != strings.Count(escaped, "/") {
		return false
	}
	return slices.ContainsFunc(all, func(p path) bool {
		rest, ok := strings.CutPrefix(once, p.written)
		return ok && (rest == "" || p.folder && rest[0] == '/')
	})
}

// Unreadable reports whether servers differ in the bytes of a path: IIS decodes %u0061, and
// some decode UTF-8 that is longer than it has to be (%c0%af is a slash, CVE-2000-0884).
func Unreadable(escaped string) bool {
	if strings.Contains(escape.ReplaceAllString(escaped, ""), "%") {
		return true
	}
	once := decode(escaped)
	for i := range len(once) - 1 {
		least, lead := byte(0x80), once[i]
		switch lead {
		case 0xc0, 0xc1:
			least = 0xc0
		case 0xe0:
			least = 0xa0
		case 0xf0:
			least = 0x90
		}
		if next := once[i+1]; next >= 0x80 && next < least {
			return true
		}
	}
	return false
}

// Perhaps reports whether some server may take a request with this path for one of
// these.
func (all Paths) Perhaps(escaped string) bool {
	_, where := all.At(escaped)
	return where != Elsewhere
}

// At says whether a request with this path, as it was sent, goes to one of them, and
// how long the longest of those is.
func (all Paths) At(escaped string) (longest int, where Place) {
	plain, readings := read(escaped)
	for _, p := range all {
		switch in, _ := p.match(plain, readings); in {
		case Ambiguous:
			return 0, Ambiguous
		case Here:
			longest, where = max(longest, len(p.folded)), Here
		}
	}
	return longest, where
}

// match says whether a request goes here, or below: with MultiViews Apache runs signin.php
// for /signin/x, and many apps serve the page /signin there. plain is its path if all
// servers read it alike, and readings are all ways to read it if not.
func (p path) match(plain string, readings []string) (where Place, below bool) {
	if where = p.itself(plain, readings); where == Elsewhere && p.below != nil {
		where = p.below.itself(plain, readings)
		below = where == Here
	}
	return where, below
}

func (p path) itself(plain string, readings []string) Place {
	if len(readings) == 0 {
		if p.has(plain) {
			return Here
		}
		return Elsewhere
	}
	in := 0
	for _, one := range readings {
		if p.has(one) {
			in++
		}
	}
	switch {
	case in == 0:
		return Elsewhere
	case in == len(readings) && p.folder:
		return Here
	}
	return Ambiguous
}

// has reports whether an app may take a path for this one. PHP and CGI run login.php
// for /login.php/x as well, Apache's MultiViews for /login/x, front controllers the page
// /shop/login for /shop/index.php/login. A script has its name without the extension, too.
func (p path) has(folded string) bool {
	if p.is(folded) {
		return true
	}
	if rest, ok := strings.CutPrefix(folded, p.script); ok && p.script != "" && (rest == "" || rest[0] == '/') {
		return true
	}
	for _, at := range script.FindAllStringIndex(folded+"/", -1) {
		file, rest := folded[:at[1]-1], folded[at[1]-1:]
		if p.is(folded[:at[0]] + rest) {
			return true
		}
		if rest != "" && (p.is(file) || p.is(rest) || p.is(file[:strings.LastIndex(file, "/")]+rest)) {
			return true
		}
	}
	return false
}

// is compares the path, and its page: Rails and Spring take /login.x for /login, many
// servers /login/ for /login/index.php and /login for /login.php.
func (p path) is(folded string) bool {
	rest, ok := strings.CutPrefix(folded, p.folded)
	return ok && (rest == "" || p.folder && rest[0] == '/') ||
		!p.folder && (pageOf(folded) == p.page || pageOf(extension.ReplaceAllString(folded, "")) == p.page)
}

// pageOf is a path without the name of a folder's own page.
func pageOf(s string) string { return index.ReplaceAllString(s, "") }

const (
	scripts = `php\d?|phar|phtml|cgi|fcgi|pl|py|rb|aspx?|as[hm]x|svc|jspx?|do|action|cfm|dll|exe`
	formats = `html?|xhtml|shtml|json|xml`
)

var (
	script    = regexp.MustCompile(`\.(` + scripts + `)/`)
	known     = regexp.MustCompile(`\.(` + scripts + `|` + formats + `)$`)
	extension = regexp.MustCompile(`\.[^./]*$`)
	index     = regexp.MustCompile(`/(index|default)(\.(` + scripts + `|` + formats + `))?$`)
)

// read is a path as every server reads it or, if servers differ, all the ways in
// which one may: they decode once or twice, cut at a NUL or a question mark, overlook the
// end of a line (as $ in a pattern does), take \ and its wide form for /, merge slashes and resolve dots or do not. What no server takes for another page is left
// out everywhere: case, a slash, a dot or a space at the end, and the parameters
// of a segment (;jsessionid=1).
func read(escaped string) (plain string, readings []string) {
	if usual(escaped) {
		return strings.TrimRight(strings.ToLower(escaped), "/. "), nil
	}
	return readOdd(escaped)
}

// usual reports whether a path is written as most are: visible ASCII, with nothing in
// it that is decoded, cut off, merged or resolved by anybody.
func usual(path string) bool {
	before := byte(0)
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ' || c >= 0x7f || c == '%' || c == ';' || c == '#' || c == '\\',
			before == '/' && (c == '/' || c == '.'),
			before == '.' && c == '/', before == ':' && c == '$':
			return false
		default:
			before = c
		}
	}
	return strings.HasPrefix(path, "/")
}

// readOdd is read for every path. It costs more than the rest of a request's way
// through us, so most paths do not come here.
func readOdd(escaped string) (plain string, readings []string) {
	decoded := unreserved(escaped)
	if !strings.Contains(decoded, "%") && !odd.MatchString(params.ReplaceAllString(decoded, "")) {
		return fold(decoded), nil
	}
	once := decode(escaped)
	if !strings.Contains(once, "%") && !odd.MatchString(params.ReplaceAllString(once, "")) && strings.Count(once, "/") == strings.Count(escaped, "/") {
		return fold(once), nil
	}
	for _, s := range []string{decoded, once, decode(once), decode(decode(once))} {
		cut := s
		if end := strings.IndexFunc(s, endsPath); end >= 0 {
			cut = s[:end]
		}
		for _, s := range []string{s, cut} {
			for _, s := range []string{s, asSlash.Replace(s)} {
				merged := slashes.ReplaceAllString(params.ReplaceAllString(s, ""), "/")
				readings = append(readings, fold(s), fold(merged), fold(resolve(s)), fold(resolve(merged)))
			}
		}
	}
	slices.Sort(readings)
	return "", slices.Compact(readings)
}

var (
	// odd is what servers read in different ways.
	odd     = regexp.MustCompile(`//|[\\／＼]|[\x00-\x1f\x7f?#]|(^|/)\.{1,2} *(/|$)`)
	asSlash = strings.NewReplacer(`\`, "/", "／", "/", "＼", "/")
	slashes = regexp.MustCompile(`/{2,}`)
	params  = regexp.MustCompile(`;[^/]*`)
	ignored = regexp.MustCompile(`([^/. ])(?:[. ]|::?\$[^/]*)+(/|$)`)
)

func endsPath(r rune) bool { return unicode.IsControl(r) || r == '?' || r == '#' }

// unreserved decodes what RFC 3986, section 6.2.2.2, says may be decoded by
// everybody: letters, digits, and -._~.
func unreserved(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		if c, err := url.PathUnescape(e); err == nil && unreservedPattern.MatchString(c) {
			return c
		}
		return e
	})
}

var (
	escape            = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	unreservedPattern = regexp.MustCompile(`^[A-Za-z0-9._~-]$`)
)

// decode decodes every escape that is one, and leaves the rest.
func decode(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		c, _ := url.PathUnescape(e)
		return c
	})
}

// Decoded is a text with its percent-escapes decoded, and those that are none as they are.
func Decoded(s string) string { return decode(s) }

// fold leaves out what no server takes for another page, or what a file system
// ignores: Windows opens admin for "admin.", "admin " and "admin::$INDEX_ALLOCATION".
func fold(s string) string {
	s = ignored.ReplaceAllString(cases.Fold().String(params.ReplaceAllString(s, "")), "$1$2")
	return strings.TrimRight(s, "/. ")
}

// resolve resolves the dots of a path (RFC 3986, section 5.2.4). Windows takes "/.. /" for /../.
func resolve(s string) string {
	var out []string
	for _, segment := range strings.Split(s, "/") {
		switch name, _, _ := strings.Cut(segment, ";"); strings.TrimRight(name, " ") {
		case ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, segment)
		}
	}
	return "/" + strings.TrimPrefix(strings.Join(out, "/"), "/")
}
