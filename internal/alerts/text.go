package alerts

import (
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
// stay as they are.
func Name(s string) string {
	return `"` + mention(markup.Replace(events.Escape(s))) + `"`
}

var markup = strings.NewReplacer(
	`"`, `\"`, "<", `\x3c`, ">", `\x3e`, "&", `\x26`, "[", `\x5b`, "]", `\x5d`, "`", `\x60`, "://", `:\x2f/`,
)

// mention escapes every @ that does not follow a letter or digit, as the one in
// an e-mail address does.
func mention(s string) string {
	var b strings.Builder
	before := ' '
	for _, r := range s {
		if r == '@' && !wordRune(before) {
			b.WriteString(`\x40`)
		} else {
			b.WriteRune(r)
		}
		before = r
	}
	return b.String()
}

func wordRune(r rune) bool {
	return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
}

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
