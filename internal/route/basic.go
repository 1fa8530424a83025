package route

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

func readBasic(req *http.Request) (Offer, error) {
	all := req.Header.Values("Authorization")
	if len(all) == 0 {
		return Offer{}, nil
	}
	if len(all) > 1 {
		return Offer{}, refuse("Send one Authorization header.")
	}
	scheme, text, _ := strings.Cut(all[0], " ")
	if strings.ToLower(scheme) != "basic" { // EqualFold would accept a long s
		if mayBeBasic.MatchString(all[0]) || holdsLogin(all[0]) {
			return Offer{}, refuse("The Authorization header cannot be read.")
		}
		return Offer{}, nil
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(text)
	name, password, ok := strings.Cut(string(raw), ":")
	if err != nil || !ok || !utf8.Valid(raw) {
		return Offer{}, refuse("The Authorization header cannot be read.")
	}
	return Offer{[]Credential{{name, password}}, func(r *http.Request, body []byte, other Credential) []byte {
		r.SetBasicAuth(cmp.Or(other.Account, name), cmp.Or(other.Password, password))
		return body
	}}, nil
}

// mayBeBasic matches headers that some app may read as Basic. Django REST framework and others split at any white
// space, some servers at commas, and a pattern without ^ finds the scheme anywhere.
var mayBeBasic = regexp.MustCompile(`(?i)(^|[\s,;\x{85}\x{a0}\x{fffd}])basic$|basic[^\w+/=.~"-]`)

// holdsLogin reports whether some app may decode a name and a password from the header, whatever its scheme. Common PHP
// code decodes the text after byte 6, other code the text after a space.
func holdsLogin(header string) bool {
	_, behind, _ := strings.Cut(header, " ")
	all := append(strings.Fields(header), behind, header[min(6, len(header)):])
	return slices.ContainsFunc(all, func(text string) bool {
		first, _, _ := strings.Cut(text, "=")
		return isLogin(decodeBase64(text)) || isLogin(decodeBase64(first))
	})
}

// decodeBase64 skips all other characters, as PHP does.
func decodeBase64(text string) string {
	kept := strings.Map(func(c rune) rune {
		switch {
		case c == '-':
			return '+'
		case c == '_':
			return '/'
		case c > unicode.MaxASCII || !strings.ContainsRune(base64Letters, c):
			return -1
		}
		return c
	}, text)
	if len(kept)%4 == 1 {
		kept = kept[:len(kept)-1]
	}
	raw, _ := base64.RawStdEncoding.DecodeString(kept)
	return string(raw)
}

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// isLogin reports whether a text is a name, a colon and a password. A JWT begins with JSON, as no name does. Some apps
// ignore the text after the next colon.
func isLogin(text string) bool {
	name, rest, ok := strings.Cut(text, ":")
	password, _, _ := strings.Cut(rest, ":")
	return ok && readable(name) && !strings.ContainsAny(name, `"{`) && (readable(password) || readable(rest))
}

// readable reports whether a text is valid UTF-8 or mostly ASCII, and so not random bytes.
func readable(text string) bool {
	visible := 0
	for _, c := range []byte(text) {
		if c >= ' ' && c < 0x7f {
			visible++
		}
	}
	return visible*4 >= len(text)*3 || utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}
