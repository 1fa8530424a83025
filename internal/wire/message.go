package wire

import (
	"bytes"
)

// A message is where a connection is in its requests.
type message struct {
	maxHead int

	part part
	room int   // how many bytes of lines may follow in this part
	left int64 // bytes that are still to come of the body or of the chunk
	head head
}

// A part is what comes next in a message.
type part int

const (
	over part = iota // nothing: what follows is the next message
	requestLine
	fields
	body
	chunkSize
	chunk
	chunkEnd
	trailers
)

// handled reports whether the message's head was handed on whole.
func (m *message) handled() bool {
	return m.part == body || m.part == chunkSize || m.part == chunk || m.part == chunkEnd || m.part == trailers
}

// scan reads on. It returns how many bytes are good: those of a body, and whole lines,
// up to the end of the message or before the line that is the error. If there are none
// and no error, there is no whole line yet. What was good is not to be scanned again.
func (m *message) scan(p []byte) (n int, err error) {
	if m.part == over && len(p) > 0 {
		m.expect(requestLine, m.maxHead)
		m.head = head{host: m.head.host[:0], authority: m.head.authority[:0]}
	}
	for n < len(p) && m.part != over {
		if m.part == body || m.part == chunk {
			n += m.skip(len(p) - n)
			continue
		}
		line := p[n:]
		end := bytes.IndexByte(line, '\n')
		if end >= 0 {
			line = line[:end+1]
		}
		if err := m.fits(len(line)); err != nil || end < 0 {
			return n, err
		}
		if err := m.line(line); err != nil {
			return n, err
		}
		n += len(line)
	}
	return n, nil
}

// skip passes over so many bytes of a body, or as many as belong to it.
func (m *message) skip(available int) int {
	n := min(m.left, int64(available))
	if m.left -= n; m.left == 0 {
		if m.part == body {
			m.part = over
		} else {
			m.expect(chunkEnd, len("\r\n"))
		}
	}
	return int(n)
}

// expect goes on to a part that has so much room.
func (m *message) expect(next part, room int) { m.part, m.room = next, room }

// fits reports an error if the part has no room for a line of n bytes.
func (m *message) fits(n int) error {
	switch {
	case n <= m.room:
		return nil
	case m.part == chunkSize || m.part == chunkEnd:
		return badChunk
	}
	return tooLarge
}

// line takes a line with its end.
func (m *message) line(line []byte) error {
	m.room -= len(line)
	line, ok := bytes.CutSuffix(line, []byte("\r\n"))
	if !ok {
		return bareLF
	}
	switch m.part {
	case requestLine:
		m.part = fields
		return m.head.request(line)
	case fields:
		if len(line) > 0 {
			return m.head.field(line)
		}
		return m.headEnded()
	case chunkSize:
		return m.chunkBegins(line)
	case trailers:
		if len(line) > 0 {
			return trailer(line)
		}
		m.part = over
		return nil
	}
	m.expect(chunkSize, chunkLine) // there was room for the end of a line only
	return nil
}

func (m *message) headEnded() error {
	if err := m.head.whole(); err != nil {
		return err
	}
	switch h := &m.head; {
	case h.chunked:
		m.expect(chunkSize, chunkLine)
	case h.length > 0:
		m.part, m.left = body, h.length
	default:
		m.part = over
	}
	return nil
}

// chunkLine is the longest line that says how long a chunk is.
const chunkLine = 16 + len("\r\n")

// chunkBegins reads a chunk's size: hexadecimal digits and nothing else. Extensions are
// refused because parsers disagree about where they end (CVE-2025-55315).
func (m *message) chunkBegins(line []byte) error {
	size, err := number(line, 16)
	if err != nil {
		return badChunk
	}
	if m.left = size; size == 0 {
		m.expect(trailers, m.maxHead)
	} else {
		m.part = chunk
	}
	return nil
}
