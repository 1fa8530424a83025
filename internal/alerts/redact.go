package alerts

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"authguard/internal/events"
)

var anyURL = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// hostIsPublic are the kinds whose host is a server's name. In others, such as
// discord or ifttt, it is part of the key.
var hostIsPublic = []string{"smtp", "generic", "gotify", "ntfy", "mattermost", "matrix", "rocketchat", "zulip"}

// redact is an error's text without anything of the address that could be a
// secret, on one line: services put whole addresses into their errors.
func (t target) redact(err error) string {
	text := anyURL.ReplaceAllString(err.Error(), "(address)")
	for _, secret := range t.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return events.EscapeLines(strings.ReplaceAll(text, "\n", "; "), 1, 300)
}

// secrets are the parts of the address, longest first, as they are written and
// as they are meant. Very short ones are left out: replacing a letter hides
// nothing.
func (t target) secrets() []string {
	parts := []string{t.raw, t.url.Path, t.url.RawQuery, t.url.Fragment, t.url.Opaque}
	parts = append(parts, strings.Split(t.url.Path, "/")...)
	parts = append(parts, strings.Split(t.url.EscapedPath(), "/")...)
	if !slices.Contains(hostIsPublic, t.scheme) {
		parts = append(parts, t.url.Host, t.url.Hostname())
	}
	if t.url.User != nil {
		password, _ := t.url.User.Password()
		parts = append(parts, t.url.User.String(), t.url.User.Username(), password)
	}
	for _, values := range t.url.Query() {
		parts = append(parts, values...)
	}
	for _, p := range slices.Clone(parts) {
		parts = append(parts, url.QueryEscape(p), url.PathEscape(p))
	}
	parts = slices.DeleteFunc(parts, func(p string) bool { return len(p) < 4 })
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	return slices.Compact(parts)
}
