package replay

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"time"
)

// access parses the access logs of nginx and Apache: common, combined, and with the virtual host first.
//
//	203.0.113.9 - - [10/Oct/2026:13:55:36 +0200] "POST /login HTTP/1.1" 302 0 "…" "…"
//
// The account is the user of HTTP authentication; access logs do not contain a form's. The only header for the client
// fingerprint is User-Agent, the second quoted text of the combined format.
type access struct {
	file             *file
	agents           map[string]string
	logins           []Request
	success, failure [][]byte
}

func newAccess(f *file, _ time.Time, c Config) (parser, error) {
	a := &access{file: f, logins: c.Logins, agents: map[string]string{}}
	for _, word := range c.Success {
		a.success = append(a.success, []byte(word))
	}
	for _, word := range c.Failure {
		a.failure = append(a.failure, []byte(word))
	}
	return a, nil
}

func likeAccess(line []byte) bool {
	_, _, _, _, err := cutAccess(line)
	return err == nil
}

var (
	errAccess  = errors.New(`is not like: ADDRESS - - [10/Oct/2026:13:55:36 +0200] "POST /login HTTP/1.1" 302`)
	errAddress = errors.New("no IP address at its place")
)

// cutAccess splits a line into the text before the time, the time, the request and the rest.
func cutAccess(line []byte) (before, at, request, after []byte, err error) {
	open := bytes.IndexByte(line, '[')
	if open < 0 {
		return nil, nil, nil, nil, errAccess
	}
	before, line = line[:open], line[open+1:]
	shut := bytes.IndexByte(line, ']')
	if shut != len("10/Oct/2026:13:55:36 +0200") || !bytes.HasPrefix(line[shut:], []byte(`] "`)) {
		return nil, nil, nil, nil, errAccess
	}
	at, line = line[:shut], line[shut+3:]
	end := closingQuote(line)
	if end < 0 {
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

func (p *access) parse(line []byte, r *row) (err error) {
	before, at, request, after, err := cutAccess(line)
	if err != nil {
		if len(line) == 0 {
			return nil
		}
		return err
	}
	method, rest, _ := bytes.Cut(request, []byte(" "))
	path, _, _ := bytes.Cut(rest, []byte(" "))
	path, _, _ = bytes.Cut(path, []byte("?"))
	if !slices.ContainsFunc(p.logins, func(l Request) bool {
		return l.Method == string(method) && l.Path == string(path)
	}) {
		if string(method) == "POST" {
			p.file.posts.add(string(path))
		}
		return nil
	}
	status, _, _ := bytes.Cut(after, []byte(" "))
	is := func(word []byte) bool { return bytes.Equal(word, status) }
	switch {
	case slices.ContainsFunc(p.success, is):
		r.Outcome = Succeeded
	case slices.ContainsFunc(p.failure, is):
		r.Outcome = Failed
	default:
		return nil
	}
	if r.At, err = accessTime(at); err != nil {
		return err
	}
	if err := r.who(before); err != nil {
		return err
	}
	r.Client, r.count = p.agent(after), 1
	return nil
}

// mostAgents is the maximum number of User-Agents that lines share as one string.
const mostAgents = 4096

// agent returns the second quoted text after the request; empty if missing.
func (p *access) agent(after []byte) string {
	var text []byte
	for range 2 {
		begin := bytes.IndexByte(after, '"')
		if begin < 0 {
			return ""
		}
		after = after[begin+1:]
		end := closingQuote(after)
		if end < 0 {
			return ""
		}
		text, after = after[:end], after[end+1:]
	}
	known, ok := p.agents[string(text)]
	if !ok {
		if known = string(text); len(p.agents) < mostAgents {
			p.agents[known] = known
		}
	}
	return known
}

// who parses "ADDRESS IDENTITY USER ", optionally after a virtual host.
func (r *row) who(before []byte) error {
	words := bytes.Fields(before)
	if len(words) < 3 {
		return errAddress
	}
	address, err := netip.ParseAddr(string(words[0]))
	if err != nil {
		words = words[1:]
		address, err = netip.ParseAddr(string(words[0]))
	}
	if err != nil || len(words) < 3 {
		return errAddress
	}
	r.Address = address
	if user := bytes.Join(words[2:], []byte(" ")); string(user) != "-" {
		r.Account, r.Named = string(user), true
	}
	return nil
}

// accessTime parses 10/Oct/2026:13:55:36 +0200.
func accessTime(b []byte) (time.Time, error) {
	const errText = "is not a time such as 10/Oct/2026:13:55:36 +0200"
	month := monthOf(b[3:6])
	day, ok1 := number(b[0:2])
	year, ok2 := number(b[7:11])
	hour, ok3 := number(b[12:14])
	minute, ok4 := number(b[15:17])
	second, ok5 := number(b[18:20])
	zone, ok6 := number(b[22:26])
	if month == 0 || !(ok1 && ok2 && ok3 && ok4 && ok5 && ok6) || b[20] != ' ' || b[2] != '/' || b[6] != '/' ||
		b[11] != ':' {
		return time.Time{}, errors.New(errText)
	}
	offset := time.Duration(zone/100*60+zone%100) * time.Minute
	if b[21] == '-' {
		offset = -offset
	}
	return time.Date(year, month, day, hour, minute, second, 0, time.UTC).Add(-offset), nil
}

// monthOf returns the month of an English abbreviation, or 0.
func monthOf(b []byte) time.Month {
	const names = "JanFebMarAprMayJunJulAugSepOctNovDec"
	for m := range 12 {
		if string(b) == names[3*m:3*m+3] {
			return time.Month(m + 1)
		}
	}
	return 0
}

// number parses digits with optional leading spaces.
func number(b []byte) (n int, ok bool) {
	for i, c := range b {
		switch {
		case c >= '0' && c <= '9':
			n, ok = n*10+int(c-'0'), true
		case c == ' ' && !ok && i < len(b)-1:
		default:
			return 0, false
		}
	}
	return n, ok
}
