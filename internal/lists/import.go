package lists

import (
	"fmt"
	"net/netip"
	"strings"
)

// The limits of an import.
const (
	// MaxImport is the maximum size of the text, in bytes.
	MaxImport = 1 << 20
	// MaxImported is the maximum number of ranges.
	MaxImported = 10_000
)

// An Import is a parsed text with one range per line and optional notes.
type Import struct {
	Items    []Item
	Problems []LineProblem // of all invalid lines
	Twice    int           // duplicates of earlier ranges
}

// An Item is one range of an Import.
type Item struct {
	Line   int
	Prefix netip.Prefix
	Note   string
}

// ReadImport parses a text in the format Plain. Lines beyond MaxImported are invalid.
func ReadImport(text string) (i Import) {
	if len(text) > MaxImport {
		i.Problems = []LineProblem{{1,
			fmt.Sprintf("the text is larger than %d KiB: import it in parts, or configure the file as a named list",
				MaxImport>>10)}}
		return i
	}
	seen := map[netip.Prefix]bool{}
	_ = eachLine(strings.NewReader(text), Layout{Format: Plain}, true, func(l line, err error) { // a string has no errors
		switch {
		case err == nil && len(l.note) > MaxNote:
			err = fmt.Errorf("its note is longer than %d bytes", MaxNote)
		case err == nil:
			err = Request{Prefix: netip.MustParsePrefix("0.0.0.0/1"), Verdict: Block, Note: l.note}.Validate()
		}
		if err == nil && len(i.Items)+len(l.ranges) > MaxImported {
			err = fmt.Errorf("exceeds the %d ranges that can be imported at once: configure the file as a named list",
				MaxImported)
		}
		if err != nil {
			i.Problems = append(i.Problems, LineProblem{l.number, Words(err)})
			return
		}
		for _, p := range l.ranges {
			if seen[p] {
				i.Twice++
				continue
			}
			seen[p] = true
			i.Items = append(i.Items, Item{l.number, p, l.note})
		}
	})
	return i
}
