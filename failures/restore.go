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
	"slices"
)

// Loaded is what came of a Load.
type Loaded struct {
	Keys int // in the store
	// Sharing is how many of the saved keys share a count, since MaxBytes has less room
	// than they take: they find less room than they have, never more (R6).
	Sharing int
	// Needs is how many bytes would have been enough for all of them.
	Needs int64
	// Lost is how many changes the journals lack: damaged records, or a file that is
	// gone or cut. NoJournal says that one is gone, empty, or damaged where it says how
	// many changes it holds.
	Lost      uint64
	NoJournal bool
}

// Load adds what a snapshot and the journals beside it hold to an empty store. All of
// the snapshot is read first: from a damaged one nothing is taken, and the error is
// ErrBadSnapshot. What was saved under a bound loads under it, and what was saved under
// a larger one as far as there is room. Charges older than Retain are left out, and a
// snapshot from the future (the wall clock was set back meanwhile) counts as saved just
// now. Without a snapshot the error is fs.ErrNotExist, and the journals are loaded.
func (m *Memory) Load(path string) (l Loaded, err error) {
	r := restoring{Memory: m, owner: m.owner, now: m.clock(), whole: true}
	err = r.load(path)
	if err != nil {
		err = fmt.Errorf("failures: load %s: %w", path, err)
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if failed := r.replay(path); failed != nil {
			err = fmt.Errorf("failures: load %s: %w", path, failed)
		}
	}
	r.Keys, _ = m.Size()
	return r.Loaded, err
}

// Check is the error that Load would return for a snapshot, of a store with this owner, and
// what Load would find missing in the journals. It reads the files and changes nothing; they
// may be in use.
func Check(path string, owner Key) (l Loaded, err error) {
	for current := false; !current; {
		if l, current, err = checkOnce(path, owner); err != nil && current {
			return Loaded{}, fmt.Errorf("failures: load %s: %w", path, err)
		}
	}
	return l, nil
}

// checkOnce reports too whether the snapshot is still the one that was read: the journals that
// belong to it are deleted after it.
func checkOnce(path string, owner Key) (l Loaded, current bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return l, true, err
	}
	defer f.Close()
	r := restoring{owner: owner}
	if r.Needs, r.next, err = examine(f, owner); err == nil {
		err = r.replay(path)
	}
	opened, failed := f.Stat()
	now, gone := os.Stat(path)
	return r.Loaded, failed != nil || gone != nil || os.SameFile(opened, now), err
}

// A restoring is a store that is being loaded. Without a Memory it only reads journals.
type restoring struct {
	*Memory
	Loaded
	owner   Key
	now     int64
	ahead   uint32 // of now, by the snapshot
	whole   bool   // there is room for all that the snapshot holds
	part    int64  // else: of 1024, which part of the tables there is room for
	next    uint64 // of the journals' records, the number of the next one; 0: any
	replays bool   // the journals; the snapshot is loaded
	merging []uint32
}

func (r *restoring) load(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.Needs, r.next, err = examine(f, r.owner); err != nil {
		return err
	}
	// A quarter is left for keys that share.
	r.whole, r.part = r.Needs <= r.max, r.max*3/4*1024/max(r.Needs, 1)
	_, err = f.Seek(0, io.SeekStart)
	if err == nil {
		err = records(f, r.put)
	}
	return err
}

// A record is a part of a snapshot.
type record struct {
	shard   byte
	key     Key
	what    uint16 // 0: the header; its key is the time
	moments []byte
}

func (r *record) count() int  { return int(r.what & countMask) }
func (r *record) size() uint8 { return uint8(r.what >> countBits) }

