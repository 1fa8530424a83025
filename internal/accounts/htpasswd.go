package accounts

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"authguard/internal/passwords"
)

// maxLine bounds a line of a file, in bytes.
const maxLine = 64 << 10

// An entry is one line of a file: somebody with a hash, or with a password yet
// to be hashed.
type entry struct {
	line     int
	offset   int64 // of its end in the file, bytes
	username string
	email    string
	hash     string
	password string
}

// eachHtpasswd reads "name:hash" lines; empty lines and those that begin with #
// are skipped. A line that is bad is given to yield with what is wrong with it,
// and reading ends when yield is false. The error is that of reading.
func eachHtpasswd(r io.Reader, yield func(entry, error) bool) error {
	lines := bufio.NewScanner(withoutBOM(r))
	lines.Buffer(nil, maxLine)
	number, offset := 0, int64(0)
	for lines.Scan() {
		number++
		offset += int64(len(lines.Bytes())) + 1
		text := strings.TrimSuffix(lines.Text(), "\r")
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		e, err := parseHtpasswd(text)
		e.line, e.offset = number, offset
		if !yield(e, err) {
			return nil
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		yield(entry{line: number + 1}, errors.New("the line is too long; the rest was not read"))
		return nil
	}
	return lines.Err()
}

func parseHtpasswd(text string) (entry, error) {
	name, rest, ok := strings.Cut(text, ":")
	if !ok || name == "" {
		return entry{}, errors.New("not of the form name:hash (a CSV file needs the format csv)")
	}
	hash, _, _ := strings.Cut(rest, ":") // nginx allows a comment behind it
	hash = strings.TrimSpace(hash)
	if hash == "" {
		return entry{}, errors.New("the hash is missing")
	}
	_, err := passwords.CostOf(hash)
	return entry{username: name, hash: hash}, err
}

// withoutBOM drops the mark that Windows editors put in front of UTF-8.
func withoutBOM(r io.Reader) io.Reader {
	buffered := bufio.NewReader(r)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\xEF\xBB\xBF" {
		buffered.Discard(3)
	}
	return buffered
}
