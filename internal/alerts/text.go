package alerts

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"authguard/internal/events"
)

const (
	maxLines      = 30
	maxLineLength = 400
)

// Name quotes user input on one line for a message. It prevents HTML and chat markup, disguised links, and mentions of
// a whole channel ("@everyone", "<!here>"). Ordinary names and email addresses stay unchanged.
func Name(s string) string {
	text := markup.Replace(events.Escape(s))
	return `"` + mention.ReplaceAllStringFunc(text, func(m string) string { return strings.ReplaceAll(m, "@", `\x40`) }) +
		`"`
}

var markup = strings.NewReplacer(
	`"`, `\"`, "<", `\x3c`, ">", `\x3e`, "&", `\x26`, "[", `\x5b`, "]", `\x5d`, "`", `\x60`, "://", `:\x2f/`,
)

// mention matches every @ that does not follow a letter or digit, as it does in an email address.
var mention = regexp.MustCompile(`(?:^|[^0-9A-Za-z])@+`)

// titleText makes a title one line of ASCII, because some senders put it into a header.
func titleText(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '?'
		}
		return r
	}, events.Escape(s))
}

func bodyText(s string) string { return events.EscapeLines(s, maxLines, maxLineLength) }
