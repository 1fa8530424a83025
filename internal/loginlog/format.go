package loginlog

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
)

// A format is one kind of log.
type format struct {
	name string
	// parser returns what reads its lines. changed is when the file was last written.
	parser func(f *file, changed time.Time, c Config) (parser, error)
	// like reports whether a line looks like one.
	like func(line []byte) bool
	// slack is how much later than its own time a line may stand.
	slack time.Duration
	// header formats name their columns in the first line.
	header bool
}

// formats are asked in this order which of them a file looks like.
func formats() []*format {
	return []*format{
		{"access", newAccess, likeAccess, 0, false},
		{"sshd", newSSHD, likeSyslog, 0, false},
		{"audit", newAuditJSON, likeAuditJSON, auditSlack, false},
		{"json", newJSON, likeJSON, 0, false},
		{"audit-csv", newAuditCSV, likeAuditCSV, auditSlack, true},
		{"csv", newCSV, likeCSV, 0, true},
	}
}

// auditSlack is how late the audit log writes a row: sums are of a minute.
const auditSlack = 2 * time.Minute

// Formats are the names of what can be read.
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

// detect finds the format that most of the first lines look like.
func detect(beginning []byte) (*format, error) {
	lines := bytes.Split(beginning, []byte("\n"))
	if len(lines) > 1 {
		lines = lines[:len(lines)-1] // which may be cut
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
			n = len(lines) // it is in the first line alone
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
