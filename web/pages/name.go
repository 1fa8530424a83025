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

func newName(s string) name { return nameOf(s, shownRunes) }

// newLine is a sentence that a stranger's text may be part of: longer than a name.
func newLine(s string) name { return nameOf(s, titleRunes) }

// Plain is a stranger's text as a line of plain text, as short as a name on a page and as
// plain: without links that a mail program would make of it.
func Plain(s string) string {
	n := newName(s)
	var b strings.Builder
	for _, p := range n.Pieces {
		if p.Hidden {
			p.Text = "⟨" + p.Text + "⟩"
		}
		b.WriteString(strings.NewReplacer("://", " ", "www.", "www ").Replace(p.Text))
	}
	if n.Cut {
		b.WriteString("…")
	}
	return b.String()
}

func nameOf(s string, most int) name {
	if s == "" {
		return name{Pieces: []piece{{"empty", true}}, Full: "empty"}
	}
	shown, cut := cutRunes(s, most)
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
	for i := range s {
		if most == 0 {
			return s[:i], true
		}
		most--
	}
	return s, false
}

func pieces(s string) (all []piece) {
	for size := 0; len(s) > 0; s = s[size:] {
		var r rune
		r, size = utf8.DecodeRuneInString(s)
		label, last := hiddenLabel(r, size, s[0]), len(all)-1
		switch {
		case label != "":
			all = append(all, piece{label, true})
		case last >= 0 && !all[last].Hidden:
			all[last].Text += s[:size]
		default:
			all = append(all, piece{Text: s[:size]})
		}
	}
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
