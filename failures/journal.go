package failures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A journal holds the changes since its snapshot, so that a repeatedly killed process loses no charge (R7). Each charge
// is written before the password check. After write(2) returns, the kernel keeps the data even if the process dies.
// There is no fsync, so a power failure loses the changes since the last snapshot.
//
// A killed process may leave a partial last record. Any other damage is counted and reported, and later records are
// used. The first record is the head: the number of the last record, written after it, to detect a truncated journal.
// The key in the head is the owner:
//
//	crc32 (Castagnoli) of the rest, kind uint8, shard uint8, size of the limits
//	uint8, zero byte, number uint64, key [16]byte, moment uint32   (little endian)
//
// Numbers increase by one over all journals of a directory, so a gap shows the missing records. A snapshot contains
// the last number of each shard. A new journal can therefore start before the snapshot that makes the older ones
// obsolete.
type journal struct {
	mu   sync.Mutex // taken under the lock of a shard, so that records keep its order
	rows []byte     // not written yet
	last uint64     // the newest record's number

	out   sync.Mutex // held while writing; locked before mu
	path  string     // of the snapshot
	owner Key
	now   func() int64 // in Unix milliseconds, as in the rows
	file  *os.File
	size  int64 // of the file, up to the last complete write
	spare []byte
	// failed is the error of the last write. rows keeps what it did not write.
	failed atomic.Pointer[error]
}

// Kinds of records.
const (
	rowCharged uint8 = 1 + iota
	rowTakenBack
	rowCleared
	rowMarked // see keyCleared
	rowHead
)

const rowBytes int = crc32.Size + 1 + 1 + 2 + 8 + len(Key{}) + 4

// Journal writes every change to a file next to the snapshot before the call that makes it returns. Call it once,
// after Load. While writing fails, Charge returns the error and charges nothing. Other changes are written as soon as
// possible.
func (m *Memory) Journal(path string) error {
	m.journal.out.Lock()
	defer m.journal.out.Unlock()
	m.journal.path, m.journal.owner, m.journal.now = path, m.owner, m.fileTime
	if err := m.journal.begin(m.journal.first()); err != nil {
		return fmt.Errorf("failures: journal: %w", err)
	}
	m.journaled = true
	return nil
}

// Unwritten returns the error of the journal's last write; nil if it succeeded, or without a journal. It does not
// block.
func (m *Memory) Unwritten() error {
	if failed := m.journal.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

func (j *journal) first() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.rows) > 0 {
		return numberOf(j.rows)
	}
	return j.last + 1
}

func numberOf(rows []byte) uint64 { return binary.LittleEndian.Uint64(rows[8:]) }

