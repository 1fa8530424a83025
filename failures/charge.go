package failures

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Charge implements Store. With a journal it returns when the charge is in it. One that
// cannot be written is taken back, and is an error (R27).
func (m *Memory) Charge(ctx context.Context, subjects []Subject, usages []Usage) (ChargeID, error) {
	if err := check(subjects, len(usages)); err != nil {
		return ChargeID{}, err
	}
	if m.Unwritten() != nil {
		if err := m.written(); err != nil {
			return ChargeID{}, err
		}
	}
	at := m.charge(subjects, usages)
	if at == 0 {
		return ChargeID{}, nil
	}
	id := ChargeID{At: at}
	if err := m.written(); err != nil {
		return ChargeID{}, errors.Join(err, m.TakeBack(ctx, id, subjects))
	}
	return id, nil
}

// charge is when the charge was made, or 0 if there was no room.
func (m *Memory) charge(subjects []Subject, usages []Usage) int64 {
	var l lockSet
	m.lock(&l, subjects)
	defer l.unlock(m)

	at, room := m.use(subjects, usages, &l)
	if !room {
		return 0
	}
	for i := range subjects {
		own := l.slots[i]
		if own != nil && keyIsShared(&own.key) {
			own = nil // it may get a slot of its own now
		}
		if !m.chargeOne(l.shards[i], &subjects[i], own, uint32(at)) {
			l.refund(m, subjects[:i], uint32(at))
			usages[i].Over |= subjects[i].Bind
			usages[i].Failed |= subjects[i].Bind
			return 0
		}
		if own == nil {
			l.slots = [MaxSubjects]*slot{} // they may have been moved
		}
	}
	return at
}

// Read implements Store.
func (m *Memory) Read(_ context.Context, subjects []Subject, usages []Usage, used []Used) error {
	if err := check(subjects, len(usages)); err != nil {
		return err
	}
	var l lockSet
	m.lock(&l, subjects)
	defer l.unlock(m)
	at, _ := m.use(subjects, usages, &l)
	for i := range used {
		used[i] = Used{}
		if slot := l.slots[i]; slot != nil {
			sh := l.shards[i]
			subjects[i].Tally(sh.moments(slot), uint32(at), sh.fresh(&subjects[i], slot, uint32(at)), &used[i])
		}
	}
	return nil
}

// TakeBack implements Store.
func (m *Memory) TakeBack(_ context.Context, id ChargeID, subjects []Subject) error {
	if !id.Charged() {
		return nil
	}
	return m.each(subjects, func(number uint8, sh *shard, s *slot) { m.pull(number, sh, s, uint32(id.At)) })
}

// Failed implements Store.
func (m *Memory) Failed(_ context.Context, id ChargeID, subjects []Subject) error {
	if !id.Charged() {
		return nil
	}
	return m.each(subjects, func(_ uint8, _ *shard, s *slot) {
		if s.pending() > 0 {
			s.meta -= 1 << countBits
		}
	})
}

// Clear implements Store. A key that shares its count is not cleared: the
// count is not its own.
func (m *Memory) Clear(_ context.Context, subjects []Subject, what Mask) error {
	return m.each(subjects, func(number uint8, sh *shard, s *slot) {
		if keyIsShared(&s.key) {
			return
		}
		key, size, mark, newest := s.key, s.size(), keyCleared(&s.key), sh.newest(s)
		sh.changed = true
		if what == BackoffBit {
			if m.mark(sh, &mark, newest) {
				m.note(rowMarked, number, sizeMark, &mark, newest)
			}
			return
		}
		sh.remove(s)
		m.note(rowCleared, number, size, &key, newest)
		if old := sh.find(&mark); old != nil {
			sh.remove(old)
			m.note(rowCleared, number, sizeMark, &mark, newest)
		}
	})
}

// mark gives a slot its only moment. It reports false if there is no room for the
// slot.
func (m *Memory) mark(sh *shard, key *Key, at uint32) bool {
	old := sh.find(key)
	switch {
	case old != nil:
		old.body[0] = at
	case m.room(sh, uint32(m.clock())):
		sh.pushInline(sh.insert(key, sizeMark), at)
	default:
		return false
	}
	return true
}

// each calls do with the slot of every subject that has one, its shard and that
// shard's number. It does not hand on the subjects, so that callers need not
// allocate them.
func (m *Memory) each(subjects []Subject, do func(uint8, *shard, *slot)) error {
	if err := check(subjects, len(subjects)); err != nil {
		return err
	}
	var l lockSet
	m.lock(&l, subjects)
	for i := range subjects {
		if slot := l.shards[i].lookUp(&subjects[i]); slot != nil {
			do(m.shard(&subjects[i].Shard), l.shards[i], slot)
		}
	}
	l.unlock(m)
	_ = m.written() // what cannot be written now is written later
	return nil
}

