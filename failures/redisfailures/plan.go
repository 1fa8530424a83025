package redisfailures

import (
	"sync"
	"sync/atomic"

	"authguard/failures"
	"authguard/internal/redisscript"
)

// A plan is what a script does: whom it charges, and whether it asks first
// what the place is to the account. Every plan has a script of its own with
// the ladders written into it, so that a call carries keys and nothing else,
// and the script compares numbers that are there already.
type plan struct {
	asks       bool  // with the record of places as the last key
	privileged uint8 // how many of the steps are for a privileged place; the others come after
	n          uint8
	steps      [maxSubjects]step
}

// A step is what a plan knows of one subject.
type step struct {
	ladder *failures.Ladder
	bind   failures.Mask
}

// mostPlans bounds the scripts that are kept here. A policy has some ten; only
// policies that were replaced add to them.
const mostPlans = 1000

// plans keeps the script of every plan.
type plans struct {
	scripts sync.Map // plan to *redisscript.Script
	size    atomic.Int64
}

// add adds subjects of one of the two kinds; privileged ones come first.
func (p *plan) add(subjects []failures.Subject) {
	for i := range subjects {
		p.steps[p.n] = step{subjects[i].Ladder, subjects[i].Bind}
		p.n++
	}
}

func (s *Store) script(p *plan) *redisscript.Script {
	if found, ok := s.plans.scripts.Load(*p); ok {
		return found.(*redisscript.Script)
	}
	if s.plans.size.Add(1) > mostPlans {
		s.plans.scripts.Clear()
		s.plans.size.Store(1)
	}
	script := redisscript.New(p.lua(s.clockLua, s.retain.Load()))
	s.plans.scripts.Store(*p, script)
	return script
}

// forgetPlans is for when something changes that is written into the scripts.
func (s *Store) forgetPlans() {
	s.plans.scripts.Clear()
	s.plans.size.Store(0)
}
