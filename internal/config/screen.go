package config

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"
)

// What a settings file may be. The YAML library is asked only about files
// within these bounds: it recurses with the nesting, and was measured to take
// 12 s over 20,000 keys and as long over 30,000 blank lines in a block of text.
const (
	// MaxFile is the largest file that is read, in bytes.
	MaxFile = 1 << 20

	maxLines  = 5000
	maxTokens = 20_000
	maxDepth  = 16
	maxBlanks = 100
)

// screen looks for what is wrong with a file before it is YAML.
func screen(data []byte) []fault {
	if len(data) > MaxFile {
		return []fault{{text: fmt.Sprintf("is larger than %s, so it is not a settings file", Size(MaxFile))}}
	}
	if i := firstJunk(data); i >= 0 {
		return []fault{{line: lineAt(data, i), text: fmt.Sprintf("is not text: byte 0x%02x at offset %d", data[i], i)}}
	}
	return screenLines(data)
}

func screenLines(data []byte) []fault {
	line, blanks := 0, 0
	for text := range bytes.Lines(data) {
		line++
		if blanks++; len(bytes.TrimSpace(text)) > 0 {
			blanks = 0
		}
		switch {
		case line > maxLines:
			return []fault{{line: line, text: fmt.Sprintf("has more than %d lines, so it is not a settings file", maxLines)}}
		case blanks > maxBlanks:
			return []fault{{line: line, text: fmt.Sprintf("has more than %d blank lines in a row", maxBlanks)}}
		}
	}
	return nil
}

// firstJunk is the offset of the first byte that no text file has, or -1.
func firstJunk(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 || isJunk(r) || r == '\r' && !bytes.HasPrefix(data[i:], []byte("\r\n")) {
			return i
		}
		i += size
	}
	return -1
}

func isJunk(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }

func lineAt(data []byte, offset int) int { return 1 + bytes.Count(data[:offset], []byte("\n")) }

// screenTokens refuses what a settings file does not need and what could make
// a small file large: aliases, merges, tags, nesting. It reports the first of
// each.
func screenTokens(tokens token.Tokens) []fault {
	if len(tokens) > maxTokens {
		return []fault{{line: tokens[maxTokens].Position.Line, text: "has too many keys and values for a settings file"}}
	}
	var faults []fault
	told := map[token.Type]bool{}
	depth, entries, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position.Line != line {
			line, entries = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType:
			entries++
		}
		if depth > maxDepth || entries > maxDepth {
			return append(faults, fault{line: line, text: fmt.Sprintf("is nested more than %d deep", maxDepth)})
		}
		if what := unwanted(t.Type); what != "" && !told[t.Type] {
			told[t.Type] = true
			faults = append(faults, fault{line: line, text: what})
		}
	}
	return faults
}

func unwanted(t token.Type) string {
	switch t {
	case token.AnchorType:
		return "anchors (&) are not read here: write the value out, or quote it if it is text"
	case token.AliasType:
		return "aliases (*) are not read here: write the value out, or quote it if it is text"
	case token.MergeKeyType:
		return "merges (<<) are not read here: write the value out, or quote it if it is text"
	case token.TagType:
		return "tags (!) are not read here: leave it out, or quote it if it is text"
	case token.DirectiveType:
		return "directives (%) are not read here: leave it out, or quote it if it is text"
	default:
		return ""
	}
}
