package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"authguard/failures"
	"authguard/guard"
)

// A charge stands in Redis from the begin on, and a failure leaves it there. So that an
// attempt at another node does not wait for what has long failed (R3), Redis learns of
// failures in two cases only:
//
//   - The charge filled a limit: its node writes down, as it settles, all the subject's
//     young charges that it knows to have failed.
//   - An attempt finds a limit full, and all that is known to have failed leaves room.
//     It asks for the subject, and each node writes down what it knows, four times a
//     second, as long as somebody asks.
//
// Each node has a field of its own in the subject's hash: all stamps of its list. Two
// charges of one millisecond have the same stamp, so the lists are bags, and a list is
// written as a whole.

// decided are the stamps of a subject's young charges that have failed.
type decided struct {
	own    []uint32 // settled at this node
	others []uint32 // at other nodes, when this one last asked
	told   bool     // Redis knows all of own
}

func (s *Store) decidedKey(shard, subject failures.Key) string {
	return s.subjectKey(shard, subject) + "d"
}

func (s *Store) askedKey() string { return s.prefix + "asked" }

// publish writes down which of a subject's young charges have failed at this node.
func (s *Store) publish(ctx context.Context, shard, subject failures.Key) error {
	known, _ := s.memory.failed.Peek(subject)
	if len(known.own) == 0 || known.told {
		return nil
	}
	list := make([]byte, 0, 4*len(known.own))
	for _, at := range known.own {
		list = binary.LittleEndian.AppendUint32(list, at)
	}
	key := s.decidedKey(shard, subject)
	err := run(ctx, s.batcher.enqueue,
		&call{args: []any{"hset", key, s.node, list}},
		&call{args: []any{"pexpire", key, int64(s.pendingFor()) + slack}})
	if err == nil {
		s.memory.tell(subject, known.own)
	}
	return err
}

// ask looks up what other nodes know of the subjects at which a refused attempt would
// have to wait, and asks for more. Whatever fails, the attempt waits.
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
				calls = append(calls, &call{args: []any{"hgetall", s.decidedKey(one.Shard, one.Key)}})
				of = append(of, one)
				question.args = append(question.args, string(one.Shard[:])+string(one.Key[:]))
			}
		}
	}
	if calls == nil || run(ctx, s.batcher.enqueue, append(slices.Clip(calls), question)...) != nil {
		return
	}
	for i, one := range of {
		s.memory.hear(one.Key, calls[i].reply, s.node)
	}
	for _, p := range t.parts() {
		s.fill(t, p)
	}
}

// Answer writes down what this node knows of the subjects at which attempts of any node
// wait.
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
		if err := s.publish(ctx, shard, subject); err != nil {
			return fmt.Errorf("redisstore: writing down failures: %w", err)
		}
	}
	return nil
}

// tell notes that Redis knows these failures at a subject, unless there are more by now.
func (m *memory) tell(subject failures.Key, own []uint32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.failed.Peek(subject); ok {
		known.told = slices.Equal(known.own, own)
		m.failed.Add(subject, known)
	}
}

// hear notes what the other nodes have written down of a subject.
func (m *memory) hear(subject failures.Key, reply any, node string) {
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
