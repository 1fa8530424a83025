package replay

import (
	"bytes"
	"errors"
	"net/netip"
	"strconv"
	"time"
)

// sshd parses what OpenSSH writes to syslog (auth.log, secure, journalctl), with either kind of time:
//
//	Mar 27 13:08:09 host sshd[1361]: Failed password for invalid user x from 203.0.113.9 port 54259 ssh2
//
// A rejected key is not a guess. Accepted keys and passwords are logins.
type sshd struct {
	zone  *time.Location
	year  int // of the previous line
	month time.Month
}

func newSSHD(f *file, changed time.Time, c Config) (parser, error) {
	p := &sshd{zone: c.Zone, year: c.Year}
	if p.year == 0 {
		// The first line of a log that is still being written may be from last year.
		p.year = changed.In(c.Zone).Year()
		first, _ := f.from.Peek(len(time.Stamp))
		if at, ok := p.short(first); ok {
			if at.After(changed.Add(24 * time.Hour)) {
				p.year--
			}
			f.year = p.year
		}
		p.month = 0
	}
	return p, nil
}

func likeSyslog(line []byte) bool {
	p := sshd{zone: time.UTC, year: 2000}
	_, rest, ok := p.time(line)
	_, program, found := bytes.Cut(rest, []byte(" "))
	return ok && found && bytes.Contains(program, []byte(":"))
}

// time parses the time at the start of a line.
func (p *sshd) time(line []byte) (at time.Time, rest []byte, ok bool) {
	if n := len(time.Stamp); len(line) > n+1 && line[n] == ' ' {
		if at, ok = p.short(line[:n]); ok {
			return at, line[n+1:], true
		}
	}
	word, rest, _ := bytes.Cut(line, []byte(" "))
	at, err := time.Parse(time.RFC3339Nano, string(word))
	return at.UTC(), rest, err == nil
}

// short parses "Mar 27 13:08:09". The year is the previous line's, or the next one.
func (p *sshd) short(text []byte) (time.Time, bool) {
	at, err := time.Parse(time.Stamp, string(text))
	if err != nil {
		return at, false
	}
	month := at.Month()
	year := p.year
	switch {
	case p.month-month > 6: // from December to January
		p.year, p.month = year+1, month
		year++
	case p.month != 0 && month-p.month > 6: // last year's, and late
		year--
	default:
		p.month = month
	}
	return time.Date(year, month, at.Day(), at.Hour(), at.Minute(), at.Second(), 0, p.zone).UTC(), true
}

var (
	errSSHD      = errors.New("no account, IP address and port at their places in a line of sshd")
	errSyslog    = errors.New("does not begin with a time such as Mar 27 13:08:09")
	sshdWord     = []byte("sshd")
	failed       = []byte("Failed ")
	accepted     = []byte("Accepted ")
	invalidUser  = []byte("invalid user ")
	repeatedWord = []byte("message repeated ")
)

func (p *sshd) parse(line []byte, r *row) error {
	if len(line) == 0 {
		return nil
	}
	at, rest, ok := p.time(line)
	if !ok {
		return errSyslog
	}
	_, rest, _ = bytes.Cut(rest, []byte(" ")) // the host
	program, text, ok := bytes.Cut(rest, []byte(": "))
	if !ok || !bytes.HasPrefix(program, sshdWord) {
		return nil
	}
	count := 1
	if bytes.HasPrefix(text, repeatedWord) { // message repeated 5 times: [ Failed …]
		times, inner, _ := bytes.Cut(text[len(repeatedWord):], []byte(" times: [ "))
		var err error
		if count, err = strconv.Atoi(string(times)); err != nil || count < 1 || count > 1e6 {
			return errSSHD
		}
		text = bytes.TrimSuffix(inner, []byte("]"))
	}
	switch {
	case bytes.HasPrefix(text, failed):
		text = text[len(failed):]
	case bytes.HasPrefix(text, accepted):
		text, r.Outcome = text[len(accepted):], Succeeded
	default:
		return nil
	}
	method, text, ok := bytes.Cut(text, []byte(" for "))
	if ok && r.Outcome == Failed && (string(method) == "publickey" || string(method) == "none") {
		return nil // clients offer all of their keys
	}
	// A name may contain " from 192.0.2.1 port 1": the last occurrence counts.
	from := bytes.LastIndex(text, []byte(" from "))
	if !ok || from < 0 {
		return errSSHD
	}
	address, _, _ := bytes.Cut(text[from+len(" from "):], []byte(" "))
	r.Account, r.Named = string(bytes.TrimPrefix(text[:from], invalidUser)), true
	var err error
	if r.Address, err = netip.ParseAddr(string(address)); err != nil {
		return errSSHD
	}
	r.At, r.count = at, count
	return nil
}
