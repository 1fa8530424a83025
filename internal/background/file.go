package background

import (
	"os"
	"time"
)

// A Stamp is the state of a file, without its content.
type Stamp struct {
	Changed time.Time
	size    int64
	missing bool
}

// StampOf returns the state of a file now: one stat(2).
func StampOf(path string) Stamp {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{missing: true}
	}
	return Stamp{Changed: info.ModTime(), size: info.Size()}
}

// A File notices when a file changes. The zero File has read nothing.
type File struct {
	Read Stamp // at the last read, successful or not; set it before the read
	seen Stamp // by Changed
}

// Changed reports whether the file has changed since Read, but not since the last call: it may still be being written.
func (f *File) Changed(now Stamp) bool {
	still := now == f.seen
	f.seen = now
	return still && now != f.Read
}
