package failures

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A snapshot is a header, then every key with its moments, then a checksum:
//
//	"AGFAIL01", saved at int64 (Unix milliseconds)
//	shard uint8, key [16]byte, count uint16, count × moment uint32   (little endian)
//	…
//	shard uint8, number uint64, 8 zero bytes, 0xffff   (after a shard: its newest record in a journal)
//	0, owner [16]byte, 0xfffe
//	19 zero bytes, crc32 (Castagnoli) of all before
//
// Whether a charge is decided is not kept: what was undecided when the process
// ended has failed.

var (
	// ErrBadSnapshot means that a file is no snapshot, or a damaged one.
	ErrBadSnapshot = errors.New("failures: not a whole snapshot")
	// ErrOtherOwner means that a snapshot was counted under another key: none of its
	// counts would ever be found.
	ErrOtherOwner = errors.New("failures: counted under another key")

	snapshotMagic = [8]byte([]byte("AGFAIL01"))
	castagnoli    = crc32.MakeTable(crc32.Castagnoli)
)

const (
	headerBytes = len(snapshotMagic) + 8
	recordBytes = 1 + len(Key{}) + 2 // before the moments

	// Instead of a count.
	markNumber = 0xffff
	markOwner  = 0xfffe
)

// Changed reports whether anything was charged or taken back since the last
// successful Save.
func (m *Memory) Changed() bool {
	for i := range m.shards {
		sh := &m.shards[i]
		sh.mu.Lock()
		changed := sh.changed
		sh.mu.Unlock()
		if changed {
			return true
		}
	}
	return false
}

// Save writes a snapshot to a file, whole or not at all: the file is replaced
// when the new one is on the disk. Counting goes on meanwhile; each shard is
// saved as of a moment of its own. A journal begins anew.
func (m *Memory) Save(path string) (err error) {
	drop, err := m.turn()
	if err != nil {
		return fmt.Errorf("failures: save: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("failures: save: %w", err)
	}
	defer func() {
		if err != nil {
			m.markChanged()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("failures: save: %w", err)
		}
	}()
	err = errors.Join(m.write(f), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err = os.Rename(f.Name(), path); err == nil {
		drop()
	}
	return err
}

func (m *Memory) markChanged() {
	sh := &m.shards[0]
	sh.mu.Lock()
	sh.changed = true
	sh.mu.Unlock()
}

func (m *Memory) write(to io.Writer) error {
	sum := crc32.New(castagnoli)
	w := bufio.NewWriterSize(io.MultiWriter(to, sum), 1<<16)
	_, err := w.Write(binary.LittleEndian.AppendUint64(snapshotMagic[:], uint64(m.clock())))
	var buffer []byte
	for i := range m.shards {
		buffer = m.encode(byte(i), buffer[:0])
		_, e := w.Write(buffer)
		err = errors.Join(err, e)
	}
	buffer = mark(buffer[:0], 0, m.owner, markOwner)
	_, e := w.Write(append(buffer, make([]byte, recordBytes)...))
	if err = errors.Join(err, e, w.Flush()); err != nil {
		return err
	}
	return binary.Write(to, binary.LittleEndian, sum.Sum32())
}

func mark(to []byte, shard byte, key Key, what uint16) []byte {
	return binary.LittleEndian.AppendUint16(append(append(to, shard), key[:]...), what)
}

// encode appends a shard's keys and notes that they are saved.
func (m *Memory) encode(number byte, to []byte) []byte {
	sh := &m.shards[number]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.changed = false
	for i := range sh.slots {
		s := &sh.slots[i]
		if s.count() == 0 {
			continue
		}
		to = append(append(to, number), s.key[:]...)
		to = binary.LittleEndian.AppendUint16(to, uint16(s.count()))
		for _, at := range sh.moments(s) {
			to = binary.LittleEndian.AppendUint32(to, at)
		}
	}
	m.journal.mu.Lock()
	defer m.journal.mu.Unlock()
	if m.journal.last == 0 {
		return to
	}
	var last Key
	binary.LittleEndian.PutUint64(last[:], m.journal.last)
	return mark(to, number, last, markNumber)
}

// Load adds what a snapshot and the journals beside it hold to an empty store and
// reports how many keys that was. The checksum is read first: from a damaged file nothing is taken,
// and the error is ErrBadSnapshot. Charges older than Retain are left out, and
// a snapshot from the future (the wall clock was set back meanwhile) counts as
// saved just now.
func (m *Memory) Load(path string) (keys int, err error) {
	keys, err = m.load(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return keys, err
	}
	if failed := m.replay(path); failed != nil {
		return keys, fmt.Errorf("failures: load %s: %w", path, failed)
	}
	keys, _ = m.Size()
	return keys, err
}

func (m *Memory) load(path string) (keys int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("failures: load: %w", err)
	}
	defer f.Close()
	if err := errors.Join(verify(f), m.owned(f)); err != nil {
		return 0, fmt.Errorf("failures: load %s: %w", path, err)
	}
	keys, err = m.read(bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), 1<<16))
	if err != nil {
		return keys, fmt.Errorf("failures: load %s: %w", path, err)
	}
	return keys, nil
}

