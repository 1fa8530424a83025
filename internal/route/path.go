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
	"golang.org/x/text/unicode/norm"
)

var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)

// A path is the position of a route: a single path or a folder.
type path struct {
	written string // without a folder's /*
	folded  string // see fold; empty for the root folder
	folder  bool
	page    string // of a single path: see pageOf
	script  string // folded without the script's extension; empty if it has none
	below   *path  // of a single path without a script's extension: the folder of that name
	prefix  bool   // a folder that includes all paths that begin with its name, as that below a route
}

func parsePath(written string) (p path, err error) {
	rest, folder := strings.CutSuffix(written, "/*")
	switch plain, readings := read(rest); {
	case !strings.HasPrefix(written, "/"):
		return p, errors.New("path: must begin with /, such as /login or /account/*")
	case strings.ContainsAny(rest, "*?#%;"):
		return p, errors.New("path: must be a plain path without a query and escapes, with * only at the end, after a /")
	case len(readings) > 0:
		return p, errors.New("path: must be written without //, /./, /../ and \\, and in Unicode form NFKC")
	default:
		p = path{written: rest, folded: plain, folder: folder, page: pageOf(known.ReplaceAllString(plain, ""))}
		if at := script.FindStringIndex(plain + "/"); at != nil && at[1] == len(plain)+1 {
			p.script = plain[:at[0]]
		} else if plain != "" && !folder {
			p.below = &path{written: rest, folded: known.ReplaceAllString(plain, ""), folder: true}
		}
		return p, nil
	}
}

// Paths are pages and folders of an app, in the syntax of [Spec].
type Paths []path

// ParsePaths parses them; each must be below /.
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

// parseFolders is ParsePaths, but also accepts /* for all paths.
func parseFolders(written []string) (all Paths, err error) {
	for _, one := range written {
		p, failed := parsePath(one)
		all, err = append(all, p), errors.Join(err, failed)
	}
	return all, err
}

// surely reports whether every server maps this escaped path to one of these and to nothing else. It is false for paths
// that some server decodes, cuts, merges or resolves, and for another case.
func (all Paths) surely(escaped string) bool {
	once := decode(escaped)
	wide := norm.NFKC.String(once)
	if strings.ContainsAny(wide, "%;") || !utf8.ValidString(once) || isRoot(escaped) ||
		isOdd(strings.ReplaceAll(wide, "+", " ")) ||
		strings.Count(wide, "/") != strings.Count(escaped, "/") {
		return false
	}
	return slices.ContainsFunc(all, func(p path) bool {
		rest, ok := strings.CutPrefix(once, p.written)
		return ok && (rest == "" || p.folder && rest[0] == '/')
	})
}

// Unreadable reports whether servers differ in the bytes of a path: IIS decodes %u0061, and some servers decode
// overlong UTF-8 (%c0%af is a slash, CVE-2000-0884).
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

// perhaps reports whether some server may map this path to one of these.
func (all Paths) perhaps(escaped string) bool {
	_, where := all.At(escaped)
	return where != Elsewhere || isRoot(escaped) && all.perhaps("/")
}

// At reports whether an escaped path belongs to one of these, and the length of the longest such path. It is ambiguous
// behind a script: a front controller serves /files for /x.php/files, and PHP runs x.php.
func (all Paths) At(escaped string) (longest int, where Place) {
	plain, readings := read(escaped)
	for _, p := range all {
		switch in, _ := p.match(plain, readings); {
		case in == Ambiguous:
			return 0, Ambiguous
		case in == Elsewhere:
		case !slices.ContainsFunc(append(readings, plain), p.behindScript):
			longest, where = max(longest, len(p.folded)), Here
		case where == Elsewhere:
			where = Ambiguous
		}
	}
	return longest, where
}

func (p path) behindScript(folded string) bool {
	rest, ok := strings.CutPrefix(folded, p.folded)
	return (!ok || rest != "" && rest[0] != '/') && script.MatchString(folded)
}

// match reports whether a request is for this path, or below it. Apache with MultiViews runs signin.php for /signin/x,
// and many apps serve /signin there. plain is the path if all servers read it alike; otherwise readings are all
// possible ones.
func (p path) match(plain string, readings []string) (where Place, below bool) {
	if where = p.itself(plain, readings); where == Elsewhere && p.below != nil {
		where = p.below.itself(plain, readings)
		below = where == Here
	}
	return where, below
}

