package wire

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Conn is a connection whose Read gives requests that every parser reads alike. Of
// heads and of the lines between chunks it hands on whole lines only: bufio takes a
// line that an error cuts off for a whole one, and textproto one of spaces for the end
// of the headers.
//
// It is for an http.Server, which has one reader at a time and closes it.
type Conn struct {
	net.Conn
	from    *Listener
	message message
	begun   bool   // with HTTP/1
	buffer  []byte // what was read and not handed on
	good    int    // so much of it may be
	// early: the first byte of it was handed on unchecked. net/http reads it while it
	// answers the request before, which must not fail for what comes after it.
	early   bool
	refused error
	told    bool // answer was given
	// balanced: the peer has to say first whom it speaks for, which is then client.
	balanced     bool
	opened       sync.Once
	client       net.Addr
	unintroduced error
	// untouched: the bytes are no HTTP/1 any more.
	untouched atomic.Bool
}

// Hijacked tells the connection that from now on bytes are to pass untouched: net/http
// gave it up to a handler, as it does for WebSocket.
func (c *Conn) Hijacked() {
	c.untouched.Store(true)
	c.from.hijacked.Store(c, nil)
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.from.hijacked.Delete(c)
	return c.Conn.Close()
}

// Read implements net.Conn. It ends with a message, so that what is wrong with the next
// one is found when net/http asks for that: by then it has answered this one.
func (c *Conn) Read(p []byte) (n int, err error) {
	if err := c.introduce(); err != nil {
		return 0, err
	}
	if len(p) == 1 && c.good == 0 && c.message.part == over && !c.early {
		return c.first(p)
	}
	for !c.untouched.Load() {
		switch {
		case c.good > 0:
			return c.give(p), nil
		case c.refused != nil:
			return 0, c.answer()
		case len(c.buffer) == 0:
			n, err = c.Conn.Read(p) // a body is not copied
			good := c.check(p[:n])
			c.buffer = bytes.Clone(p[good:n])
			if good > 0 || err != nil {
				return good, err
			}
		default:
			if c.good = c.check(c.buffer); c.good == 0 && c.refused == nil {
				if err := c.fill(); err != nil {
					return 0, err
				}
			}
		}
	}
	return c.raw(p)
}

// first hands on a message's first byte.
func (c *Conn) first(p []byte) (n int, err error) {
	if len(c.buffer) == 0 {
		if n, err = c.Conn.Read(p); n == 0 {
			return 0, err
		}
		c.buffer = bytes.Clone(p)
	}
	c.early, p[0] = true, c.buffer[0]
	return 1, nil
}

// give hands on what is good.
func (c *Conn) give(p []byte) int {
	if c.early {
		c.take(1)
	}
	n := copy(p, c.buffer[:c.good])
	c.take(n)
	return n
}

// raw reads what is left, and then from the connection.
func (c *Conn) raw(p []byte) (int, error) {
	if c.good = len(c.buffer); c.good > 0 {
		if n := c.give(p); n > 0 {
			return n, nil
		}
	}
	return c.Conn.Read(p)
}

// take takes n bytes out of the buffer. A connection that waits needs none.
func (c *Conn) take(n int) {
	c.early = false
	c.good -= n
	if c.buffer = c.buffer[n:]; len(c.buffer) == 0 {
		c.buffer = nil
	}
}

// fill reads more into the buffer.
func (c *Conn) fill() error {
	size := len(c.buffer)
	c.buffer = slices.Grow(c.buffer, 1<<10)
	n, err := c.Conn.Read(c.buffer[size:cap(c.buffer)])
	if c.buffer = c.buffer[:size+n]; n > 0 {
		return nil
	}
	return err
}

// preface is what an HTTP/2 connection begins with. Its first two lines are a request of
// HTTP/1 to net/http, so they are handed on only together with the rest.
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// check returns how many of these bytes may be handed on, and notes a refusal.
func (c *Conn) check(b []byte) int {
	if !c.begun && c.from.http2 {
		if bytes.HasPrefix(b, []byte(preface)) {
			c.untouched.Store(true)
			return len(b)
		}
		if strings.HasPrefix(preface, string(b)) {
			return 0
		}
	}
	c.begun = true
	good, bad := c.message.scan(b)
	if bad != nil {
		c.refused = bad
		c.from.refuse(c.RemoteAddr(), bad)
	}
	return good
}

// closeWithin is how long a client has to read why it was refused, and to end its
// side: closing under what it still sends would reset the connection, and the answer
// be lost.
const closeWithin = 500 * time.Millisecond

// answer says why the request was refused, once, unless a handler has it already and
// answers for itself. The error is one that net/http adds no answer of its own to.
func (c *Conn) answer() error {
	if !c.told && !c.message.handled() {
		c.told = true
		_ = c.SetDeadline(time.Now().Add(closeWithin))
		text := fmt.Sprintf("%s: %v\n", statusOf(c.refused), c.refused)
		_, _ = fmt.Fprintf(c.Conn, "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s",
			statusOf(c.refused), len(text), text)
		_ = c.CloseWrite()
		_, _ = io.CopyN(io.Discard, c.Conn, 256<<10)
		_ = c.Close()
	}
	return &net.OpError{Op: "read", Net: "tcp", Err: c.refused}
}

func statusOf(err error) string {
	if err == tooLarge {
		return "431 Request Header Fields Too Large"
	}
	return "400 Bad Request"
}

// CloseWrite ends our side of the connection.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// ReadFrom implements io.ReaderFrom: the kernel copies from files and sockets.
func (c *Conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }
