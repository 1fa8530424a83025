package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

const (
	// believeFor is how long a node blocks without asking Redis, so that an unlock on another node
	// takes effect.
	believeFor = time.Second
	// remembered is the size of each table; about 30 MB in all.
	remembered = 1 << 16
	// slack is how many milliseconds longer than its windows a key lives, because a clock may be set
	// back.
	slack = 1000
)

// memory is what a node remembers between attempts, bounded. Forgetting costs round trips and makes
// attempts wait; it admits no attempt.
type memory struct {
	// blocked are keys whose limits are full of failures that stand. Their attempts are blocked
	// without a round trip. An account's entry has its known clients.
	blocked *lru.Cache[failures.Key, block]
	avoided atomic.Uint64 // round trips
	// known are clients that were known at their last attempt, so that only the account's shard is
	// charged at first. Without it, a client that is known by its IP address needs a third round trip.
	known *lru.Cache[clientOf, struct{}]

	mu sync.Mutex // for failed
	// failed are young charges that stand. This is no cache: Redis does not know which charges are
	// undecided (R3).
	failed *lru.Cache[failures.Key, failedCharges]
}

type clientOf struct{ account, client trusted.Key }

// A block says that the enforced limits of a key are full, or has the known clients of an account
// whose attempt was blocked. It is valid until a time, at most for believeFor.
type block struct {
	limits   *failures.Limits // nil: there is no block, only known clients
	enforced failures.Mask
	usage    failures.Usage
	read     time.Time
	until    time.Time
	clients  *trusted.Record // of an account; nil: not read
}

func newMemory() *memory {
	return &memory{blocked: bounded[failures.Key, block](), known: bounded[clientOf, struct{}](),
		failed: bounded[failures.Key, failedCharges]()}
}

func bounded[K comparable, V any]() *lru.Cache[K, V] {
	made, _ := lru.New[K, V](remembered) // fails for a size below 1 only
	return made
}

// expects reports whether the client was known at its last attempt.
func (m *memory) expects(c *guard.Charge) bool {
	return m.known.Contains(clientOf{c.Account, clientsOf(c)[0].asked})
}

// learn notes whether the client is known.
func (m *memory) learn(c *guard.Charge) {
	if client := (clientOf{c.Account, c.ClientKey()}); c.Status == trusted.Known {
		m.known.Add(client, struct{}{})
	} else {
		m.known.Remove(client)
	}
}

// blocks reports whether a counted subject blocks, and writes its usage. For an account it has to
// know the client's status.
func (m *memory) blocks(c *guard.Charge, limits trusted.Limits, now time.Time) bool {
	c.AtDevice, c.Status = false, trusted.Unknown
	if c.Account != (trusted.Key{}) {
		account, _ := m.blocked.Get(failures.Key(c.Account))
		if account.clients == nil || now.Sub(account.read) >= believeFor {
			return false
		}
		live := account.clients.Live(c.Now, limits)
		c.Find(&live)
	}
	blocked := false
	for i := range c.Subjects() {
		one := &c.Subjects()[i]
		if !c.Counts(one) {
			continue
		}
		if b, _ := m.blocked.Get(one.Key); b.limits == one.Limits && b.enforced == c.Bound(one) && now.Before(b.until) {
			one.Usage, blocked = b.usage, true
			one.Usage.FreeIn -= now.Sub(b.read)
		}
	}
	if blocked {
		m.avoided.Add(1)
	}
	return blocked
}

// block notes that a key blocks until the first of its full limits has room.
func (m *memory) block(subject *failures.Subject, certain []uint32, reset resetAt, at uint32, b block) {
	b.limits, b.enforced, b.until = subject.Limits, subject.Bind, b.read.Add(believeFor)
	fresh := reset.fresh(certain)
	subject.Use(certain, at, fresh, 0, &b.usage)
	alone := *subject
	for limit := range 16 {
		var usage failures.Usage
		if alone.Bind = b.usage.Over & (1 << limit); alone.Bind != 0 {
			alone.Use(certain, at, fresh, 0, &usage)
			if opens := b.read.Add(usage.FreeIn); opens.Before(b.until) {
				b.until = opens
			}
		}
	}
	m.blocked.Add(subject.Key, b)
}

func (m *memory) unblock(key failures.Key) { m.blocked.Remove(key) }

func (m *memory) clear(key failures.Key) {
	m.unblock(key)
	m.failed.Remove(key)
}

// fail notes that a charge of a key has failed.
func (m *memory) fail(stamp int64, key failures.Key, pendingFor uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := uint32(stamp)
	known, _ := m.failed.Get(key)
	own := slices.DeleteFunc(slices.Clone(known.own), func(one uint32) bool {
		age := at - one
		return age > pendingFor && age < math.MaxInt32
	})
	m.failed.Add(key, failedCharges{own: append(own, at), others: known.others})
}

// certain are the charges that are not taken back: failures, and charges older than a password
// check takes.
func (m *memory) certain(key failures.Key, charges []uint32, now, pendingFor uint32) []uint32 {
	young := len(charges)
	for young > 0 && now-charges[young-1] <= pendingFor {
		young--
	}
	known, _ := m.failed.Get(key)
	stamps := slices.Concat(known.own, known.others)
	certain := slices.Clone(charges[:young])
	for _, one := range charges[young:] {
		if i := slices.Index(stamps, one); i >= 0 {
			stamps = slices.Delete(stamps, i, i+1)
			certain = append(certain, one)
		}
	}
	return certain
}