// pull takes a moment back and notes that.
func (m *Memory) pull(number uint8, sh *shard, s *slot, at uint32) {
	key, size := s.key, s.size()
	if sh.pull(s, at) {
		m.note(rowTakenBack, number, size, &key, at)
	}
}

// use fills the usages and returns the moment at which they hold: now, or that of
// the newest charge if the clock went back or somebody who read it later was
// quicker. A moment is never in the future.
func (m *Memory) use(subjects []Subject, usages []Usage, l *lockSet) (at int64, room bool) {
	at = m.clock()
	for i := range subjects {
		sh := l.shards[i]
		if slot := sh.lookUp(&subjects[i]); slot != nil {
			l.slots[i] = slot
			at += int64(max(0, int32(sh.newest(slot)-uint32(at))))
		}
	}
	room = true
	pendingFor := m.pending.Load()
	for i := range subjects {
		s, slot, out := &subjects[i], l.slots[i], &usages[i]
		if slot == nil {
			*out = Usage{}
			continue
		}
		fresh := l.shards[i].fresh(s, slot, uint32(at))
		free := l.shards[i].moments(slot).usage(s, uint32(at), fresh, slot.pending(), pendingFor, out)
		out.Shared = keyIsShared(&slot.key)
		if out.Over&s.Bind != 0 {
			room = false
			out.FreeIn = time.Duration(free) * time.Millisecond
		}
	}
	return at, room
}

// chargeOne adds a moment to a subject, whose own slot is known or nil. It
// reports false if that took memory beyond the bound.
func (m *Memory) chargeOne(sh *shard, s *Subject, slot *slot, at uint32) bool {
	if slot == nil {
		slot = sh.lookUp(s)
	}
	if slot == nil && sh.used*100 < len(sh.slots)*fullPercent {
		slot = sh.insert(&s.Key, s.Limits.size)
	} else if slot == nil || keyIsShared(&slot.key) {
		slot = m.admit(sh, s, slot, at)
	}
	if slot == nil {
		return false
	}
	slot.resized(s.Limits.size)
	if !sh.pushInline(slot, at) && !sh.push(slot, at, s.Limits.keep, m.retain.Load(), m.reserve) {
		if slot.count() == 0 {
			sh.drop(slot)
		}
		return false
	}
	m.note(rowCharged, m.shard(&s.Shard), slot.size(), &slot.key, at)
	return true
}

// reserve takes bytes from what the bound leaves, or nothing.
func (m *Memory) reserve(bytes int64) bool {
	if m.bytes.Add(bytes) > m.max {
		m.bytes.Add(-bytes)
		return false
	}
	return true
}

func check(subjects []Subject, usages int) error {
	if len(subjects) > MaxSubjects || usages < len(subjects) {
		return fmt.Errorf("failures: %d subjects with %d usages; at most %d subjects, with as many usages",
			len(subjects), usages, MaxSubjects)
	}
	return nil
}

// A lockSet is what one call works on: the shards that it has locked, in
// ascending order so that two calls never wait for each other, and for every
// subject its shard and, once that was looked up, its slot.
type lockSet struct {
	locked [MaxSubjects]uint8
	n      uint8
	shards [MaxSubjects]*shard
	slots  [MaxSubjects]*slot
}

func (l *lockSet) unlock(m *Memory) {
	for _, i := range l.locked[:l.n] {
		m.shards[i].mu.Unlock()
	}
}

func (m *Memory) lock(l *lockSet, subjects []Subject) {
	for i := range subjects {
		if i > 0 && subjects[i].Shard == subjects[i-1].Shard {
			l.shards[i] = l.shards[i-1]
			continue
		}
		number := m.shard(&subjects[i].Shard)
		l.shards[i] = &m.shards[number]
		l.add(number)
	}
	for _, i := range l.locked[:l.n] {
		m.shards[i].mu.Lock()
	}
}

// add inserts a shard where it belongs, once.
func (l *lockSet) add(shard uint8) {
	for _, locked := range l.locked[:l.n] {
		if locked == shard {
			return
		}
	}
	at := l.n
	for ; at > 0 && l.locked[at-1] > shard; at-- {
		l.locked[at] = l.locked[at-1]
	}
	l.locked[at] = shard
	l.n++
}

// refund takes a charge back from the first subjects.
func (l *lockSet) refund(m *Memory, subjects []Subject, at uint32) {
	for i := range subjects {
		if s := l.shards[i].lookUp(&subjects[i]); s != nil {
			m.pull(m.shard(&subjects[i].Shard), l.shards[i], s, at)
		}
	}
}

// clock is the store's own time in Unix milliseconds. It follows the monotonic
// clock, so that a wall clock set back or forth opens no window.
func (m *Memory) clock() int64 {
	if m.now == nil {
		return m.epoch + time.Since(m.started).Milliseconds() // half of a time.Now
	}
	return m.epoch + m.now().Sub(m.started).Milliseconds()
}

