package web

import (
	"net/url"
	"strings"
	"unicode"
)

// localPath is where to go after logging in: next if it is a path of this
// site, and "/" otherwise. Browsers take "//host", "/\host" and paths with
// control characters in front for other sites.
func localPath(next string) string {
	if len(next) > 2048 || !strings.HasPrefix(next, "/") || strings.ContainsFunc(next, unicode.IsControl) ||
		strings.Contains(next, `\`) || strings.HasPrefix(next, "//") {
		return "/"
	}
	u, err := url.Parse(next)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || strings.HasPrefix(u.Path, "//") {
		return "/"
	}
	return next
}
