package wire

import (
	"math"
	"strings"
)

// A class is a set of bytes.
type class [256]bool

const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	smalls   = "abcdefghijklmnopqrstuvwxyz"
	decimals = "0123456789"
)

var (
	methods = among(capitals + "-")
	tokens  = among(capitals + smalls + decimals + "!#$%&'*+-.^_`|~")
	labels  = among(capitals + smalls + decimals + "-_")
	digits  = among(decimals)
	// targets are in ASCII, without a fragment: some take the # for its beginning.
	targets = between('!', '~', func(c byte) bool { return c != '#' })
	values  = between(0, math.MaxUint8, func(c byte) bool { return c >= ' ' && c != 0x7f || c == '\t' })
)

func among(these string) *class {
	return between(0, math.MaxUint8, func(c byte) bool { return strings.IndexByte(these, c) >= 0 })
}

func between(least, most int, is func(byte) bool) *class {
	var c class
	for b := least; b <= most; b++ {
		c[b] = is(byte(b))
	}
	return &c
}

// all reports whether there is at least one byte, and all are of this class.
func (c *class) all(b []byte) bool {
	for _, b := range b {
		if !c[b] {
			return false
		}
	}
	return len(b) > 0
}

// number reads digits, at least one and no more than fit.
func number(digits []byte, base int64) (n int64, err error) {
	if len(digits) == 0 || len(digits) > 18 {
		return 0, badLength
	}
	for _, c := range digits {
		d := int64(digitOf(c))
		if d >= base || n > (math.MaxInt64-d)/base {
			return 0, badLength
		}
		n = n*base + d
	}
	return n, nil
}

func digitOf(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	case c >= 'A' && c <= 'F':
		return c - 'A' + 10
	}
	return math.MaxUint8
}

// longestName is how much of a header's name is looked at.
const longestName = 20

// folded is a name's beginning in lower case, with hyphens for underscores as CGI,
// WSGI and PHP read them.
func folded(into *[longestName]byte, name []byte) []byte {
	n := copy(into[:], name)
	for i, c := range into[:n] {
		switch {
		case c >= 'A' && c <= 'Z':
			into[i] = c + 'a' - 'A'
		case c == '_':
			into[i] = '-'
		}
	}
	return into[:n]
}
