package redisfailures

import (
	"sync"
	"sync/atomic"

	"authguard/failures"
	"authguard/internal/redisscript"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// A plan is what a script does: whom it charges, and whether it asks first
// what the place is to the account. Every plan has a script of its own with
// the ladders written into it, so that a call carries keys and nothing else,
// and the script compares numbers that are there already.
type plan struct {
	asks       bool // with the record of places as the last key
	told       bool // the time, as the last argument
	books      uint8
	owns       uint8
	privileged uint8 // how many of the steps are for a privileged place; the others come after
	n          uint8
	retain     int64 // milliseconds
	pending    int64 // milliseconds
	steps      [maxSubjects]step
}

// A step is what a plan knows of one subject.
type step struct {
	ladder *failures.Ladder
	bind   failures.Mask
	book   uint8 // which of the books, from 1
	own    uint8 // which of the own keys, from 1; 0: the subject is the place
}

// A layout is a plan in the making, with the keys that it needs: first the
// books, then the own keys.
type layout struct {
	plan
	places [maxSubjects]*failures.Key
	subs   [maxSubjects]*failures.Subject
}

// add adds subjects of one of the two kinds; privileged ones come first.
func (l *layout) add(subjects []failures.Subject) {
	for i := range subjects {
		of := &subjects[i]
		l.steps[l.n] = step{ladder: of.Ladder, bind: of.Bind, book: l.book(&of.Shard), own: l.own(of)}
		l.n++
	}
}

func (l *layout) book(place *failures.Key) uint8 {
	for i, one := range l.places[:l.books] {
		if *one == *place {
			return uint8(i + 1)
		}
	}
	l.places[l.books] = place
	l.books++
	return l.books
}

func (l *layout) own(of *failures.Subject) uint8 {
	if isBook(of) {
		return 0
	}
	for i, one := range l.subs[:l.owns] {
		if one.Key == of.Key && one.Shard == of.Shard {
			return uint8(i + 1)
		}
	}
	l.subs[l.owns] = of
	l.owns++
	return l.owns
}

// call is the call of a layout's script. All names are parts of one string.
func (s *Store) call(p *part) redisscript.Call {
	l := layout{plan: plan{asks: p.asks != nil, told: p.told != 0, privileged: uint8(len(p.privileged)),
		retain: s.retain.Load(), pending: s.pending.Load()}}
	l.add(p.privileged)
	l.add(p.others)
	var room [512]byte
	var ends [2*maxSubjects + 1]int
	names, n := room[:0], 0
	for _, place := range l.places[:l.books] {
		names = s.appendBook(names, *place)
		ends[n], n = len(names), n+1
	}
	for _, of := range l.subs[:l.owns] {
		names = s.appendOwn(names, of)
		ends[n], n = len(names), n+1
	}
	if p.asks != nil {
		names = redisplaces.AppendName(names, s.prefix, p.asks.account)
		ends[n], n = len(names), n+1
	}
	keys, all, from := make([]any, n), string(names), 0
	for i, to := range ends[:n] {
		keys[i], from = all[from:to], to
	}
	return redisscript.Call{Script: s.script(&l.plan), Keys: keys, Args: s.args(p, &l)}
}

func (s *Store) args(p *part, l *layout) []any {
	args := make([]any, 0, l.owns+3)
	for _, of := range l.subs[:l.owns] {
		args = append(args, tag(of))
	}
	if p.asks != nil {
		args = append(args, string(p.asks.place[:]), p.asks.since)
	}
	if p.told != 0 {
		return append(args, p.told)
	}
	return append(args, s.clockArgs()...)
}

// Prepare makes the scripts of such charges, with and without the question what
// the place is, so that Load knows them.
func (s *Store) Prepare(privileged, stranger []failures.Subject) {
	if len(privileged) == 0 || len(stranger) == 0 {
		return
	}
	account := privileged[0].Shard
	for _, parts := range [][]part{s.partsAs(trusted.Key(account), privileged, stranger), s.parts(privileged), s.parts(stranger)} {
		for i := range parts {
			if parts[i].privileged != nil {
				parts[i].asks = &asked{}
			}
			s.call(&parts[i])
		}
	}
}

// mostPlans bounds the scripts that are kept here. A policy has some ten; only
// policies and settings that were replaced add to them.
const mostPlans = 1000

// plans keeps the script of every plan.
type plans struct {
	last    [2]atomic.Pointer[planned] // of those that ask or do not, nearly always the next one too
	scripts sync.Map                   // plan to *redisscript.Script
	size    atomic.Int64
}

type planned struct {
	plan
	script *redisscript.Script
}

func (s *Store) script(p *plan) *redisscript.Script {
	last := &s.plans.last[0]
	if p.asks {
		last = &s.plans.last[1]
	}
	if known := last.Load(); known != nil && known.plan == *p {
		return known.script
	}
	script := s.lookUp(p)
	last.Store(&planned{*p, script})
	return script
}

func (s *Store) lookUp(p *plan) *redisscript.Script {
	if found, ok := s.plans.scripts.Load(*p); ok {
		return found.(*redisscript.Script)
	}
	if s.plans.size.Add(1) > mostPlans {
		s.plans.scripts.Clear()
		s.plans.size.Store(0)
	}
	clock := s.clockLua
	if p.told {
		clock = toldClockLua
	}
	script := redisscript.New(p.lua(clock))
	s.plans.scripts.Store(*p, script)
	return script
}
