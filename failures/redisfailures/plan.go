package redisfailures

import (
	"slices"
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
	places []failures.Key
	subs   []*failures.Subject
}

// add adds subjects of one of the two kinds; privileged ones come first.
func (l *layout) add(subjects []failures.Subject) {
	for i := range subjects {
		of := &subjects[i]
		l.steps[l.n] = step{ladder: of.Ladder, bind: of.Bind, book: l.book(of.Place), own: l.own(of)}
		l.n++
	}
}

func (l *layout) book(place failures.Key) uint8 {
	at := slices.Index(l.places, place)
	if at < 0 {
		at, l.places = len(l.places), append(l.places, place)
		l.books++
	}
	return uint8(at + 1)
}

func (l *layout) own(of *failures.Subject) uint8 {
	if isBook(of) {
		return 0
	}
	at := slices.IndexFunc(l.subs, func(one *failures.Subject) bool { return one.Key == of.Key && one.Place == of.Place })
	if at < 0 {
		at, l.subs = len(l.subs), append(l.subs, of)
		l.owns++
	}
	return uint8(at + 1)
}

// call is the call of a layout's script.
func (s *Store) call(p *part) redisscript.Call {
	l := layout{plan: plan{asks: p.asks != nil, told: p.told != 0, privileged: uint8(len(p.privileged))}}
	l.add(p.privileged)
	l.add(p.others)
	keys := make([]string, 0, l.books+l.owns+1)
	args := make([]any, 0, l.owns+3)
	for _, place := range l.places {
		keys = append(keys, s.bookName(place))
	}
	for _, of := range l.subs {
		keys = append(keys, s.ownName(of))
		args = append(args, tag(of))
	}
	if p.asks != nil {
		keys = append(keys, redisplaces.Name(s.prefix, p.asks.account))
		args = append(args, string(p.asks.place[:]), p.asks.since)
	}
	if p.told != 0 {
		args = append(args, p.told)
	} else {
		args = append(args, s.clockArgs()...)
	}
	return redisscript.Call{Script: s.script(&l.plan), Keys: keys, Args: args}
}

// Prepare makes the scripts of such charges, with and without the question what
// the place is, so that Load knows them.
func (s *Store) Prepare(privileged, stranger []failures.Subject) {
	if len(privileged) == 0 || len(stranger) == 0 {
		return
	}
	account := privileged[0].Place
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
// policies that were replaced add to them.
const mostPlans = 1000

// plans keeps the script of every plan.
type plans struct {
	scripts sync.Map // plan to *redisscript.Script
	size    atomic.Int64
}

func (s *Store) script(p *plan) *redisscript.Script {
	if found, ok := s.plans.scripts.Load(*p); ok {
		return found.(*redisscript.Script)
	}
	if s.plans.size.Add(1) > mostPlans {
		s.forgetPlans()
	}
	clock := s.clockLua
	if p.told {
		clock = toldClockLua
	}
	script := redisscript.New(p.lua(clock, s.retain.Load(), s.pending.Load()))
	s.plans.scripts.Store(*p, script)
	return script
}

// forgetPlans is also for when something changes that is written into the
// scripts.
func (s *Store) forgetPlans() {
	s.plans.scripts.Clear()
	s.plans.size.Store(0)
}
