package redisfailures

import (
	"context"
	"errors"
	"fmt"

	"authguard/failures"
	"authguard/internal/redisscript"
	"authguard/trusted"
)

// A part is what one script does: everything, or in a cluster everything at
// one place.
type part struct {
	place      failures.Key
	privileged []failures.Subject // charged if the place that was asked for is privileged
	others     []failures.Subject // charged if not
	index      []int              // where others stand in the caller's list; nil: in the same order
	asks       *asked
	told       int64 // when it happened, in milliseconds; 0: now, by Redis's clock
	answer
}

// asked is what a part is to tell of a place.
type asked struct {
	account, place trusted.Key
	since          int64 // milliseconds; a last login then or before is too old
}

// An answer is what came of a part.
type answer struct {
	err     error
	at      int64 // the stamp, or when it was refused
	refused bool
	status  trusted.Status
	record  *string // of the account's places, if the script told
	rest    []any   // for each subject
}

// parts makes a part of every place, or one of all.
func (s *Store) parts(subjects []failures.Subject) []part {
	if !s.split {
		return []part{{place: subjects[0].Shard, others: subjects}}
	}
	return byPlace(subjects)
}

func byPlace(subjects []failures.Subject) []part {
	var parts []part
	for i := range subjects {
		parts = addTo(parts, &subjects[i], i)
	}
	return parts
}

func addTo(parts []part, subject *failures.Subject, index int) []part {
	at := -1
	for i := range parts {
		if parts[i].place == subject.Shard {
			at = i
		}
	}
	if at < 0 {
		at, parts = len(parts), append(parts, part{place: subject.Shard})
	}
	p := &parts[at]
	p.others, p.index = append(p.others, *subject), append(p.index, index)
	return parts
}

// A runner runs scripts: redisscript.Run, or a Bundler's.
type runner func(context.Context, []redisscript.Call) error

// alone runs scripts in a round trip of their own, which is ctx's.
func (s *Store) alone(ctx context.Context, calls []redisscript.Call) error {
	return redisscript.Run(ctx, s.client, calls)
}

// run runs all parts in one round trip. Errors stay with their parts.
func (s *Store) run(ctx context.Context, run runner, parts []part) {
	calls := make([]redisscript.Call, len(parts))
	for i := range parts {
		calls[i] = s.call(&parts[i])
	}
	_ = run(ctx, calls) // each call keeps its own error
	for i := range parts {
		parts[i].read(&calls[i])
	}
}

var errReply = errors.New("redisfailures: a script's answer makes no sense")

// read reads what a script answered.
func (p *part) read(call *redisscript.Call) {
	p.answer = answer{err: call.Err}
	if p.err != nil {
		return
	}
	list, _ := call.Reply.([]any)
	if len(list) == 0 {
		p.err = errReply
		return
	}
	p.at, _ = list[0].(int64)
	p.refused = p.at <= 0
	p.at = max(p.at, -p.at)
	p.rest = list[1:]
	if p.asks != nil {
		p.readStatus()
	}
	if p.err == nil && len(p.rest) != len(p.charges()) {
		p.err = errReply
	}
}

func (p *part) readStatus() {
	if len(p.rest) < 2 {
		p.err = errReply
		return
	}
	status, ok := p.rest[0].(int64)
	if !ok || status < 0 || status > int64(trusted.Spent) {
		p.err = errReply
		return
	}
	p.status = trusted.Status(status)
	if record, told := p.rest[1].(string); told {
		p.record = &record
	}
	p.rest = p.rest[2:]
}

// charges are the subjects that the part charged, or refused to.
func (p *part) charges() []failures.Subject {
	if p.asks != nil && p.status == trusted.Privileged {
		return p.privileged
	}
	return p.others
}

// charged reports whether the part charged anything.
func (p *part) charged() bool { return p.err == nil && !p.refused && len(p.charges()) > 0 }

// where is the place of the part's i-th subject in the caller's list.
func (p *part) where(i int) int {
	if p.index == nil || p.status == trusted.Privileged {
		return i
	}
	return p.index[i]
}

// fill writes what the part knows of its subjects into the caller's standings.
func (s *Store) fill(p *part, read reading, standings []failures.Usage) {
	for i := range p.charges() {
		s.stand(&p.charges()[i], p.rest[i], p.at, read, &standings[p.where(i)])
	}
}

// firstError is the first error of any part.
func firstError(parts []part) error {
	for i := range parts {
		if err := parts[i].err; err != nil {
			return fmt.Errorf("redisfailures: charging: %w", err)
		}
	}
	return nil
}
