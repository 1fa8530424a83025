package pages

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a stranger's text is drawn, and how much is kept for the tooltip.
const (
	shownRunes = 64
	titleRunes = 512
)

// A name is a stranger's text made safe to look at: in pieces, so that the
// template escapes every one of them and marks the invisible.
type name struct {
	Pieces []piece
	Cut    bool
	Full   string
}

// A piece is a run of plain text, or the number of one character that would
// not be seen: U+202E turns "gpj.exe" round, U+200B tells two names apart that
// look the same.
type piece struct {
	Text   string
	Hidden bool
}

func newName(s string) name {
	if s == "" {
		return name{Pieces: []piece{{"empty", true}}, Full: "empty"}
	}
	shown, cut := cutRunes(s, shownRunes)
	long, _ := cutRunes(s, titleRunes)
	return name{Pieces: pieces(shown), Cut: cut, Full: flat(pieces(long))}
}

func cutRunes(s string, most int) (string, bool) {
	n := 0
	for i := range s {
		if n == most {
			return s[:i], true
		}
		n++
	}
	return s, false
}

func pieces(s string) []piece {
	var out []piece
	plain := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if label := hiddenLabel(r, size, s[i]); label != "" {
			out = appendPlain(out, s[plain:i])
			out = append(out, piece{label, true})
			plain = i + size
		}
		i += size
	}
	return appendPlain(out, s[plain:])
}

func appendPlain(out []piece, s string) []piece {
	if s == "" {
		return out
	}
	return append(out, piece{Text: s})
}

// hiddenLabel names a character that cannot be seen or that moves others
// about; it is empty for all others.
func hiddenLabel(r rune, size int, first byte) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return fmt.Sprintf("0x%02X", first)
	case r == ' ':
		return ""
	case unicode.In(r, unicode.C, unicode.Z, unicode.Variation_Selector) || !unicode.IsGraphic(r):
		return fmt.Sprintf("U+%04X", r)
	}
	return ""
}

func flat(ps []piece) string {
	var b strings.Builder
	for _, p := range ps {
		if p.Hidden {
			b.WriteString("⟨" + p.Text + "⟩")
			continue
		}
		b.WriteString(p.Text)
	}
	return b.String()
}
