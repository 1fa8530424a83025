package lists

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
)

// A Format is the format of a file of ranges. A line begins with an IP address, a CIDR range, or two IP addresses with
// a "-" between them. Lines may end in CRLF; empty lines and lines after "#", ";" or "//" are comments.
type Format string

// The formats.
const (
	// Plain: text after white space or any of ,;# is a note. FireHOL's netsets, Spamhaus DROP, Tor's exit list use it.
	Plain Format = "plain"
	// IPCat is ipcat's CSV: first address, last address, name, URL.
	IPCat Format = "ipcat"
	// Scored has a score in a later column, separated by white space or commas. Low scores are left out.
	Scored Format = "scored"
)

// A Layout is a format and its parameters.
type Layout struct {
	Format   Format
	Column   int     // of the score, from 2; 0: 2
	MinScore float64 // score
}

// A LineProblem is an invalid line. Text quotes the line with strconv.Quote.
type LineProblem struct {
	Line int    `json:"line"` // from 1
	Text string `json:"text"`
}

// A line is a parsed line: its ranges (two addresses can need several), and the rest as a note.
type line struct {
	number  int
	ranges  []netip.Prefix
	note    string
	leftOut bool // its score is too low
}

// maxLine is the maximum length of a line, in bytes.
const maxLine = 4 << 10

// errUnfinished rejects a truncated file: a truncated range can be a much wider one.
var errUnfinished = errors.New("its last line has no newline, so the file may be incomplete: end it with a newline")

// eachLine parses a text line by line and yields each line with its error. A header has no ranges. The last line needs
// a newline unless unfinished is set. The error is the reader's, or errUnfinished.
func eachLine(r io.Reader, layout Layout, unfinished bool, yield func(line, error)) error {
	lines := bufio.NewReaderSize(r, maxLine)
	for number := 1; ; number++ {
		raw, err := lines.ReadSlice('\n')
		if number == 1 {
			raw = bytes.TrimPrefix(raw, []byte("\xEF\xBB\xBF"))
		}
		long := errors.Is(err, bufio.ErrBufferFull)
		text := strings.TrimSpace(string(raw))
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = lines.ReadSlice('\n')
		}
		if err != nil && err != io.EOF {
			return err
		}
		if err == io.EOF && len(raw) > 0 && !unfinished {
			return errUnfinished
		}
		switch {
		case long:
			yield(line{number: number}, fmt.Errorf("is longer than %d bytes", maxLine))
		case text == "", strings.HasPrefix(text, "#"), strings.HasPrefix(text, ";"), strings.HasPrefix(text, "//"):
		default:
			one, problem := layout.parse(text, number == 1)
			one.number = number
			yield(one, problem)
		}
		if err == io.EOF {
			return nil
		}
	}
}

// parse parses one line. A header or a left-out line has no range and no error.
func (l Layout) parse(text string, first bool) (one line, err error) {
	separators := " \t,;#"
	if l.Format == IPCat {
		separators = ","
	}
	fields := split(text, separators)
	if header := first && l.Format != Plain && !strings.ContainsAny(fields[0], ".:"); header {
		return one, nil
	}
	switch l.Format {
	case IPCat:
		if len(fields) < 2 {
			return one, fmt.Errorf("%s must be first address,last address,name,url", quoted(text))
		}
		one.ranges, err = between(strings.TrimSpace(fields[0]), strings.TrimSpace(fields[1]))
		return one, err
	case Scored:
		at := max(l.Column, 2) - 1
		if at >= len(fields) {
			return one, fmt.Errorf("%s has no column %d", quoted(text), at+1)
		}
		score, err := strconv.ParseFloat(strings.TrimSpace(fields[at]), 64)
		if err != nil {
			return one, fmt.Errorf("%s in column %d is not a number", quoted(fields[at]), at+1)
		}
		if score < l.MinScore {
			return line{leftOut: true}, nil
		}
	}
	rest := strings.TrimSpace(strings.TrimPrefix(text, fields[0]))
	if again, ok := strings.CutPrefix(rest, "-"); ok && strings.ContainsAny(again, ".:") { // with spaces around it
		last := split(strings.TrimSpace(again), separators)[0]
		fields[0] += "-" + last
		rest = strings.TrimPrefix(strings.TrimSpace(again), last)
	}
	one.note = strings.Trim(rest, " \t,;#")
	if from, to, ok := strings.Cut(fields[0], "-"); ok {
		one.ranges, err = between(from, to)
		return one, err
	}
	p, err := ParsePrefix(fields[0])
	if err == nil {
		err = tooWide(p)
	}
	one.ranges = []netip.Prefix{p}
	return one, err
}

func split(text, separators string) []string {
	if strings.Contains(separators, " ") {
		return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(separators, r) })
	}
	return strings.Split(text, separators)
}

// Words returns the error of a line for users.
func Words(err error) string {
	return strings.ReplaceAll(strings.ReplaceAll(err.Error(), "lists: ", ""), "\n", "; ")
}

func quoted(text string) string { return strconv.QuoteToASCII(text[:min(len(text), 60)]) }

func tooWide(p netip.Prefix) error {
	if p.Bits() == 0 {
		return ErrTooWide
	}
	return nil
}

// between returns the CIDR ranges that make up all IP addresses between two.
func between(from, to string) (all []netip.Prefix, err error) {
	first, err := ParsePrefix(from)
	last, err2 := ParsePrefix(to)
	if err := errors.Join(err, err2); err != nil {
		return nil, err
	}
	a, z := first.Addr(), last.Addr()
	if !first.IsSingleIP() || !last.IsSingleIP() || a.BitLen() != z.BitLen() || z.Less(a) {
		return nil, fmt.Errorf("%s-%s is not a range: write its first and its last address", quoted(from), quoted(to))
	}
	for a.IsValid() && !z.Less(a) { // Next of the last possible address is invalid
		widest := netip.PrefixFrom(a, a.BitLen())
		for bits := a.BitLen() - 1; bits >= 0; bits-- {
			wider := netip.PrefixFrom(a, bits)
			if wider.Masked().Addr() != a || z.Less(end(wider)) {
				break
			}
			widest = wider
		}
		if err := tooWide(widest); err != nil {
			return nil, err
		}
		all, a = append(all, widest), end(widest).Next()
	}
	return all, nil
}

func end(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < p.Addr().BitLen(); i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
