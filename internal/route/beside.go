package route

import (
	"crypto/rand"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Beside returns what a login request contains beside its password that may be another credential, such as a TOTP code
// or a tenant. A wrong password is repeated (R28) only beside the same: each other code is another guess. It omits CSRF
// tokens, and headers that browsers and gateways set. It omits the path of basic, because clients request many, and the
// body of xmlrpc, because its known methods have no other credential. It is random if the body is unknown, or if the
// password field may be for one-time codes: the app may have made a new one before each guess of the same.
func (r *Route) Beside(req *http.Request, body []byte) string {
	all := []string{req.Method, strings.ToLower(req.Host), req.URL.RawQuery}
	if r.password.name != "" && (!passwordField.MatchString(r.password.name) || codeField.MatchString(r.password.name)) ||
		len(body) == 0 && req.ContentLength != 0 {
		all = append(all, rand.Text())
	}
	if r.account.kind != basic {
		all = append(all, req.URL.EscapedPath())
	}
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		if !harmless(name) && !ofGateway.MatchString(name) && !csrfToken.MatchString(name) {
			all = append(all, name, ownCookie.ReplaceAllString(strings.Join(req.Header[name], "; "), ""))
		}
	}
	switch kind, _ := formType(req); {
	case r.account.kind == xmlrpc:
	case kind == urlencodedForm:
		pairs := slices.DeleteFunc(strings.Split(string(body), "&"), func(pair string) bool {
			name, _, _ := strings.Cut(pair, "=")
			return csrfToken.MatchString(name)
		})
		all = append(all, strings.Join(pairs, "&"))
	default:
		all = append(all, string(body))
	}
	return strings.Join(all, "\x00")
}

var (
	passwordField = regexp.MustCompile(`(?i)pass|pwd|^/?pw?$|kennwort|contrase|clave|senha|wachtwoord|heslo|` +
		`has[lł]o|parol`)
	codeField = regexp.MustCompile(`(?i)code|otp|pin|token|once|one.?time|temp`)
	ofGateway = regexp.MustCompile(`^(Forwarded|X-Forwarded-(For|Proto|Port)|X-Real-Ip|Cf-.*|X-Amzn?-.*|X-B3-.*|B3|` +
		`Tracestate|(.*-)?(Request|Correlation|Trace|Span)-?(Id|Context))$`)
	// csrfToken matches names that no app gives to a credential.
	csrfToken = regexp.MustCompile(`(?i)^([\w-]*(csrf|xsrf|authenticity_token|requestverificationtoken)[\w-]*|` +
		`_token|sectok)$`)
	ownCookie = regexp.MustCompile(`\b(__(Host|Secure)-)?authguard_[^=;]*=[^;]*(; ?)?`)
)
