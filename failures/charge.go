package failures

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Charge implements Store. With a journal, it returns after the charge is written. If writing fails, the charge is
// taken back and Charge returns the error (R27).
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

// charge returns the time of the charge, or 0 if a limit or the memory bound left no room.
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
			own = nil // it may get its own slot now
		}
		if !m.chargeOne(l.shards[i], &subjects[i], own, uint32(at)) {
			l.refund(m, subjects[:i], uint32(at))
			usages[i].Over |= subjects[i].Bind
			usages[i].Failed |= subjects[i].Bind
			return 0
		}
		if own == nil {
			l.slots = [MaxSubjects]*slot{} // slots may have moved
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

// Clear implements Store. It does not clear a shared slot, since other keys count there too.
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

// each calls do with the slot, shard and shard number of every subject that has a slot. It passes no subjects to do,
// so that callers need not allocate them.
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
	_ = m.written() // the next flush writes it
	return nil
}

func (m *Memory) pull(number uint8, sh *shard, s *slot, at uint32) {
	key, size := s.key, s.size()
	if sh.pull(s, at) {
		m.note(rowTakenBack, number, size, &key, at)
	}
}

// use fills the usages and returns the time at which they hold: now, or the time of the newest charge if that is
// later. Concurrent calls or a clock set back would otherwise yield charges in the future.
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

// chargeOne adds a charge to a subject; slot is its own, or nil if not known. It returns false if the memory bound
// leaves no room.
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

// A lockSet holds the shards that one call has locked, and each subject's shard and slot. Shards are locked in
// ascending order, so that two calls cannot deadlock.
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

// add inserts a shard's number in order, unless it is there.
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

func (l *lockSet) refund(m *Memory, subjects []Subject, at uint32) {
	for i := range subjects {
		if s := l.shards[i].lookUp(&subjects[i]); s != nil {
			m.pull(m.shard(&subjects[i].Shard), l.shards[i], s, at)
		}
	}
}

// clock returns the store's time in Unix milliseconds. It follows the monotonic clock, so that setting the wall clock
// expires no charges.
func (m *Memory) clock() int64 {
	if m.now == nil {
		return m.epoch + time.Since(m.started).Milliseconds() // half the cost of time.Now
	}
	return m.epoch + m.now().Sub(m.started).Milliseconds()
}

// wall returns the time of the wall clock in Unix milliseconds.
func (m *Memory) wall() int64 {
	if m.now == nil {
		return time.Now().UnixMilli()
	}
	return m.now().UnixMilli()
}

// driftNow returns the drift; 0 below a second.
func (m *Memory) driftNow() int64 {
	if drift := m.wall() - m.clock(); drift >= 1000 {
		return drift
	}
	return 0
}

// fileTime returns the time in files: that of the store, or of the wall clock if it is ahead.
func (m *Memory) fileTime() int64 { return m.clock() + m.drift.Load() }

// shard returns the number of the shard for this Subject.Shard.
func (m *Memory) shard(key *Key) uint8 { return key[8] }

// A ChargeID identifies one charge. Only the store that made it interprets it; callers store, compare and seal it.
// Its size is fixed for encoding/binary. The zero ChargeID means no charge.
type ChargeID struct {
	// At is the time of the charge in Unix milliseconds, by the store's clock.
	At int64
	// Skews are the milliseconds by which each subject's clock was ahead of At, for a store whose shards have their own
	// clocks.
	Skews [MaxSubjects]int32
	// Node is the node whose local store has the charge; 0 if it is in the shared store, or if there is one node.
	Node uint64
	// Full is the set of subjects, as bits in the order of the charge, for which the charge filled a limit. A store of
	// several nodes records the failure of such a charge.
	Full uint8
}

// Charged reports whether anything was charged.
func (id ChargeID) Charged() bool { return id.At != 0 }

// Time returns when the charge was made.
func (id ChargeID) Time() time.Time { return time.UnixMilli(id.At) }

// A Key is a keyed digest of fixed size. Without the secret, an attacker cannot produce collisions or read names from
// a dump. All zero means "no key".
type Key [16]byte

// A Subject is one of the keys that an attempt is charged to.
type Subject struct {
	// Shard groups subjects: those with the same Shard are behind one lock in memory, and in one hash slot of a cluster.
	Shard  Key
	Key    Key
	Limits *Limits
	// Bind is the set of limits that must have room for the charge. The others are only reported.
	Bind Mask
}

// A Mask is a set of limits, bit i for limit i, and BackoffBit.
type Mask uint16

// BackoffBit is the backoff in a Mask.
const BackoffBit Mask = 1 << 15

// Every is the set of all limits and the backoff.
const Every Mask = 1<<MaxLimits - 1 | BackoffBit

// Has reports whether limit i is in the set.
func (m Mask) Has(i int) bool { return m&(1<<i) != 0 }

// A Usage is the state of one subject before the charge.
type Usage struct {
	// Over is the set of limits, binding or not, without room for one more charge. BackoffBit means that the next charge
	// is not due yet.
	Over Mask
	// Failed is the part of Over that would remain if every undecided charge were taken back. If Over has limits that
	// Failed lacks, waiting may help (R3).
	Failed Mask
	// Count is the number of charges in the longest window, at most Limits.Keep.
	Count int32
	// Shared means that the count includes charges of other keys, because of the memory bound.
	Shared bool
	// FreeIn is the time until all binding limits in Over have room. If strict limits are among them, only those count.
	// Zero if no binding limit is full.
	FreeIn time.Duration
}

// Used is the state of each limit, and of the backoff as its last element.
type Used [MaxLimits + 1]LimitUse

// A LimitUse is the number of stored charges in a limit's window, and how long the limit stays full; zero if it is
// not full.
type LimitUse struct {
	Charges int
	FreeIn  time.Duration
}

// A Store counts charges. All methods are safe for concurrent use. After an error, the operation may or may not have
// happened.
type Store interface {
	// Charge charges every subject, or none and returns the zero ID if a binding limit has no room. It fills usages,
	// which must be as long as subjects, with the state before the charge. The check and the charge are atomic.
	Charge(ctx context.Context, subjects []Subject, usages []Usage) (ChargeID, error)
	// Read fills usages and, unless it is nil, used. Both must be as long as subjects. It changes nothing.
	Read(ctx context.Context, subjects []Subject, usages []Usage, used []Used) error
	// TakeBack removes the charge from each subject. Call it at most once per charge and subject. A charge that has
	// expired or was cleared is no error.
	TakeBack(ctx context.Context, id ChargeID, subjects []Subject) error
	// Failed marks the charge as a failure, so that the next attempt need not wait for its outcome. A store may ignore
	// it: a charge older than the longest password check is a failure anyway.
	Failed(ctx context.Context, id ChargeID, subjects []Subject) error
	// Clear removes all charges of the subjects. If what is BackoffBit, it only resets their backoff: the limits keep
	// counting, and the backoff ignores all charges up to the newest one.
	Clear(ctx context.Context, subjects []Subject, what Mask) error
}