// shard is the number of the shard for keys with this Subject.Shard.
func (m *Memory) shard(key *Key) uint8 { return key[8] }

// A ChargeID stands for one charge. What it says is for the stores that
// made it; others keep it, compare it and seal it. It is of one size for
// encoding/binary. The zero ChargeID stands for none.
type ChargeID struct {
	// At is when the charge was made, in milliseconds since the Unix epoch, by
	// the store's clock.
	At int64
	// Skews are by how many milliseconds other clocks have charged the attempt later: of a
	// store whose shards have clocks of their own, in the order of the subjects.
	Skews [MaxSubjects]int32
	// Node is the node whose local store has the charge; 0 if there are no nodes, or if it
	// is in the store that they share.
	Node uint64
	// Full are the subjects, as bits in the order of the charge, of which the charge
	// filled a limit. A store of several nodes writes down where such a charge fails.
	Full uint8
}

// Charged reports whether anything was charged.
func (id ChargeID) Charged() bool { return id.At != 0 }

// Time is when the charge was made.
func (id ChargeID) Time() time.Time { return time.UnixMilli(id.At) }

// A Key is a keyed digest: every key has one size whatever was typed, and
// nobody without the secret can aim for a collision or read a name out of a
// dump. All zero means "no key".
type Key [16]byte

// A Subject is one thing that an attempt is charged to.
type Subject struct {
	// Shard says where the key lives. Subjects of one place are kept
	// together: behind one lock here, in one hash slot of a cluster.
	Shard  Key
	Key    Key
	Limits *Limits
	// Bind is the set of rungs that must have room for the charge to be made.
	// The others are reported and do not stop it.
	Bind Mask
}

// A Mask is a set of a ladder's rungs, bit i for rung i, and BackoffBit.
type Mask uint16

// BackoffBit stands for the ladder's backoff in a Mask.
const BackoffBit Mask = 1 << 15

// Every is the set of all rungs and the backoff.
const Every Mask = 1<<MaxLimits - 1 | BackoffBit

// Has reports whether rung i is in the set.
func (m Mask) Has(i int) bool { return m&(1<<i) != 0 }

// A Usage is what a store knows of one subject, before the charge that
// asked for it.
type Usage struct {
	// Over is the set of rungs, binding or not, without room for one more
	// charge; BackoffBit means that the next is not due yet.
	Over Mask
	// Failed is what of Over would still be without room if every undecided
	// charge were taken back. Over without Failed is worth waiting for (R3).
	Failed Mask
	// Count is how many charges lie in the ladder's longest window, at most
	// as many as the largest rung asks for.
	Count int32
	// Shared says that the charges may be other keys': at the memory bound new keys have a
	// count in common.
	Shared bool
	// FreeIn is how long until the last of the binding rungs in Over has room
	// again if nothing else happens; if strict ones are among them, the last of
	// those. Zero if none of them is full.
	FreeIn time.Duration
}

// Used is what each rung by itself says, and after them the backoff.
type Used [MaxLimits + 1]LimitUse

// A LimitUse is how many charges lie in a rung's window, at most as many as the
// largest rung asks for, and how long it stays full; zero if it is not.
type LimitUse struct {
	Charges int
	FreeIn  time.Duration
}

// A Store counts charges. All methods are safe for concurrent use. An error
// means that the store could not do its work; what was asked for may or may
// not have happened.
type Store interface {
	// Charge charges every subject, or none if one of them has a binding rung
	// without room; the ID is zero in that case. It fills usages, which
	// must be as long as subjects, with what was true before the charge. Check
	// and change are one step.
	Charge(ctx context.Context, subjects []Subject, usages []Usage) (ChargeID, error)
	// Read fills usages and, unless that is nil, used; both must be as long as
	// subjects. It changes nothing.
	Read(ctx context.Context, subjects []Subject, usages []Usage, used []Used) error
	// TakeBack removes the charge from each subject. It is to be called at most
	// once for a charge and subject; a charge that is gone already (expired,
	// cleared) is no error.
	TakeBack(ctx context.Context, id ChargeID, subjects []Subject) error
	// Failed tells the store that the charge is decided: a failure. A store may
	// make nothing of it, since a charge counts as a failure anyway once it is
	// older than the longest password check; one that does spares the next attempt
	// the wait.
	Failed(ctx context.Context, id ChargeID, subjects []Subject) error
	// Clear forgets every charge of the subjects; or, if what is BackoffBit and
	// not Every, lets their backoff begin anew: the rungs count on, and for the
	// backoff no charge counts that is as old as the newest one, or older.
	Clear(ctx context.Context, subjects []Subject, what Mask) error
}