// examine reads all of a snapshot: whether it is whole, whose it is, how many bytes its
// keys need, and the number of the first record that it lacks; 0 if it has no journal.
func examine(f *os.File, owner Key) (needs int64, next uint64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	sum := crc32.New(castagnoli)
	body := io.LimitReader(f, info.Size()-crc32.Size)
	other := false
	err = records(io.TeeReader(body, sum), func(r *record) error {
		switch {
		case r.what == markShard:
			needs += int64(binary.LittleEndian.Uint32(r.key[8:])) * slotBytes
			saved := binary.LittleEndian.Uint64(r.key[:])
			if r.key[12] != 0 && (next == 0 || saved+1 < next) {
				next = saved + 1
			}
		case r.what == markOwner:
			other = isOther(r.key, owner)
		case r.count() > inline:
			needs += int64(capacity(classFor(r.count()))) * wordsInBytes
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	var want [crc32.Size]byte
	if _, err := f.ReadAt(want[:], info.Size()-crc32.Size); err != nil {
		return 0, 0, err
	}
	if rest, _ := io.Copy(io.Discard, body); rest > 0 || binary.LittleEndian.Uint32(want[:]) != sum.Sum32() {
		return 0, 0, ErrBadSnapshot
	}
	if other {
		return 0, 0, ErrOtherOwner
	}
	return needs, next, nil
}

// records calls do with the header and then each record of a snapshot. What it is given
// is overwritten by the next one.
func records(from io.Reader, do func(*record) error) error {
	in := bufio.NewReaderSize(from, 1<<16)
	var intro [headerBytes]byte
	if _, err := io.ReadFull(in, intro[:]); err != nil || [8]byte(intro[:8]) != snapshotMagic {
		return ErrBadSnapshot
	}
	one := record{}
	copy(one.key[:], intro[len(snapshotMagic):])
	var head [recordBytes]byte
	var raw [countMask * wordsInBytes]byte
	for {
		if err := do(&one); err != nil {
			return err
		}
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return ErrBadSnapshot
		}
		one.shard, one.key, one.what = head[0], Key(head[1:]), binary.LittleEndian.Uint16(head[1+len(Key{}):])
		one.moments = raw[:0]
		switch {
		case one.what == 0:
			return nil
		case one.what == markShard, one.what == markOwner:
			continue
		}
		one.moments = raw[:one.count()*wordsInBytes]
		if _, err := io.ReadFull(in, one.moments); err != nil || len(one.moments) == 0 {
			return ErrBadSnapshot
		}
	}
}

// put puts one record back.
func (r *restoring) put(one *record) error {
	sh := &r.shards[one.shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	number := binary.LittleEndian.Uint64(one.key[:])
	switch one.what {
	case 0:
		r.ahead = uint32(max(0, int64(number)-r.now))
	case markShard:
		sh.saved = number
		r.journal.last = max(r.journal.last, number)
		r.begins(sh, one)
	case markOwner:
	default:
		r.restore(sh, one)
	}
	return nil
}

// begins makes a shard's table: as large as it was or, if there is less room now, a part
// of that.
func (r *restoring) begins(sh *shard, one *record) {
	slots := int64(binary.LittleEndian.Uint32(one.key[8:]))
	if slots == 0 { // none, or an older version did not say it
		return
	}
	if !r.whole {
		slots = max(firstSlots, slots*r.part/1024)
	}
	r.grant(slots * slotBytes)
	sh.resize(int(slots))
}

// restore puts one key back with those of its charges that still count.
func (r *restoring) restore(sh *shard, one *record) {
	r.merging = r.merging[:0]
	for raw := one.moments; len(raw) > 0; raw = raw[wordsInBytes:] {
		r.add(binary.LittleEndian.Uint32(raw) - r.ahead)
	}
	if len(r.merging) == 0 {
		return
	}
	if s := r.readmit(sh, &one.key, one.size()); s != nil {
		r.merge(sh, s)
	}
}

// add has merge add a moment, if it still counts. A moment is never in the future.
func (r *restoring) add(at uint32) {
	now := uint32(r.now)
	if at -= uint32(max(0, int32(at-now))); now-at <= r.retain.Load() {
		r.merging = append(r.merging, at)
	}
}

// readmit is the key's slot, or makes one: its own or, where the bound leaves no room,
// one that it shares. It is nil for a mark that finds no room: without it a backoff only
// lasts longer.
func (r *restoring) readmit(sh *shard, key *Key, size uint8) *slot {
	s := sh.find(key)
	switch {
	case s != nil:
		return s
	case keyIsShared(key):
		return r.share(sh, *key)
	case size == sizeUnknown:
		r.fit(sh)
		return sh.insert(key, size)
	case r.free(sh):
		return sh.insert(key, size)
	case size == sizeMark:
		return nil
	}
	r.Sharing++
	return r.share(sh, keyShared(key, size))
}

// free reports whether a shard has a slot for one more key of its own. A table that was
// saved has one for each that was in it.
func (r *restoring) free(sh *shard) bool {
	if r.replays {
		return r.room(sh, uint32(r.now))
	}
	return sh.used*100 < len(sh.slots)*fullPercent || r.whole && sh.used < len(sh.slots)-1
}

// share is the slot that keys share. There are few of them, and there is always room.
func (r *restoring) share(sh *shard, key Key) *slot {
	s := sh.find(&key)
	if s == nil {
		r.fit(sh)
		sh.shared++
		s = sh.insert(&key, key[9])
	}
	return s
}

// fit makes room for one more slot, whatever the bound says.
func (r *restoring) fit(sh *shard) {
	if sh.used < len(sh.slots)-1 {
		return
	}
	slots := max(firstSlots, len(sh.slots)*5/4)
	r.grant(int64(slots-len(sh.slots)) * slotBytes)
	sh.resize(slots)
}

// grant takes bytes, whatever the bound leaves: what was saved fitted once.
func (r *restoring) grant(bytes int64) bool {
	r.bytes.Add(bytes)
	return true
}

// merge adds the moments in r.merging to those of a slot. None of them is undecided:
// what was, when the process ended, has failed.
func (r *restoring) merge(sh *shard, s *slot) {
	if s.count() > 0 {
		r.merging = append(r.merging, sh.moments(s)...)
		now := uint32(r.now)
		slices.SortFunc(r.merging, func(a, b uint32) int { return int(now-b) - int(now-a) })
	}
	most := countMask
	if !r.whole && keyIsShared(&s.key) && s.size() != sizeUnknown {
		most = kept(s.size())
	}
	all := r.merging[max(0, len(r.merging)-most):]
	sh.changed = true
	class := classFor(len(all))
	if class != s.class() {
		if s.class() != 0 {
			sh.slab.give(s.class(), s.body[0])
		}
		if class != 0 {
			s.body[0], _ = sh.slab.take(class, r.grant)
		}
	}
	s.set(len(all), 0, class)
	copy(sh.moments(s), all)
}

// replay does again what the journals say that the snapshot lacks, and counts what they
// lack themselves.
func (r *restoring) replay(path string) error {
	r.replays = true
	names := journals(path)
	r.NoJournal = r.next > 0 && len(names) == 0
	for _, name := range names {
		r.lacks(firstOf(name))
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if kindOf(text) == rowHead && isOther(keyOf(text), r.owner) {
			return ErrOtherOwner
		}
		r.redoAll(text)
	}
	if r.next > 0 && r.Memory != nil {
		r.journal.last = max(r.journal.last, r.next-1)
	}
	return nil
}

// redoAll does again what the whole records of a journal say. Damaged ones are a gap in
// the numbers, or lie at its end.
func (r *restoring) redoAll(text []byte) {
	last, damaged := uint64(0), uint64(0) // since the last good one
	first := kindOf(text)
	if first == rowHead {
		last = numberOf(text)
	} else {
		r.NoJournal = true
	}
	if first == rowHead || first == 0 {
		text = text[min(rowBytes, len(text)):]
	}
	for ; len(text) >= rowBytes; text = text[rowBytes:] {
		row := text[:rowBytes]
		if kind := kindOf(row); kind < rowCharged || kind > rowMarked {
			damaged++
			continue
		}
		number := numberOf(row)
		r.lacks(number)
		damaged = 0
		if number < r.next {
			continue // an older file had it, or the snapshot
		}
		r.next = number + 1
		if r.Memory != nil {
			r.redo(row, number)
		}
	}
	r.Lost += damaged
	r.next += damaged
	r.lacks(last + 1)
}

// isOther reports whether a file's owner is another one. A zero owner is unknown.
func isOther(of, owner Key) bool { return owner != Key{} && of != owner && of != Key{} }

// keyOf is the key in the first record of some.
func keyOf(rows []byte) Key { return Key(rows[16:]) }

// kindOf is what the first record of some says that happened; 0 if it is damaged or cut.
func kindOf(rows []byte) uint8 {
	if len(rows) < rowBytes || binary.LittleEndian.Uint32(rows) != crc32.Checksum(rows[crc32.Size:rowBytes], castagnoli) {
		return 0
	}
	return rows[4]
}

// lacks counts the records that should have come before this one.
func (r *restoring) lacks(number uint64) {
	if r.next > 0 && number > r.next {
		r.Lost += number - r.next
	}
	r.next = max(r.next, number)
}

// redo does again what one record says.
func (r *restoring) redo(row []byte, number uint64) {
	sh, size, key, at := &r.shards[row[5]], row[6], keyOf(row), binary.LittleEndian.Uint32(row[16+len(Key{}):])
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r.merging = r.merging[:0]
	if r.add(at); number <= sh.saved || len(r.merging) == 0 {
		return
	}
	at = r.merging[0]
	switch row[4] {
	case rowMarked:
		r.mark(sh, &key, at)
	case rowCharged:
		r.charged(sh, &key, size, at)
	case rowTakenBack:
		s := sh.find(&key)
		if s == nil {
			shared := keyShared(&key, size)
			s = sh.find(&shared)
		}
		if s != nil {
			sh.pull(s, at)
		}
	case rowCleared:
		if s := sh.find(&key); s != nil {
			sh.changed = true
			sh.remove(s)
		}
	}
}

// charged adds the moment in r.merging to a key.
func (r *restoring) charged(sh *shard, key *Key, size uint8, at uint32) {
	s := r.readmit(sh, key, size)
	if s == nil {
		return
	}
	if s.count() > 0 && (int32(at-sh.newest(s)) < 0 || keyIsShared(&s.key)) {
		r.merge(sh, s)
		return
	}
	sh.push(s, at, MaxFailures, r.retain.Load(), r.grant)
	s.set(s.count(), 0, s.class()) // what was undecided has failed
}
