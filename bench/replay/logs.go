package replay

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"time"
)

// A Kind is the content of a generated log.
type Kind struct {
	Name string
	// Logins is the share of login attempts among the lines.
	Logins float64
	// SSH is a log of OpenSSH with account names; otherwise it is an access log.
	SSH bool
}

// Kinds are the logs of the measurement.
func Kinds() []Kind {
	return []Kind{
		{"access log, 2 % logins", 0.02, false}, {"access log, only logins", 1, false}, {"auth.log, only logins", 1, true},
	}
}

// A town makes the lines: users from their known clients, and on the third day, which has half of the
// week's lines, mostly a botnet.
type town struct {
	r      *rand.Rand
	people int
	bots   int
}

func begins() time.Time { return time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC) }

// when is the time of a line, by the share of the lines before it.
func when(part float64) time.Time {
	const day = float64(24 * time.Hour)
	switch {
	case part < 0.25:
		return begins().Add(time.Duration(part / 0.25 * 2 * day))
	case part < 0.75:
		return begins().Add(time.Duration((2 + (part-0.25)/0.5) * day))
	}
	return begins().Add(time.Duration((3 + (part-0.75)/0.25*4) * day))
}

func attacked(at time.Time) bool { return at.Sub(begins())/(24*time.Hour) == 2 }

// Write writes a log of a number of bytes, the same each time, and returns the numbers of its lines and
// logins.
func Write(path string, k Kind, bytes int64) (lines, logins int64, err error) {
	f, err := os.Create(path)
	if err != nil {
		return 0, 0, err
	}
	w := bufio.NewWriterSize(f, 1<<20)
	t := &town{r: rand.New(rand.NewPCG(1, uint64(len(k.Name)))), people: 300_000, bots: 100_000}
	each := int64(185)
	if k.SSH {
		each = 105
	}
	expected := max(1, bytes/each)
	line := make([]byte, 0, 512)
	for written := int64(0); written < bytes; written += int64(len(line)) {
		at := when(float64(lines) / float64(expected))
		login := t.r.Float64() < k.Logins
		if login {
			logins++
		}
		line = t.line(line[:0], at, k, login)
		if _, err := w.Write(line); err != nil {
			return 0, 0, err
		}
		lines++
	}
	if err := w.Flush(); err != nil {
		return 0, 0, err
	}
	return lines, logins, f.Close()
}

func (t *town) line(to []byte, at time.Time, k Kind, login bool) []byte {
	person := min(t.r.IntN(t.people), t.r.IntN(t.people)) // some log in more often
	from, account, right := address(80, person), person, t.r.Float64() < 0.9
	if login && attacked(at) && t.r.Float64() < 0.85 {
		from, account, right = address(20, t.r.IntN(t.bots)), t.r.IntN(t.people), false
	}
	switch {
	case k.SSH:
		return sshLine(to, at, from, account, right)
	case login:
		status := " 200 5120 "
		if right {
			status = " 302 0 "
		}
		return accessLine(to, at, from, "POST /login", status)
	}
	paths := [...]string{
		"GET /static/app.js", "GET /static/style.css", "GET /images/logo.png?v=3", "GET /",
		"GET /articles/a-long-title-of-an-article-4711", "POST /api/beacon",
	}
	return accessLine(to, at, from, paths[t.r.IntN(len(paths))], " 200 18211 ")
}

func accessLine(to []byte, at time.Time, from netip.Addr, request, status string) []byte {
	to = from.AppendTo(to)
	to = append(to, " - - ["...)
	to = at.AppendFormat(to, "02/Jan/2006:15:04:05 -0700")
	to = append(append(append(to, `] "`...), request...), ` HTTP/1.1"`...)
	to = append(to, status...)
	to = append(to, `"https://www.example.org/" "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) `...)
	return append(to, `Gecko/20100101 Firefox/140.0"`+"\n"...)
}

func sshLine(to []byte, at time.Time, from netip.Addr, account int, right bool) []byte {
	to = at.AppendFormat(to, time.RFC3339)
	word := " host sshd[4711]: Failed password for "
	if right {
		word = " host sshd[4711]: Accepted password for "
	}
	to = fmt.Appendf(append(to, word...), "person%d from ", account)
	return append(from.AppendTo(to), " port 54259 ssh2\n"...)
}

func address(block byte, n int) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	b[0] = block
	return netip.AddrFrom4(b)
}
