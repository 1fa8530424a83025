package pages

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"authguard/internal/times"
)

// The limits of user input on a page and in a tooltip, in characters.
const (
	shownRunes = 64
	titleRunes = 512
	narrowest  = 16 // bytes that fit into every column
)

// A name is user input made safe to display: in pieces that the template escapes and marks.
type name struct {
	Pieces []piece
	Cut    bool
	Full   string
}

// A piece is plain text, or the code point of an invisible character. U+202E reverses "gpj.exe"; U+200B makes two
// different names look alike.
type piece struct {
	Text   string
	Hidden bool
	At     moment // Text is a time
}

func newName(s string) name { return nameOf(s, shownRunes) }

// newLine is newName for a sentence that contains user input.
func newLine(s string) name { return nameOf(s, titleRunes) }

// Plain returns user input as one short line, without links that a mail program would create.
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
		return name{Pieces: []piece{{Text: "empty", Hidden: true}}, Full: "empty"}
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
	n := name{Cut: cut, Full: full.String()}
	for _, p := range pieces(shown) {
		if p.Hidden {
			n.Pieces = append(n.Pieces, p)
		} else {
			n.Pieces = append(n.Pieces, timed(p.Text)...)
		}
	}
	return n
}

// printed is what times.Text prints.
var printed = regexp.MustCompile(`\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:[A-Z]{2,5}|[+-]\d\d(?:\d\d)?)\b`)

// timed splits a text at its times, which pages show like all others.
func timed(text string) (all []piece) {
	from := 0
	for _, at := range printed.FindAllStringIndex(text, -1) {
		span, err := times.Parse(text[at[0]:at[1]], time.Time{}.Local())
		if err != nil {
			continue
		}
		if from < at[0] {
			all = append(all, piece{Text: text[from:at[0]]})
		}
		all = append(all, piece{Text: text[at[0]:at[1]], At: fullMoment(span.From)})
		from = at[1]
	}
	if from < len(text) {
		all = append(all, piece{Text: text[from:]})
	}
	return all
}

// Title returns the tooltip; empty for a name that every column shows whole.
func (n name) Title() string {
	if len(n.Pieces) == 1 && !n.Pieces[0].Hidden && len(n.Full) <= narrowest {
		return ""
	}
	return n.Full
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
			all = append(all, piece{Text: label, Hidden: true})
		case last >= 0 && !all[last].Hidden:
			all[last].Text += s[:size]
		default:
			all = append(all, piece{Text: s[:size]})
		}
	}
	return all
}

// hiddenLabel names a character that is invisible or reorders others; it is empty for all others.
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
