package proxy

import (
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"authguard/internal/route"
)

// A cookie may identify a session. Several are readings of one part of the header.
type cookie struct {
	name, value string
	part        int
	set, long   bool // by the app; one value of this name may identify a session
}

// mayBeSession reports whether the value, or one that the app has set under its name, may identify a session: PHP takes
// any identifier that the client has made up.
func (c cookie) mayBeSession() bool { return c.long || mayIdentify(c.value) }

// mayIdentify reports whether a value is long or mixed enough to identify a session. Themes, time zones and sizes of
// screens are not: users who share one would share a session.
func mayIdentify(value string) bool {
	letters, digits := 0, 0
	value = plain(value)
	for _, c := range value {
		switch {
		case unicode.IsDigit(c):
			digits++
		case unicode.IsLetter(c):
			letters++
		}
	}
	mixed := letters > 1 && digits > 1 || digits == len(value)
	return len(value) >= 8 && mixed || len(value) >= 16 && !strings.Contains(value, "/")
}

// shared reports whether the app has set the value for several clients, such as the name of a server.
func (r *Rivals) shared(c cookie) bool {
	several, _ := r.given.Get(r.key(c.name, letters(plain(c.value))))
	return several
}

// onlyASCII reports whether the sessions in cookies or a URL consist of ASCII characters and letters with accents. A
// database may take another letter for one of ASCII, and no app sets such an identifier.
func (r *Rivals) onlyASCII(cookies []string, at *url.URL) bool {
	all, _ := r.values(cookies, at, true, math.MaxInt32)
	return !slices.ContainsFunc(all, func(c cookie) bool {
		return c.long && strings.ContainsFunc(plain(c.value), func(r rune) bool { return r > unicode.MaxASCII })
	})
}

// aroundEqual is white space that Python ignores.
var aroundEqual = regexp.MustCompile(`[\s\v]*=[\s\v]*`)

// values returns the cookies of a request that may identify its session, as they are spelled. Some apps separate them at
// commas or white space.
func (r *Rivals) values(cookies []string, at *url.URL, every bool, most int) (all []cookie, err error) {
	split := func(s, at string) []string {
		return strings.FieldsFunc(s, func(c rune) bool { return strings.ContainsRune(at, c) })
	}
	var parts []cookie
	add := func(text string, part int) {
		name, value, _ := strings.Cut(text, "=")
		parts = append(parts, cookie{name: route.CookieName(name), value: value, part: part})
	}
	for i, text := range split(aroundEqual.ReplaceAllString(strings.Join(cookies, ";"), "="), ";") {
		add(text, i)
		if pieces := strings.FieldsFunc(text, isSeparator); len(pieces) > 1 {
			for _, piece := range pieces {
				if strings.Contains(piece, "=") {
					add(piece, i)
				}
			}
		}
	}
	inURL := split(at.RawQuery, "&;")
	for _, segment := range strings.Split(at.EscapedPath(), "/") {
		inURL = append(inURL, strings.Split(segment, ";")[1:]...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	every = every || !r.known && !r.cookieless || len(r.names) == mostNames
	here := len(parts)
	for i, text := range inURL {
		add(text, -1-i)
	}
	for i, one := range parts {
		if one.long, one.set = r.names[one.name]; !one.set && (!every || i >= here) {
			continue
		}
		if len(all) == most {
			return nil, manyCookies
		}
		all = append(all, one)
	}
	return all, nil
}

func isSeparator(c rune) bool { return c == ',' || unicode.IsSpace(c) }

// sessionIDs returns the parts of a cookie's value that may identify a session, the same for every spelling. To Jetty,
// id.node0 and id.x are one. Python reads "\054" as a comma, Express j:"\u0061" as a, and Flask a signature with other
// last bits. A value that begins like JSON in base64 is the whole session, and has no identifier.
func sessionIDs(value string) (ids []string) {
	value = plain(value)
	if !strings.HasPrefix(value, "eyJ") {
		ids = longID.FindAllString(value, -1)
	}
	if len(ids) == 0 {
		value, _, _ = strings.Cut(strings.ReplaceAll(value, ";", ","), ",")
		ids = []string{strings.TrimFunc(value, func(c rune) bool { return !unicode.IsLetter(c) && !unicode.IsDigit(c) })}
	}
	return ids
}

// plain returns a value without quotes, escapes and accents, which MySQL ignores.
func plain(value string) string {
	value = escaped.ReplaceAllStringFunc(route.Decoded(value), func(e string) string {
		base, digits := 8, e[1:]
		if e[1] == 'u' {
			base, digits = 16, e[2:]
		}
		if n, err := strconv.ParseUint(digits, base, 16); err == nil && len(e) > 2 {
			return string(rune(n))
		}
		return e[1:]
	})
	return strings.Map(func(c rune) rune {
		if unicode.In(c, unicode.Mn, unicode.Cf) {
			return -1
		}
		return c
	}, norm.NFKD.String(strings.Trim(route.Decoded(value), `" `)))
}

var (
	escaped = regexp.MustCompile(`(?s)\\(u[0-9A-Fa-f]{4}|[0-3][0-7]{2}|.)`)
	longID  = regexp.MustCompile(`[A-Za-z0-9]{8,}`)
)

// readings returns the identifiers that apps may find in a cookie's value, the same for every spelling: the letters and
// digits of all of it, and those before what names a server (Jetty, Tomcat, WebLogic, WebSphere) or signs it (Express).
// JSON in base64 is all of it.
func readings(value string) []string {
	value = plain(value)
	whole := letters(value)
	if !strings.HasPrefix(value, "eyJ") {
		before := ""
		for _, piece := range strings.FieldsFunc(value, func(c rune) bool { return strings.ContainsRune(".:!~|", c) }) {
			piece = letters(piece)
			if before += piece; len(piece) >= shortestPiece && before != whole {
				return []string{whole, before}
			}
		}
	}
	return []string{whole}
}

// shortestPiece is the length of an identifier before a server's name or a signature: a shorter piece may be a prefix.
const shortestPiece = 16

func letters(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsLetter(c) || unicode.IsDigit(c) {
			return c
		}
		return -1
	}, s)
}
