package replay

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

type format struct {
	name string
	// parser returns a parser for the file; changed is the file's modification time.
	parser func(f *file, changed time.Time, c Config) (parser, error)
	// like reports whether a line looks like this format.
	like func(line []byte) bool
	// slack is how much later than its own time a line may appear.
	slack time.Duration
	// header formats name their columns in the first line.
	header bool
}

// formats lists the formats in the order of detection.
func formats() []*format {
	json := func(audit bool) func(*file, time.Time, Config) (parser, error) {
		return func(_ *file, _ time.Time, c Config) (parser, error) { return newJSON(c, audit), nil }
	}
	csv := func(audit bool) func(*file, time.Time, Config) (parser, error) {
		return func(f *file, _ time.Time, c Config) (parser, error) { return newCSV(f, c, audit) }
	}
	return []*format{
		{"access", newAccess, likeAccess, 0, false},
		{"sshd", newSSHD, likeSyslog, 0, false},
		{"audit", json(true), likeAuditJSON, auditSlack, false},
		{"json", json(false), likeJSON, 0, false},
		{"audit-csv", csv(true), likeAuditCSV, auditSlack, true},
		{"csv", csv(false), likeCSV, 0, true},
	}
}

// auditSlack is the maximum delay of an audit log row: a row aggregates a minute.
const auditSlack = 2 * time.Minute

// Formats returns the names of the supported formats.
func Formats() (names []string) {
	for _, f := range formats() {
		names = append(names, f.name)
	}
	return names
}

func formatOf(name string) *format {
	for _, f := range formats() {
		if f.name == name {
			return f
		}
	}
	return nil
}

func detect(beginning []byte) (*format, error) {
	lines := bytes.Split(beginning, []byte("\n"))
	if len(lines) > 1 {
		lines = lines[:len(lines)-1] // may be truncated
	}
	if len(bytes.TrimSpace(beginning)) == 0 {
		return nil, errors.New("is empty")
	}
	var best *format
	most := 0
	for _, f := range formats() {
		n := 0
		for _, line := range lines[:min(len(lines), 100)] {
			if f.like(bytes.TrimRight(line, "\r")) {
				n++
			}
		}
		if f.header && f.like(bytes.TrimRight(lines[0], "\r")) {
			n = len(lines) // only the first line shows the format
		}
		if n > most {
			best, most = f, n
		}
	}
	if best == nil {
		return nil, fmt.Errorf("unknown format: set it with --format %s", strings.Join(Formats(), "|"))
	}
	return best, nil
}
