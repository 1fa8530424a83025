package accounts

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"authguard/internal/passwords"
)

// A Format is how a file of accounts is written. The zero Format is none.
type Format uint8

// The formats. Both may have Windows line ends and a byte order mark.
const (
	NoFormat Format = iota
	// Htpasswd is Apache's: "name:hash" lines, bcrypt only (htpasswd -B).
	Htpasswd
	// CSV has a header that names, in any order, username, optionally email, and
	// either password_hash (bcrypt) or password (plain; hashing one takes a good
	// fifth of a second).
	CSV
)

// maxLine bounds a line of a file, in bytes.
const maxLine = 64 << 10

// errHeader says what the first line of a CSV file must be.
var errHeader = errors.New("the header must name username, optionally email, and one of password_hash and password, each once")

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

// eachHtpasswd reads "name:hash" lines and skips empty ones and those that begin
// with #. It yields a bad line with what is wrong with it, and ends when yield
// returns false. The error is the reader's.
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
	hash, _, _ := strings.Cut(rest, ":") // nginx allows a comment after it
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

// eachCSV reads the records below a header, like eachHtpasswd.
func eachCSV(r io.Reader, yield func(entry, error) bool) error {
	records := csv.NewReader(withoutBOM(r))
	records.ReuseRecord = true
	header, err := records.Read()
	columns, bad := columnsOf(header)
	if err != nil || bad != nil {
		yield(entry{line: 1}, errHeader)
		return readError(err)
	}
	for {
		e, problem, err := next(records, columns)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		e.offset = records.InputOffset()
		if !yield(e, problem) {
			return nil
		}
	}
}

// next reads one record. problem is what is wrong with it, err with the file.
func next(records *csv.Reader, c columns) (e entry, problem, err error) {
	record, err := records.Read()
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return entry{line: syntax.StartLine}, fmt.Errorf("not CSV: %w", syntax.Err), nil
	}
	if err != nil {
		return entry{}, nil, err
	}
	e, problem = c.entry(record)
	e.line, _ = records.FieldPos(0)
	return e, problem, nil
}

func readError(err error) error {
	var syntax *csv.ParseError
	if err == io.EOF || errors.As(err, &syntax) {
		return nil
	}
	return err
}

type columns struct{ username, email, hash, password int }

func columnsOf(header []string) (columns, error) {
	names := make([]string, len(header))
	for i, name := range header {
		names[i] = strings.ToLower(strings.TrimSpace(name))
	}
	at := func(name string) int { return slices.Index(names, name) }
	c := columns{at("username"), at("email"), at("password_hash"), at("password")}
	known := 0
	for _, i := range []int{c.username, c.email, c.hash, c.password} {
		if i >= 0 {
			known++
		}
	}
	if c.username < 0 || (c.hash < 0) == (c.password < 0) || known != len(names) {
		return columns{}, errHeader
	}
	return c, nil
}

func (c columns) entry(record []string) (e entry, err error) {
	e.username = strings.Clone(record[c.username])
	if c.email >= 0 {
		e.email = strings.TrimSpace(record[c.email])
	}
	if c.password >= 0 {
		e.password = record[c.password]
		return e, CheckPassword(e.password)
	}
	e.hash = strings.TrimSpace(record[c.hash])
	if e.hash == "" {
		return e, errors.New("the hash is missing")
	}
	_, err = passwords.CostOf(e.hash)
	return e, err
}
