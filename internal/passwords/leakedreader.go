package passwords

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// maxLine is the maximum length of a line, in bytes. No password is as long.
const maxLine = 4096

// A layout is how the lines of a file look.
type layout struct {
	kind   LeakedHash
	plain  bool   // passwords
	prefix string // in front of each hash: the file's name
}

// layoutOf recognizes a file by its name and first line. Have I Been Pwned's downloader writes HASH:COUNT, or to a file
// for each five digits the rest of the hash.
func layoutOf(name, first string) layout {
	hash, _, _ := strings.Cut(first, ":")
	prefix := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	for _, kind := range [...]LeakedHash{SHA1, NTLM} {
		switch {
		case !digits(hash):
		case len(hash) == kind.digits():
			return layout{kind: kind}
		case len(prefix) == 5 && digits(prefix) && len(hash) == kind.digits()-len(prefix):
			return layout{kind: kind, prefix: prefix}
		}
	}
	return layout{kind: SHA1, plain: true}
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789abcdefABCDEF") == ""
}

// readFile adds the passwords of a file. An error names file and line, but not the line's text: it may be a password.
func (b *ListBuild) readFile(ctx context.Context, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(bufio.NewReaderSize(file, 1<<18))
	lines.Buffer(nil, maxLine)
	var of layout
	number, unread := 0, 0
	for lines.Scan() {
		line := lines.Bytes()
		number++
		if unread += len(line) + 1; unread >= 1<<20 {
			b.read.Add(int64(unread))
			if unread = 0; ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if number == 1 {
			line = bytes.TrimPrefix(line, []byte("\xEF\xBB\xBF"))
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			continue
		}
		if of.kind == 0 {
			if of = layoutOf(path, string(line)); b.kind == 0 {
				b.kind = of.kind
			}
			if err := b.accepts(of); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
		if err := b.readLine(of, line); err != nil {
			return fmt.Errorf("%s:%d: %w", path, number, err)
		}
	}
	b.read.Add(int64(unread))
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return fmt.Errorf("%s:%d: the line is longer than %d bytes", path, number+1, maxLine)
	case err != nil:
		return fmt.Errorf("%s:%d: %w", path, number+1, err)
	}
	return nil
}

func (b *ListBuild) accepts(of layout) error {
	switch {
	case of.plain && b.MinCount > 1:
		return errors.New("--min-count needs counts, and this file is a list of passwords")
	case of.kind != b.kind:
		return fmt.Errorf("it has %v hashes, and the files before have %v: build a list of one kind", of.kind, b.kind)
	}
	return nil
}

func (b *ListBuild) readLine(of layout, line []byte) error {
	if of.plain {
		return b.add(of.kind.key(string(line)))
	}
	hash, count, counted := bytes.Cut(line, []byte(":"))
	times := 1
	if counted {
		n, err := strconv.ParseUint(string(bytes.TrimSpace(count)), 10, 62)
		if err != nil {
			return fmt.Errorf("the count after the colon must be a whole number")
		}
		times = int(n)
	}
	wanted := of.kind.digits() - len(of.prefix)
	switch {
	case len(hash) != wanted || !digits(string(hash)):
		return fmt.Errorf("must be %d hexadecimal digits and :COUNT, like the file's first line", wanted)
	case !counted && b.MinCount > 1:
		return errors.New("--min-count needs a count after each hash, such as :3")
	case times < b.MinCount: // Have I Been Pwned pads answers with a count of 0
		return nil
	}
	key, _ := strconv.ParseUint((of.prefix + string(hash[:16]))[:16], 16, 64)
	return b.add(key)
}
