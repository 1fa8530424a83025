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
	var full strings.Builder
	for _, p := range pieces(long) {
		if p.Hidden {
			p.Text = "⟨" + p.Text + "⟩"
		}
		full.WriteString(p.Text)
	}
	return name{Pieces: pieces(shown), Cut: cut, Full: full.String()}
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

func pieces(s string) (all []piece) {
	plain := 0
	add := func(end, next int, label string) {
		if plain < end {
			all = append(all, piece{Text: s[plain:end]})
		}
		if label != "" {
			all = append(all, piece{label, true})
		}
		plain = next
	}
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if label := hiddenLabel(r, size, s[i]); label != "" {
			add(i, i+size, label)
		}
		i += size
	}
	add(len(s), len(s), "")
	return all
}

// hiddenLabel names a character that cannot be seen or that moves others
// about, and is empty for all others.
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