func (p path) itself(plain string, readings []string) Place {
	if slices.Equal(readings, anything) {
		return Ambiguous
	}
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

// owns reports whether match would include the path without prefix, unlike /login-partner.
func (p path) owns(plain string, readings []string) bool {
	p.prefix = false
	return p.itself(plain, readings) == Here
}

// has reports whether an app may serve this path for folded. PHP and CGI run login.php for /login.php/x as well,
// Apache's MultiViews for /login/x, and front controllers serve /shop/login for /shop/index.php/login. A script is also
// available without its extension.
func (p path) has(folded string) bool {
	if p.is(folded) {
		return true
	}
	if rest, ok := strings.CutPrefix(folded, p.script); ok && p.script != "" && (rest == "" || rest[0] == '/') {
		return true
	}
	if at := strings.Index(folded, "/index/"); at >= 0 && p.is(folded[:at]+folded[at+len("/index"):]) { // MultiViews
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

// is compares the path and its page. Rails and Spring serve /login for /login.x, Sinatra also for /login.x.y. Many
// servers serve /login/index.php for /login/, and /login.php for /login.
func (p path) is(folded string) bool {
	rest, ok := strings.CutPrefix(folded, p.folded)
	return ok && (rest == "" || p.prefix || p.folder && rest[0] == '/') ||
		slices.ContainsFunc(withoutExtensions(folded), func(one string) bool {
			return p.folder && one == p.folded || !p.folder && pageOf(one) == p.page
		})
}

// withoutExtensions returns a path with its extensions, without the last one, and without the last two.
func withoutExtensions(s string) []string {
	once := extension.ReplaceAllString(s, "")
	return []string{s, once, extension.ReplaceAllString(once, "")}
}

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

// mostOdd is how long an odd path may be, in bytes: reading 16 KB of them takes half a second. anything is the reading
// of a longer one.
const mostOdd = 2048

var anything = []string{"*"}

// read returns the path if every server reads it alike, otherwise all possible readings. Servers decode once or twice,
// read a plus as a space (PHP's urldecode), cut at a NUL or a question mark, and ignore a final newline (as $ in a
// pattern does). They read \ and its wide form as /, merge slashes or not, and resolve dots or not. They read
// //host/path as an absolute URL, and drop characters other than visible ASCII, or replace them (NFKC: ｌ by l, ‥ by
// ..). Differences that no server uses are removed: case, a final slash, dot or space, and a segment's parameters
// (;jsessionid=1).
func read(escaped string) (plain string, readings []string) {
	switch {
	case !usual(escaped):
		return readOdd(escaped)
	case strings.Contains(escaped, "+"):
		spaced := strings.ReplaceAll(escaped, "+", " ")
		readings = []string{fold(escaped), fold(spaced), fold(dropped.ReplaceAllString(spaced, ""))}
		slices.Sort(readings)
		return "", slices.Compact(readings)
	}
	return strings.TrimRight(strings.ToLower(escaped), "/. "), nil
}

// usual reports whether a path is in the common form: visible ASCII without anything that some server decodes, cuts,
// merges or resolves.
func usual(path string) bool {
	before := byte(0)
	for i := range len(path) {
		switch c := path[i]; {
		case c <= ' ' || c >= 0x7f || c == '%' || c == ';' || c == '#' || c == '\\',
			before == '/' && (c == '/' || c == '.' || c == '+'), before == '+' && (c == '/' || c == '.'),
			before == '.' && (c == '/' || c == '+'), before == ':' && c == '$':
			return false
		default:
			before = c
		}
	}
	return strings.HasPrefix(path, "/")
}

// readOdd is read for all paths. It costs more than the rest of a request's processing, so common paths skip it.
func readOdd(escaped string) (plain string, readings []string) {
	if len(escaped) > mostOdd {
		return "", anything
	}
	decoded := unreserved(escaped)
	if !strings.ContainsAny(decoded, "%+") && !isOdd(decoded) && norm.NFKC.IsNormalString(decoded) {
		return fold(decoded), nil
	}
	once := decode(escaped)
	if !strings.ContainsAny(once, "%+") && !isOdd(once) &&
		strings.Count(once, "/") == strings.Count(escaped, "/") && norm.NFKC.IsNormalString(once) {
		if sanitized := fold(dropped.ReplaceAllString(once, "")); sanitized != fold(once) {
			return "", []string{fold(once), sanitized}
		}
		return fold(once), nil
	}
	forms := []string{decoded, once, decode(once), decode(decode(once)), strings.ReplaceAll(decoded, "+", " ")}
	for _, s := range forms {
		if wide := norm.NFKC.String(s); wide != s {
			forms = append(forms, wide, decode(wide))
		}
	}
	slices.Sort(forms)
	for _, s := range slices.Compact(forms) {
		cut := s
		if end := strings.IndexFunc(s, endsPath); end >= 0 {
			cut = s[:end]
		}
		for _, s := range []string{s, cut} {
			slashed := asSlash.Replace(s)
			for _, s := range []string{s, slashed, authority.ReplaceAllString(slashed, ""), dropped.ReplaceAllString(s, "")} {
				merged := slashes.ReplaceAllString(params.ReplaceAllString(s, ""), "/")
				readings = append(readings, fold(s), fold(merged), fold(resolve(s)), fold(resolve(merged)))
			}
		}
	}
	slices.Sort(readings)
	return "", slices.Compact(readings)
}

var (
	// odd matches what servers read differently.
	odd     = regexp.MustCompile(`//|[\\／＼]|[\x00-\x1f\x7f?#]|(^|/)\.{1,2} *(/|$)`)
	asSlash = strings.NewReplacer(`\`, "/", "／", "/", "＼", "/")
	slashes = regexp.MustCompile(`/{2,}`)
	// authority matches what URL parsers read as a host in //host/path: Node's new URL, PHP's parse_url, the JDK's.
	authority = regexp.MustCompile(`^/{2,}[^/]*`)
	asPort    = regexp.MustCompile(`^[^:]*:\d{1,5}(/|$)`)
	// dropped matches what PHP's FILTER_SANITIZE_URL removes.
	dropped = regexp.MustCompile(`[^\x21-\x7e]+`)
	params  = regexp.MustCompile(`;[^/]*`)
	ignored = regexp.MustCompile(`([^/. ])(?:[. ]|::?\$[^/]*)+(/|$)`)
)

func isOdd(s string) bool { return odd.MatchString(params.ReplaceAllString(s, "")) }

// isRoot reports whether PHP may find no path in this one. It takes the first colon for that of a port, as in /x:80,
// and two slashes for a host, which in ///x and //! is none. Many routers serve / then.
func isRoot(escaped string) bool {
	if !strings.ContainsAny(escaped, ":%") {
		return strings.HasPrefix(escaped, "//")
	}
	once := decode(escaped)
	return slices.ContainsFunc([]string{escaped, once, decode(once)}, func(s string) bool {
		return strings.HasPrefix(s, "//") || asPort.MatchString(s)
	})
}

func endsPath(r rune) bool { return unicode.IsControl(r) || r == '?' || r == '#' }

// unreserved decodes the escapes of unreserved characters, which are equivalent by RFC 3986, section 6.2.2.2: letters,
// digits, and -._~.
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

// decode decodes all valid escapes and keeps the rest.
func decode(s string) string {
	return escape.ReplaceAllStringFunc(s, func(e string) string {
		c, _ := url.PathUnescape(e)
		return c
	})
}

// Decoded decodes all valid percent-escapes and keeps the rest.
func Decoded(s string) string { return decode(s) }

// fold removes differences that no server or file system distinguishes: Windows opens admin for "admin.", "admin " and
// "admin::$INDEX_ALLOCATION".
func fold(s string) string {
	s = ignored.ReplaceAllString(foldCase(params.ReplaceAllString(s, "")), "$1$2")
	return strings.TrimRight(s, "/. ")
}

// foldCase is Unicode's case folding, which also merges i with ı and İ, as Python's re.IGNORECASE and Java's
// equalsIgnoreCase do.
func foldCase(s string) string { return cases.Fold().String(dotless.Replace(s)) }

var dotless = strings.NewReplacer("ı", "i", "İ", "i")

// resolve resolves the dots of a path (RFC 3986, section 5.2.4). Windows reads "/.. /" as /../.
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