// begin switches to a new file, whose first record has this number. The caller holds j.out.
func (j *journal) begin(first uint64) error {
	name := fmt.Sprintf("%s%s%020d", j.path, journalInfix, first)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = j.writeHead(file, first-1); err != nil {
		return errors.Join(err, file.Close(), os.Remove(name))
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size = file, int64(rowBytes)
	return nil
}

// writeHead writes the number of the newest record and the time to a journal.
func (j *journal) writeHead(file *os.File, last uint64) error {
	now := j.now()
	_, err := file.WriteAt(appendRow(nil, rowHead, uint8(now>>40), uint8(now>>32), last, &j.owner, uint32(now)), 0)
	return err
}

// writtenAt returns when a journal was last written, in Unix milliseconds; 0 if its head is of an older version.
func writtenAt(head []byte) int64 {
	return int64(head[5])<<40 | int64(head[6])<<32 | int64(binary.LittleEndian.Uint32(head[16+len(Key{}):]))
}

const journalInfix = ".journal-"

// note adds a record if there is a journal. The caller holds the shard's lock.
func (m *Memory) note(what, shard, size uint8, key *Key, at uint32) {
	if m.journaled {
		m.journal.note(what, shard, size, key, at+uint32(m.drift.Load()))
	}
}

func (j *journal) note(what, shard, size uint8, key *Key, at uint32) {
	j.mu.Lock()
	j.last++
	j.rows = appendRow(j.rows, what, shard, size, j.last, key, at)
	j.mu.Unlock()
}

func appendRow(rows []byte, what, shard, size uint8, number uint64, key *Key, at uint32) []byte {
	n := len(rows)
	rows = append(rows, 0, 0, 0, 0, what, shard, size, 0)
	rows = binary.LittleEndian.AppendUint64(rows, number)
	rows = append(rows, key[:]...)
	rows = binary.LittleEndian.AppendUint32(rows, at)
	binary.LittleEndian.PutUint32(rows[n:], crc32.Checksum(rows[n+crc32.Size:], castagnoli))
	return rows
}

// written returns after all records are written, or with the error. Concurrent calls usually share one write.
func (m *Memory) written() error {
	if !m.journaled {
		return nil
	}
	m.journal.out.Lock()
	defer m.journal.out.Unlock()
	return m.journal.flush()
}

// flush writes the pending records, and keeps them if that fails. The caller holds j.out.
func (j *journal) flush() error {
	j.mu.Lock()
	rows := j.rows
	j.rows = j.spare[:0]
	j.mu.Unlock()
	j.spare = rows
	if len(rows) == 0 {
		return nil
	}
	err := j.write(rows)
	if err == nil {
		j.failed.Store(nil)
		return nil
	}
	j.mu.Lock()
	j.rows, j.spare = append(rows, j.rows...), nil
	j.mu.Unlock()
	j.failed.Store(&err)
	return err
}

// write appends all rows to the file, or none.
func (j *journal) write(rows []byte) (err error) {
	if j.file == nil {
		if err = j.begin(numberOf(rows)); err != nil {
			return err
		}
	}
	if _, err = j.file.WriteAt(rows, j.size); err == nil {
		err = j.writeHead(j.file, numberOf(rows[len(rows)-rowBytes:]))
	}
	if err == nil {
		j.size += int64(len(rows))
		return nil
	}
	if failed := j.file.Truncate(j.size); failed != nil { // the file may end with a partial record
		_ = j.file.Close()
		j.file = nil
	}
	return fmt.Errorf("failures: journal: %w", err)
}

// turn starts a new journal for changes that the next snapshot may lack. Call drop after the snapshot is on the disk:
// it deletes the older journals.
func (m *Memory) turn() (drop func(), err error) {
	if !m.journaled {
		return func() {}, nil
	}
	j := &m.journal
	j.out.Lock()
	defer j.out.Unlock()
	failed := j.flush()
	if err := j.begin(j.first()); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if failed != nil {
		_ = j.flush() // the next charge reports the error
	}
	current := j.file.Name()
	return func() {
		for _, name := range journals(j.path) {
			if name < current {
				_ = os.Remove(name)
			}
		}
	}, nil
}

func journals(path string) []string {
	names, _ := filepath.Glob(escaped(path) + journalInfix + "*")
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return firstOf(name) == 0 })
}

// firstOf returns the number of a journal's first record from its file name; 0 for other files.
func firstOf(name string) uint64 {
	first, _ := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	return first
}

// SetAside renames a snapshot and its journals, so that Load no longer finds them.
func SetAside(path, to string) (err error) {
	for _, name := range append(journals(path), path) {
		if failed := os.Rename(name, to+strings.TrimPrefix(name, path)); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Copy copies a snapshot and its journals to an unused path. A running store may replace them meanwhile. Copy reads
// the journals first: a newer snapshot includes all their records, while an older one would lack those of deleted
// journals.
func Copy(path, to string) error {
	for _, name := range journals(path) {
		if err := copyFile(name, to+strings.TrimPrefix(name, path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return copyFile(path, to)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("failures: copy: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("failures: copy: %w", err)
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("failures: copy: %w", err)
	}
	return nil
}

// escaped quotes a path for Glob.
func escaped(path string) string {
	var b []byte
	for i := range len(path) {
		switch path[i] {
		case '*', '?', '[', '\\':
			b = append(b, '\\')
		}
		b = append(b, path[i])
	}
	return string(b)
}
