package accounts

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"authguard/internal/passwords"
)

// errHeader says what the first line of a CSV file must be.
var errHeader = errors.New("the header must name username, optionally email, and one of password_hash and password, each once")

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