// limitsArg returns limits for charge.lua, with the enforced ones for each status or for any. It
// takes 0.3 µs.
func limitsArg(l *failures.Limits, enforced []failures.Mask) []byte {
	least, backoff := math.MaxInt32, l.Backoff()
	for _, limit := range l.List() {
		least = min(least, limit.Failures)
	}
	if backoff.First > 0 {
		least = min(least, backoff.After)
	}
	text := numbers(make([]byte, 0, 96), int64(least), l.Longest().Milliseconds(), int64(l.Keep()))
	text = append(text, "/ "...)
	for _, mask := range enforced {
		text = numbers(text, int64(mask))
	}
	text = append(text, "/ "...)
	for _, limit := range l.List() {
		text = numbers(text, int64(limit.Failures), limit.Window.Milliseconds())
	}
	text = append(text, "/ "...)
	if backoff.First > 0 {
		text = numbers(text, int64(backoff.After), backoff.First.Milliseconds(), backoff.Max.Milliseconds(),
			backoff.Window.Milliseconds())
	}
	return text
}

// numbers appends each number and a space.
func numbers(text []byte, all ...int64) []byte {
	for _, n := range all {
		text = append(strconv.AppendInt(text, n, 10), ' ')
	}
	return text
}

// A charge is in Redis from begin on, and a failure leaves it there. So that attempts at other
// nodes do not wait for a charge that has failed (R3), Redis learns of failures in two cases:
//
//   - The charge filled a limit: at settle, its node writes all young charges of the subject that failed there.
//   - An attempt finds a limit full that undecided charges may leave: it asks for the subject, and four times a
//     second each node writes its failures there while attempts ask.
//
// Each node has a field in the subject's hash with the stamps of its failures. Two charges of one
// millisecond have one stamp, so a list may repeat a stamp and is written as a whole.

// failedCharges are the stamps of a subject's young charges that have failed.
type failedCharges struct {
	own     []uint32 // settled at this node
	others  []uint32 // at other nodes, when this one last asked
	written bool     // Redis knows all of own
}

func (s *Store) failedKey(shard, subject failures.Key) string {
	return s.subjectKey(shard, subject) + "d"
}

func (s *Store) askedKey() string { return s.prefix + "asked" }

// writeFailures writes a subject's young charges that have failed at this node.
func (s *Store) writeFailures(ctx context.Context, shard, subject failures.Key) error {
	known, _ := s.memory.failed.Peek(subject)
	if len(known.own) == 0 || known.written {
		return nil
	}
	list := make([]byte, 0, 4*len(known.own))
	for _, at := range known.own {
		list = binary.LittleEndian.AppendUint32(list, at)
	}
	key := s.failedKey(shard, subject)
	err := run(ctx, s.batcher.enqueue,
		&call{args: []any{"hset", key, s.node, list}},
		&call{args: []any{"pexpire", key, int64(s.pendingFor()) + slack}})
	if err == nil {
		s.memory.markWritten(subject, known.own)
	}
	return err
}

// ask reads the other nodes' failures at the subjects where an attempt would wait, and asks for
// more. After an error, the attempt waits.
func (s *Store) ask(ctx context.Context, t *trip) {
	question := &call{script: askScript, keys: []any{s.askedKey()}, args: []any{s.pendingFor(), s.clock()}}
	var calls []*call
	var of []*guard.Subject
	for _, p := range t.parts() {
		for _, i := range p.at {
			one := &t.Subjects()[i]
			if one.Usage.Failed&t.Bound(one) != 0 {
				return // it has failed for certain
			}
			if one.Usage.Over&t.Bound(one) != 0 {
				calls = append(calls, &call{args: []any{"hgetall", s.failedKey(one.Shard, one.Key)}})
				of = append(of, one)
				question.args = append(question.args, string(one.Shard[:])+string(one.Key[:]))
			}
		}
	}
	if calls == nil || run(ctx, s.batcher.enqueue, append(slices.Clip(calls), question)...) != nil {
		return
	}
	for i, one := range of {
		s.memory.learnOthers(one.Key, calls[i].reply, s.node)
	}
	for _, p := range t.parts() {
		s.fill(t, p)
	}
}

// Answer writes this node's failures at the subjects where attempts of any node wait.
func (s *Store) Answer(ctx context.Context) error {
	asked := &call{script: askScript, keys: []any{s.askedKey()}, args: []any{s.pendingFor(), s.clock()}}
	if err := run(ctx, direct(s.client), asked); err != nil {
		return fmt.Errorf("redisstore: looking for attempts that wait: %w", err)
	}
	list, _ := asked.reply.([]any)
	for _, one := range list {
		text, _ := one.(string)
		var shard, subject failures.Key
		if copy(shard[:], text)+copy(subject[:], text[min(len(text), len(shard)):]) < 2*len(shard) {
			continue
		}
		if err := s.writeFailures(ctx, shard, subject); err != nil {
			return fmt.Errorf("redisstore: writing down failures: %w", err)
		}
	}
	return nil
}

// markWritten notes that Redis has these failures, unless there are more by now.
func (m *memory) markWritten(subject failures.Key, own []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.failed.Peek(subject); ok {
		known.written = slices.Equal(known.own, own)
		m.failed.Add(subject, known)
	}
}

// learnOthers notes the other nodes' failures.
func (m *memory) learnOthers(subject failures.Key, reply any, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, _ := m.failed.Peek(subject)
	known.others = nil
	fields, _ := reply.(map[any]any)
	for field, value := range fields {
		list, _ := value.(string)
		for ; field != node && len(list) >= 4; list = list[4:] {
			known.others = append(known.others, binary.LittleEndian.Uint32([]byte(list)))
		}
	}
	m.failed.Add(subject, known)
}
