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

// Format is a file format of accounts. The zero Format is invalid.
type Format string

// The formats. All may have Windows line endings, a byte order mark, and every kind of hash that passwords.Parse reads.
const (
	// Htpasswd is Apache's: "name:hash" lines.
	Htpasswd Format = "htpasswd"
	// Shadow is shadow(5), or the output of getent shadow. Accounts without a password are skipped.
	Shadow Format = "shadow"
	// CSV has a header with username, optionally email and groups (separated by spaces, or by commas in quotes), and
	// either password_hash or password. Hashing a plain password takes about a fifth of a second.
	CSV Format = "csv"
)

const maxLine = 64 << 10

// errHeader describes the required first line of a CSV file.
var errHeader = errors.New("the header must name username, optionally email and groups, and one of password_hash and " +
	"password, each once")

// entry is one line of a file: a user with a hash, or with a password to hash.
type entry struct {
	line     int
	offset   int64 // where the entry ends in the file, in bytes
	username string
	email    string
	groups   []string
	hash     string
	password string
}

// eachShadow is eachHtpasswd without accounts that have no password, most of which are system accounts.
func eachShadow(r io.Reader, yield func(entry, error) error) error {
	return eachHtpasswd(r, func(e entry, err error) error {
		if errors.Is(err, errNoHash) || e.username != "" && passwords.NoPassword(e.hash) {
			return nil
		}
		return yield(e, err)
	})
}

var errNoHash = errors.New("the hash is missing")

// eachHtpasswd reads "name:hash" lines and skips empty ones and comments (#). It yields a bad line with its error. It
// returns the reader's error, or the first that yield returns.
func eachHtpasswd(r io.Reader, yield func(entry, error) error) error {
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
		if err := yield(e, err); err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return yield(entry{line: number + 1}, errors.New("the line is too long; the rest was not read"))
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
		return entry{}, errNoHash
	}
	_, err := passwords.Parse(hash)
	return entry{username: name, hash: hash}, err
}

// withoutBOM drops the byte order mark that Windows editors write before UTF-8.
func withoutBOM(r io.Reader) io.Reader {
	buffered := bufio.NewReader(r)
	if mark, err := buffered.Peek(3); err == nil && string(mark) == "\xEF\xBB\xBF" {
		buffered.Discard(3)
	}
	return buffered
}

func eachCSV(r io.Reader, yield func(entry, error) error) error {
	records := csv.NewReader(withoutBOM(r))
	records.ReuseRecord = true
	var syntax *csv.ParseError
	header, err := records.Read()
	if err != nil && err != io.EOF && !errors.As(err, &syntax) {
		return err
	}
	columns := columnsOf(header)
	if err != nil || columns == nil {
		return yield(entry{line: 1}, errHeader)
	}
	for {
		record, err := records.Read()
		var e entry
		switch {
		case err == io.EOF:
			return nil
		case errors.As(err, &syntax):
			e.line, err = syntax.StartLine, fmt.Errorf("not CSV: %w", syntax.Err)
		case err != nil:
			return err
		default:
			e, err = columns.entry(record)
			e.line, _ = records.FieldPos(0)
		}
		e.offset = records.InputOffset()
		if err := yield(e, err); err != nil {
			return err
		}
	}
}

type columns map[string]int

// columnsOf returns nil unless the header satisfies errHeader.
func columnsOf(header []string) columns {
	c := make(columns)
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if _, twice := c[name]; twice || !slices.Contains([]string{"username", "email", "groups", "password_hash",
			"password"}, name) {
			return nil
		}
		c[name] = i
	}
	_, named := c["username"]
	_, hash := c["password_hash"]
	_, plain := c["password"]
	if !named || hash == plain {
		return nil
	}
	return c
}

func (c columns) entry(record []string) (e entry, err error) {
	e.username = strings.Clone(record[c["username"]])
	if i, ok := c["email"]; ok {
		e.email = strings.TrimSpace(record[i])
	}
	if i, ok := c["groups"]; ok {
		if e.groups, err = ParseGroups(record[i]); err != nil {
			return e, err
		}
	}
	if i, ok := c["password"]; ok {
		e.password = record[i]
		return e, nil
	}
	e.hash = strings.TrimSpace(record[c["password_hash"]])
	if e.hash == "" {
		return e, errNoHash
	}
	_, err = passwords.Parse(e.hash)
	return e, err
}
