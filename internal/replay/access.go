package replay

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// access parses the access logs of nginx and Apache: common, combined, and with the virtual host first.
//
//	203.0.113.9 - - [10/Oct/2026:13:55:36 +0200] "POST /login HTTP/1.1" 302 0 "…" "…"
//
// The account is the user of HTTP authentication; access logs do not contain a form's. The only header for the client
// fingerprint is User-Agent, the second quoted text of the combined format.
type access struct {
	file *file
	Config
}

func newAccess(f *file, _ time.Time, c Config) (parser, error) { return &access{f, c}, nil }

func likeAccess(line []byte) bool {
	_, _, _, _, err := cutAccess(line)
	return err == nil
}

const accessTime = "02/Jan/2006:15:04:05 -0700"

var (
	errAccess  = errors.New(`is not like: ADDRESS - - [10/Oct/2026:13:55:36 +0200] "POST /login HTTP/1.1" 302`)
	errAddress = errors.New("no IP address at its place")
)

// cutAccess splits a line into the text before the time, the time, the request and the rest.
func cutAccess(line []byte) (before, at, request, after []byte, err error) {
	before, line, _ = bytes.Cut(line, []byte("["))
	if len(line) < len(accessTime) {
		return nil, nil, nil, nil, errAccess
	}
	at, line = line[:len(accessTime)], line[len(accessTime):]
	line, ok := bytes.CutPrefix(line, []byte(`] "`))
	end := closingQuote(line)
	if !ok || end < 0 {
		return nil, nil, nil, nil, errAccess
	}
	return before, at, line[:end], bytes.TrimLeft(line[end+1:], " "), nil
}

// closingQuote is where a quoted text ends; Apache writes a quote inside as \".
func closingQuote(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

func (p *access) parse(line []byte, r *row) error {
	before, at, request, after, err := cutAccess(line)
	if len(line) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	method, rest, _ := bytes.Cut(request, []byte(" "))
	path, _, _ := bytes.Cut(rest, []byte(" "))
	path, _, _ = bytes.Cut(path, []byte("?"))
	if !slices.ContainsFunc(p.Logins, func(l Request) bool {
		return l.Method == string(method) && l.Path == string(path)
	}) {
		if string(method) == "POST" {
			p.file.posts.add(string(path))
		}
		return nil
	}
	status, _, _ := bytes.Cut(after, []byte(" "))
	switch {
	case slices.Contains(p.Success, string(status)):
		r.Outcome = Succeeded
	case slices.Contains(p.Failure, string(status)):
		r.Outcome = Failed
	default:
		return nil
	}
	if r.At, err = time.Parse(accessTime, string(at)); err != nil {
		return errors.New("is not a time such as 10/Oct/2026:13:55:36 +0200")
	}
	r.At, r.Client, r.count = r.At.UTC(), agent(after), 1
	return r.who(strings.Fields(string(before)))
}

// agent returns the second quoted text after the request; empty if missing.
func agent(after []byte) string {
	var text []byte
	for range 2 {
		_, after, _ = bytes.Cut(after, []byte{'"'})
		end := closingQuote(after)
		if end < 0 {
			return ""
		}
		text, after = after[:end], after[end+1:]
	}
	return string(text)
}

// who parses an IP address, an identity and a user, optionally after a virtual host.
func (r *row) who(words []string) (err error) {
	for range 2 {
		if len(words) < 3 {
			return errAddress
		}
		if r.Address, err = netip.ParseAddr(words[0]); err == nil {
			if user := strings.Join(words[2:], " "); user != "-" {
				r.Account, r.Named = user, true
			}
			return nil
		}
		words = words[1:]
	}
	return errAddress
}
