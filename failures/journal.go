package failures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// A journal holds what changed since the snapshot beside it, so that a process that
// is killed again and again forgets nothing (R7): a charge is written before the
// password is looked at. It is written with write(2), which the kernel keeps when the
// process dies; it is not synced, so the loss of power costs what it did before: the
// time since the last snapshot.
//
// It is a row of records, and ends with the first that is cut or damaged:
//
//	crc32 (Castagnoli) of the rest, what happened uint8, shard uint8, 2 zero bytes,
//	number uint64, key [16]byte, moment uint32   (little endian)
//
// Numbers ascend over all journals of a folder. A snapshot says up to which number
// each of its shards is, so a journal may be begun before the snapshot that makes
// the ones before it superfluous.
type journal struct {
	mu    sync.Mutex // taken under the lock of a shard, so that records keep its order
	rows  []byte     // not yet written
	spare []byte
	last  uint64 // the newest record's number

	out    sync.Mutex // held while writing; taken before mu
	path   string     // of the snapshot
	file   *os.File
	failed error // the file has holes from then on; Save begins another
}

// What happened.
const (
	rowCharged uint8 = 1 + iota
	rowTakenBack
	rowCleared
	rowMarked // see keyCleared
)

const rowBytes = crc32.Size + 1 + 1 + 2 + 8 + len(Key{}) + 4

// Journal writes every change to a file beside the snapshot from now on, before the
// call that makes it returns. Call it after Load, and once. What could not be written
// is the error of the next Save.
func (m *Memory) Journal(path string) error {
	m.journal.out.Lock()
	defer m.journal.out.Unlock()
	m.journal.path = path
	if err := m.journal.begin(); err != nil {
		return fmt.Errorf("failures: journal: %w", err)
	}
	m.journaled = true
	return nil
}

// begin changes to a new file. The caller holds j.out.
func (j *journal) begin() error {
	j.mu.Lock()
	first := j.last + 1
	if len(j.rows) > 0 {
		first = binary.LittleEndian.Uint64(j.rows[8:])
	}
	j.mu.Unlock()
	file, err := os.OpenFile(fmt.Sprintf("%s.journal-%020d", j.path, first), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.failed = file, nil
	return nil
}

// note adds a record if there is a journal. The caller holds the shard's lock.
func (m *Memory) note(what, shard uint8, key *Key, at uint32) {
	if m.journaled {
		m.journal.note(what, shard, key, at)
	}
}

func (j *journal) note(what, shard uint8, key *Key, at uint32) {
	j.mu.Lock()
	j.last++
	n := len(j.rows)
	j.rows = append(j.rows, 0, 0, 0, 0, what, shard, 0, 0)
	j.rows = binary.LittleEndian.AppendUint64(j.rows, j.last)
	j.rows = append(j.rows, key[:]...)
	j.rows = binary.LittleEndian.AppendUint32(j.rows, at)
	row := j.rows[n:]
	binary.LittleEndian.PutUint32(row, crc32.Checksum(row[crc32.Size:], castagnoli))
	j.mu.Unlock()
}

// written returns when everything that was noted is written. Whoever comes while
// another one writes finds that done for it, mostly.
func (m *Memory) written() {
	if m.journaled {
		m.journal.write()
	}
}

func (j *journal) write() {
	j.out.Lock()
	j.flush()
	j.out.Unlock()
}

// flush writes what was noted. The caller holds j.out.
func (j *journal) flush() {
	j.mu.Lock()
	rows := j.rows
	j.rows = j.spare[:0]
	j.mu.Unlock()
	j.spare = rows
	if len(rows) == 0 || j.failed != nil {
		return
	}
	if _, err := j.file.Write(rows); err != nil {
		j.failed = err
	}
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
	j.flush()
	if err := j.begin(); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
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
	names, _ := filepath.Glob(escaped(path) + ".journal-*")
	slices.Sort(names)
	return names
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

// replay does again what the journals say that the snapshot lacks.
func (m *Memory) replay(path string) error {
	for _, name := range journals(path) {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for ; len(text) >= rowBytes; text = text[rowBytes:] {
			if err := m.redo(text[:rowBytes]); errors.Is(err, io.ErrUnexpectedEOF) {
				break
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// redo does again what one record says; io.ErrUnexpectedEOF if it is damaged.
func (m *Memory) redo(row []byte) error {
	what, number := row[4], binary.LittleEndian.Uint64(row[8:])
	if binary.LittleEndian.Uint32(row) != crc32.Checksum(row[crc32.Size:], castagnoli) || what < rowCharged || what > rowMarked {
		return io.ErrUnexpectedEOF
	}
	m.journal.last = max(m.journal.last, number)
	sh, key, now := &m.shards[row[5]], Key(row[16:]), uint32(m.clock())
	at := binary.LittleEndian.Uint32(row[16+len(Key{}):])
	at -= uint32(max(0, int32(at-now))) // the clock was set back meanwhile
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if number <= sh.saved || now-at > m.retain.Load() {
		return nil
	}
	s := sh.find(&key)
	switch {
	case what == rowMarked:
		m.mark(sh, &key, at)
	case what == rowCharged:
		if s == nil {
			s = m.readmit(sh, &key, now)
		}
		if s == nil || !sh.push(s, at, MaxFailures, m.retain.Load(), m.reserve) {
			return errors.New("the memory bound is too small for this journal")
		}
		s.set(s.count(), 0, s.class()) // what was undecided has failed
	case s == nil:
	case what == rowTakenBack:
		sh.pull(s, at)
	default:
		sh.changed = true
		sh.remove(s)
	}
	return nil
}
