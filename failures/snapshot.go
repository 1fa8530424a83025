package failures

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// A snapshot is a header, then the shards with their keys and moments, then a checksum:
//
//	"AGFAIL01", saved at int64 (Unix milliseconds)
//	shard uint8, number uint64, slots uint32, journaled uint8, 3 zero bytes, 0xffff   (begins a shard)
//	shard uint8, key [16]byte, count and size uint16, count × moment uint32   (little endian)
//	…
//	0, owner [16]byte, 0xfffe
//	19 zero bytes, crc32 (Castagnoli) of all before
//
// number is that of the shard's newest journal record. The highest four bits of the count are the size of the key's
// limits (see sizeOf). slots is the size of the shard's table. Loading uses the same size: in smaller or larger
// tables, keys saved at the bound would exceed it.
//
// Undecided charges are not marked: after the process ends, they count as failures.

var (
	// ErrBadSnapshot means that a file is not a snapshot, or is damaged.
	ErrBadSnapshot = errors.New("failures: not a whole snapshot")
	// ErrOtherOwner means that a snapshot or journal was created with another secret, so none of its keys would ever
	// match.
	ErrOtherOwner = errors.New("failures: counted under another key")

	snapshotMagic = [8]byte([]byte("AGFAIL01"))
	castagnoli    = crc32.MakeTable(crc32.Castagnoli)
)

const (
	headerBytes = len(snapshotMagic) + 8
	recordBytes = 1 + len(Key{}) + 2 // before the charges

	// These values replace a count.
	markShard = 0xffff
	markOwner = 0xfffe
)

// Changed reports whether there were changes since the last successful Save, or the wall clock was set forward.
func (m *Memory) Changed() bool {
	if m.driftNow()-m.drift.Load() >= 1000 {
		return true
	}
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

// Save writes a snapshot and replaces the file atomically once the new one is on the disk. Counting continues
// meanwhile, so each shard is saved at a different moment. Save also starts a new journal.
func (m *Memory) Save(path string) (err error) {
	m.drift.Store(m.driftNow())
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
	_, err := w.Write(binary.LittleEndian.AppendUint64(snapshotMagic[:], uint64(m.fileTime())))
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

// encode appends a shard's keys, and resets its changed flag.
func (m *Memory) encode(number byte, to []byte) []byte {
	sh := &m.shards[number]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.changed = false
	var begins Key
	m.journal.mu.Lock()
	binary.LittleEndian.PutUint64(begins[:], m.journal.last)
	m.journal.mu.Unlock()
	binary.LittleEndian.PutUint32(begins[8:], uint32(len(sh.slots)))
	if m.journaled {
		begins[12] = 1
	}
	to = mark(to, number, begins, markShard)
	for i := range sh.slots {
		s := &sh.slots[i]
		if s.count() == 0 {
			continue
		}
		to = mark(to, number, s.key, uint16(s.count())|uint16(s.size())<<countBits)
		for _, at := range sh.moments(s) {
			to = binary.LittleEndian.AppendUint32(to, at+uint32(m.drift.Load()))
		}
	}
	return to
}
