package replay

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/zstd"
)

// mostLine is the maximum length of a line in bytes; mostOpen is the maximum number of rows being sorted.
const mostLine, mostOpen = 1 << 20, 1 << 18

type file struct {
	source

	lines, others, bad int64
	year               int // assumed for the first line
	first              []BadLine
	posts              posts

	from   *bufio.Reader
	head   Attempt     // the next attempt
	open   *Heap[*row] // rows with attempts left
	spare  *row        // one to reuse
	newest time.Time
	ended  bool
}

// A source is a file's bytes and format.
type source struct {
	path   string
	size   int64 // size on disk
	read   atomic.Int64
	close  func()
	format *format
	parse  parser
}

type row struct {
	Attempt
	count int       // number of attempts; 0: the line is not an attempt
	last  time.Time // time of the last attempt, the others spread evenly; zero: all at once

	told int
	next time.Time
	line int64
}

// parser parses one line without its end.
type parser interface {
	parse(line []byte, into *row) error
}

func openFile(path string, c Config) (f *file, err error) {
	f = &file{source: source{path: path}, posts: posts{}, open: NewHeap(earlier)}
	disk := os.Stdin
	if path != "-" {
		if disk, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
	}
	f.close = func() { _ = disk.Close() }
	info, err := disk.Stat()
	if err == nil && info.IsDir() {
		err = errors.New("is a folder: give the files in it")
	}
	if err == nil {
		f.size = info.Size()
		err = f.start(disk, info.ModTime(), c)
	}
	if err != nil {
		f.close()
		return nil, fmt.Errorf("replay: %s: %w", path, err)
	}
	return f, nil
}

// start detects the compression and the format.
func (f *file) start(disk io.Reader, changed time.Time, c Config) error {
	raw := bufio.NewReaderSize(counting{disk, &f.read}, 1<<18)
	plain, err := decompress(raw)
	if err != nil {
		return err
	}
	f.from = bufio.NewReaderSize(plain, mostLine)
	beginning, err := f.from.Peek(1 << 16)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if f.format = formatOf(c.Format); f.format == nil {
		if f.format, err = detect(beginning); err != nil {
			return err
		}
	}
	f.parse, err = f.format.parser(f, changed, c)
	return err
}

func decompress(raw *bufio.Reader) (io.Reader, error) {
	magic, _ := raw.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		return gzip.NewReader(raw)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstd.NewReader(raw, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<27))
	}
	return raw, nil
}

type counting struct {
	from io.Reader
	n    *atomic.Int64
}

func (c counting) Read(into []byte) (int, error) {
	n, err := c.from.Read(into)
	c.n.Add(int64(n))
	return n, err
}

// line returns the next line without its end, valid until the next call; ok is false after the last line. A line that
// is too long is cut.
func (f *file) line() (text []byte, tooLong, ok bool, err error) {
	text, err = f.from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		tooLong = true
		text = bytes.Clone(text[:shownLength])
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = f.from.ReadSlice('\n')
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
		if len(text) == 0 {
			return nil, false, false, nil
		}
	}
	if err != nil {
		return nil, false, false, fmt.Errorf("replay: %s, after line %d: %w", f.path, f.lines, err)
	}
	f.lines++
	return bytes.TrimRight(text, "\r\n"), tooLong, true, nil
}

// next moves the file's next attempt into head.
func (f *file) next() (bool, error) {
	for !f.ended && (f.open.Len() == 0 ||
		f.newest.Sub((*f.open.First()).next) < f.format.slack && f.open.Len() < mostOpen) {
		if err := f.readRow(); err != nil {
			return false, err
		}
	}
	if f.open.Len() == 0 {
		return false, nil
	}
	first := *f.open.First()
	f.head = first.Attempt
	f.head.At = first.next
	if first.told++; first.told < first.count {
		first.next = first.At.Add(first.last.Sub(first.At) * time.Duration(first.told) / time.Duration(first.count-1))
		f.open.Fix()
	} else {
		f.spare = f.open.Pop()
	}
	return true, nil
}

// earlier orders the rows of a file by their next attempt.
func earlier(a, b **row) bool {
	return cmp.Or((*a).next.Compare((*b).next), cmp.Compare((*a).line, (*b).line)) < 0
}

// readRow parses one line, and keeps it if it contains attempts.
func (f *file) readRow() error {
	line, tooLong, ok, err := f.line()
	if f.ended = !ok; !ok || err != nil {
		return err
	}
	if f.spare == nil {
		f.spare = new(row)
	}
	r := f.spare
	*r = row{}
	err = errTooLong
	if !tooLong {
		err = f.parse.parse(line, r)
	}
	switch {
	case err != nil:
		f.complain(line, err)
	case r.count == 0:
		f.others++
	default:
		f.spare, r.next, r.line = nil, r.At, f.lines
		if r.last.Before(r.At) {
			r.last = r.At
		}
		if r.At.After(f.newest) {
			f.newest = r.At
		}
		f.open.Push(r)
	}
	return nil
}

var errTooLong = errors.New("longer than 1 MiB")

func (f *file) complain(line []byte, why error) {
	f.bad++
	if len(f.first) < mostShown {
		text := string(line[:min(len(line), shownLength)])
		f.first = append(f.first, BadLine{f.path, f.lines, text, why.Error()})
	}
}
