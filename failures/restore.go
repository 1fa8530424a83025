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

// Loaded is the result of Load.
type Loaded struct {
	Keys int // in the store
	// Sharing is the number of saved keys that share a counter, because MaxBytes leaves no room for their own (R6).
	Sharing int
	// Needs is how many bytes all keys need.
	Needs int64
	// Lost is the number of changes missing from the journals: damaged records, or a missing or truncated file.
	// NoJournal means that a journal is missing, empty, or has a damaged head.
	Lost      uint64
	NoJournal bool
}

// Load adds a snapshot and its journals to an empty store. It validates the whole snapshot first, loads nothing from
// a damaged one, and returns ErrBadSnapshot. If MaxBytes is smaller than before, some keys share counters. Load omits
// charges older than Retain. If the wall clock was set back, a snapshot from the future counts as saved now. Without
// a snapshot, Load loads the journals and returns fs.ErrNotExist.
func (m *Memory) Load(path string) (l Loaded, err error) {
	r := restoring{Memory: m, owner: m.owner, now: m.clock(), whole: true}
	r.saved = r.now // if neither the snapshot nor the head of a journal says
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

// Check returns the error that Load would return for a store with this owner, and what the journals lack. It only
// reads the files, which may be in use.
func Check(path string, owner Key) (l Loaded, err error) {
	for current := false; !current; {
		if l, current, err = checkOnce(path, owner); err != nil && current {
			return Loaded{}, fmt.Errorf("failures: load %s: %w", path, err)
		}
	}
	return l, nil
}

// checkOnce also reports whether the file is still the same snapshot. If it was replaced, its journals may have been
// deleted meanwhile.
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

// A restoring is a store that is being loaded. Without a Memory, it only checks the journals.
type restoring struct {
	*Memory
	Loaded
	owner   Key
	now     int64
	saved   int64  // when the snapshot was, or else the journal, in Unix milliseconds
	ahead   int64  // of now, according to the snapshot
	whole   bool   // the whole snapshot fits in MaxBytes
	part    int64  // if not: the fraction of the tables that fits, in 1/1024
	next    uint64 // number of the next journal record; 0: any
	replays bool   // the snapshot is loaded, and the journals follow
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
	// A quarter is reserved for shared keys.
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

// examine validates a snapshot and its owner. It returns how many bytes the keys need, and the number of the first
// record that the snapshot lacks; 0 if there was no journal.
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

// records calls do with the header and then each record of a snapshot. The record is reused.
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

func (r *restoring) put(one *record) error {
	sh := &r.shards[one.shard]
	sh.mu.Lock()
	defer sh.mu.Unlock()
	number := binary.LittleEndian.Uint64(one.key[:])
	switch one.what {
	case 0:
		r.saved, r.ahead = int64(number), max(0, int64(number)-r.now)
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

// begins allocates a shard's table in its saved size, or a fraction if there is less room now.
func (r *restoring) begins(sh *shard, one *record) {
	slots := int64(binary.LittleEndian.Uint32(one.key[8:]))
	if slots == 0 { // an empty table, or a snapshot of an older version
		return
	}
	if !r.whole {
		slots = max(firstSlots, slots*r.part/1024)
	}
	r.grant(slots * slotBytes)
	sh.resize(int(slots))
}

func (r *restoring) restore(sh *shard, one *record) {
	r.merging = r.merging[:0]
	for raw := one.moments; len(raw) > 0; raw = raw[wordsInBytes:] {
		r.add(r.moment(binary.LittleEndian.Uint32(raw)) - r.ahead)
	}
	if len(r.merging) == 0 {
		return
	}
	if s := r.readmit(sh, &one.key, one.size()); s != nil {
		r.merge(sh, s)
	}
}

// moment returns a saved time in Unix milliseconds. It is within MaxWindow of r.saved.
func (r *restoring) moment(at uint32) int64 { return r.saved - int64(int32(uint32(r.saved)-at)) }

// add adds a charge to r.merging if it still counts. A charge in the future is set to now.
func (r *restoring) add(moment int64) {
	if age := max(0, r.now-moment); age <= int64(r.retain.Load()) {
		r.merging = append(r.merging, uint32(r.now-age))
	}
}

// readmit returns the key's slot or creates it: its own, or a shared one at the bound. It returns nil for a mark
// without room; the backoff then only lasts longer.
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

// free reports whether a shard has a slot for one more key. A saved table has a slot for each of its keys.
func (r *restoring) free(sh *shard) bool {
	if r.replays {
		return r.room(sh, uint32(r.now))
	}
	return sh.used*100 < len(sh.slots)*fullPercent || r.whole && sh.used < len(sh.slots)-1
}

// share returns the shared slot. These are few, so there is always room.
func (r *restoring) share(sh *shard, key Key) *slot {
	s := sh.find(&key)
	if s == nil {
		r.fit(sh)
		sh.shared++
		s = sh.insert(&key, key[9])
	}
	return s
}

// fit makes room for one more slot, even beyond the bound.
func (r *restoring) fit(sh *shard) {
	if sh.used < len(sh.slots)-1 {
		return
	}
	slots := max(firstSlots, len(sh.slots)*5/4)
	r.grant(int64(slots-len(sh.slots)) * slotBytes)
	sh.resize(slots)
}

// grant takes bytes even beyond the bound, because the saved data fit before.
func (r *restoring) grant(bytes int64) bool {
	r.bytes.Add(bytes)
	return true
}

// merge adds r.merging to a slot's charges. None is undecided: those that were so when the process ended are
// failures.
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

// replay applies the journal records that the snapshot lacks, and counts the missing ones.
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

// redoAll applies the intact records of a journal. Damaged ones appear as a gap in the numbers, or lie at the end.
func (r *restoring) redoAll(text []byte) {
	last, damaged := uint64(0), uint64(0) // damaged ones since the last intact record
	first := kindOf(text)
	if first == rowHead {
		last = numberOf(text)
		if written := writtenAt(text); written > 0 {
			r.saved = written
		}
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
			continue // the snapshot or an older journal includes it
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

// keyOf returns the key in the first record of rows.
func keyOf(rows []byte) Key { return Key(rows[16:]) }

// kindOf returns the kind of the first record in rows; 0 if it is damaged or truncated.
func kindOf(rows []byte) uint8 {
	if len(rows) < rowBytes || binary.LittleEndian.Uint32(rows) != crc32.Checksum(rows[crc32.Size:rowBytes], castagnoli) {
		return 0
	}
	return rows[4]
}

func (r *restoring) lacks(number uint64) {
	if r.next > 0 && number > r.next {
		r.Lost += number - r.next
	}
	r.next = max(r.next, number)
}

func (r *restoring) redo(row []byte, number uint64) {
	sh, size, key, at := &r.shards[row[5]], row[6], keyOf(row), binary.LittleEndian.Uint32(row[16+len(Key{}):])
	sh.mu.Lock()
	defer sh.mu.Unlock()
	r.merging = r.merging[:0]
	if r.add(r.moment(at)); number <= sh.saved || len(r.merging) == 0 {
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
	s.set(s.count(), 0, s.class()) // undecided charges are failures
}