// verify reads all of a snapshot for its checksum.
func verify(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	body := info.Size() - crc32.Size
	var magic [len(snapshotMagic)]byte
	if _, err := f.ReadAt(magic[:], 0); err != nil || magic != snapshotMagic || body < 0 {
		return ErrBadSnapshot
	}
	sum := crc32.New(castagnoli)
	if _, err := io.Copy(sum, io.NewSectionReader(f, 0, body)); err != nil {
		return err
	}
	var want [crc32.Size]byte
	if _, err := f.ReadAt(want[:], body); err != nil {
		return err
	}
	if binary.LittleEndian.Uint32(want[:]) != sum.Sum32() {
		return ErrBadSnapshot
	}
	return nil
}

// owned is ErrOtherOwner for a snapshot that names somebody else, as its last record.
func (m *Memory) owned(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	var last [recordBytes]byte
	if _, err := f.ReadAt(last[:], info.Size()-crc32.Size-2*int64(recordBytes)); err != nil {
		return nil // an empty one, of an older version
	}
	named := binary.LittleEndian.Uint16(last[1+len(Key{}):]) == markOwner
	if named && m.owner != (Key{}) && Key(last[1:]) != m.owner && Key(last[1:]) != (Key{}) {
		return ErrOtherOwner
	}
	return nil
}

func (m *Memory) read(r io.Reader) (keys int, err error) {
	var intro [headerBytes]byte
	if _, err := io.ReadFull(r, intro[:]); err != nil {
		return 0, ErrBadSnapshot
	}
	now := m.clock()
	ahead := uint32(max(0, int64(binary.LittleEndian.Uint64(intro[len(snapshotMagic):]))-now))
	var head [recordBytes]byte
	var raw [countMask * wordsInBytes]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return keys, ErrBadSnapshot
		}
		count := int(binary.LittleEndian.Uint16(head[1+len(Key{}):]))
		switch key := Key(head[1:]); {
		case count == 0:
			return keys, nil
		case count == markNumber:
			m.shards[head[0]].saved = binary.LittleEndian.Uint64(key[:])
			m.journal.last = max(m.journal.last, m.shards[head[0]].saved)
			continue
		case count == markOwner:
			continue // checked before
		case count > countMask:
			return keys, ErrBadSnapshot
		}
		if _, err := io.ReadFull(r, raw[:count*wordsInBytes]); err != nil {
			return keys, ErrBadSnapshot
		}
		restored, err := m.restore(int(head[0]), Key(head[1:]), raw[:count*wordsInBytes], uint32(now), ahead)
		if err != nil {
			return keys, err
		}
		if restored {
			keys++
		}
	}
}

// restore puts one key back. It reports false if none of its charges counts
// any more.
func (m *Memory) restore(shard int, key Key, raw []byte, now, ahead uint32) (bool, error) {
	sh := &m.shards[shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	var s *slot
	for ; len(raw) > 0; raw = raw[wordsInBytes:] {
		at := binary.LittleEndian.Uint32(raw) - ahead
		if now-at > m.retain.Load() {
			continue
		}
		if s == nil {
			s = m.readmit(sh, &key, now)
		}
		if s == nil || !sh.push(s, at, MaxFailures, m.retain.Load(), m.reserve) {
			return false, errors.New("the memory bound is too small for this snapshot")
		}
	}
	if s == nil {
		return false, nil
	}
	s.set(s.count(), 0, s.class())
	return true, nil
}

// readmit makes a slot for a key of a snapshot.
func (m *Memory) readmit(sh *shard, key *Key, now uint32) *slot {
	if s := sh.find(key); s != nil {
		return s
	}
	if !m.room(sh, now) {
		return nil
	}
	if keyIsShared(key) {
		sh.shared++
	}
	return sh.insert(key)
}
