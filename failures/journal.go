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

// A journal holds what changed since the snapshot beside it, so that a process that
// is killed again and again forgets nothing (R7): a charge is written before the
// password is looked at. It is written with write(2), which the kernel keeps when the
// process dies; it is not synced, so the loss of power costs what it did before: the
// time since the last snapshot.
//
// It is a row of records. A process that is killed may leave the first bytes of a last
// one; any other damage is counted and reported, and the records after it are good. The
// first one is the head: the number of the last one, written after it, so that a journal
// that was cut is no torn one. The key in the head is the owner:
//
//	crc32 (Castagnoli) of the rest, what happened uint8, shard uint8, size of the ladder
//	uint8, zero byte, number uint64, key [16]byte, moment uint32   (little endian)
//
// Numbers ascend by one over all journals of a folder, so a gap is what is missing. A
// snapshot says up to which number each of its shards is, so a journal may be begun
// before the snapshot that makes the ones before it superfluous.
type journal struct {
	mu   sync.Mutex // taken under the lock of a shard, so that records keep its order
	rows []byte     // not yet written
	last uint64     // the newest record's number

	out   sync.Mutex // held while writing; taken before mu
	path  string     // of the snapshot
	owner Key
	file  *os.File
	size  int64 // of the file, up to the last whole write
	spare []byte
	// failed is why the last write failed. What was to be written waits in rows.
	failed atomic.Pointer[error]
}

// What happened.
const (
	rowCharged uint8 = 1 + iota
	rowTakenBack
	rowCleared
	rowMarked // see keyCleared
	rowHead
)

const rowBytes int = crc32.Size + 1 + 1 + 2 + 8 + len(Key{}) + 4

// Journal writes every change to a file beside the snapshot from now on, before the
// call that makes it returns. Call it after Load, and once. While that fails, Charge
// returns the error and charges nothing; what is taken back or cleared meanwhile is
// written as soon as that is possible.
func (m *Memory) Journal(path string) error {
	m.journal.out.Lock()
	defer m.journal.out.Unlock()
	m.journal.path, m.journal.owner = path, m.owner
	if err := m.journal.begin(m.journal.first()); err != nil {
		return fmt.Errorf("failures: journal: %w", err)
	}
	m.journaled = true
	return nil
}

// Unwritten is why the journal could not be written when that was last tried; nil if it
// could, and without a journal. It does not wait.
func (m *Memory) Unwritten() error {
	if failed := m.journal.failed.Load(); failed != nil {
		return *failed
	}
	return nil
}

// first is the number of the first record that is not yet written.
func (j *journal) first() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.rows) > 0 {
		return numberOf(j.rows)
	}
	return j.last + 1
}

// numberOf is the number of the first of some records.
func numberOf(rows []byte) uint64 { return binary.LittleEndian.Uint64(rows[8:]) }

// begin changes to a new file, whose first record will have this number. The caller
// holds j.out.
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

// writeHead notes the number of the newest record in a journal.
func (j *journal) writeHead(file *os.File, last uint64) error {
	_, err := file.WriteAt(appendRow(nil, rowHead, 0, 0, last, &j.owner, 0), 0)
	return err
}

// journalInfix is between the name of a snapshot and the number of a journal's first record.
const journalInfix = ".journal-"

// note adds a record if there is a journal. The caller holds the shard's lock.
func (m *Memory) note(what, shard, size uint8, key *Key, at uint32) {
	if m.journaled {
		m.journal.note(what, shard, size, key, at)
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

// written returns when everything that was noted is written, or why it is not. A call
// during the write of another one finds that done for it, mostly.
func (m *Memory) written() error {
	if !m.journaled {
		return nil
	}
	m.journal.out.Lock()
	defer m.journal.out.Unlock()
	return m.journal.flush()
}

// flush writes what was noted. What cannot be written waits for the next call. The caller
// holds j.out.
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

// write appends to the file, all or nothing.
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
	if failed := j.file.Truncate(j.size); failed != nil { // the file may end with a part of them
		_ = j.file.Close()
		j.file = nil
	}
	return fmt.Errorf("failures: journal: %w", err)
}

// turn begins a new journal for what the snapshot that is about to be written may
// lack. drop deletes those before it, once that snapshot is there.
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
		_ = j.flush() // the next charge says so
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

// journals are those beside a snapshot, oldest first.
func journals(path string) []string {
	names, _ := filepath.Glob(escaped(path) + journalInfix + "*")
	slices.Sort(names)
	return slices.DeleteFunc(names, func(name string) bool { return firstOf(name) == 0 })
}

// firstOf is the number of a journal's first record by the file's name; 0 for another file.
func firstOf(name string) uint64 {
	first, _ := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 10, 64)
	return first
}

// SetAside renames a snapshot and the journals beside it, so that no Load finds them.
func SetAside(path, to string) (err error) {
	for _, name := range append(journals(path), path) {
		if failed := os.Rename(name, to+strings.TrimPrefix(name, path)); !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// Copy copies a snapshot and its journals, which a running store may replace meanwhile, to a
// path that has none. The journals come first: a snapshot that is newer than them lacks
// nothing of theirs, while an older snapshot would miss those that it has outlived.
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

// escaped is a path in which Glob finds nothing to expand.
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
