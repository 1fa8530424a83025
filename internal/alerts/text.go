package alerts

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"authguard/internal/events"
)

// Bounds of the text of one alert.
const (
	maxLines      = 30
	maxLineLength = 400
)

// Name makes a stranger's text safe for a message, in quotes: one line, no
// markup of HTML or chat, no link with a hidden target, and nothing that calls
// a whole channel ("@everyone", "<!here>"). Ordinary names and e-mail addresses
// are left alone.
func Name(s string) string {
	text := markup.Replace(events.Escape(s))
	return `"` + mention.ReplaceAllStringFunc(text, func(m string) string { return strings.ReplaceAll(m, "@", `\x40`) }) + `"`
}

var markup = strings.NewReplacer(
	`"`, `\"`, "<", `\x3c`, ">", `\x3e`, "&", `\x26`, "[", `\x5b`, "]", `\x5d`, "`", `\x60`, "://", `:\x2f/`,
)

// mention matches every @ that does not follow a letter or digit, as the one in
// an e-mail address does.
var mention = regexp.MustCompile(`(?:^|[^0-9A-Za-z])@+`)

// titleText keeps a title to one line of ASCII: some senders write it into a
// header as it is.
func titleText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, events.Escape(s))
}

func bodyText(s string) string { return events.EscapeLines(s, maxLines, maxLineLength) }
