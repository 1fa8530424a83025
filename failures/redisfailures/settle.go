package redisfailures

import (
	"context"
	"fmt"

	"authguard/failures"
	"authguard/internal/redisscript"
)

// Read implements failures.Store.
func (s *Store) Read(ctx context.Context, subjects []failures.Subject, standings []failures.Usage) error {
	if err := check(subjects, standings, true); err != nil {
		return err
	}
	pending := uint32(s.pending.Load())
	err := s.each(ctx, subjects, func(one *part) redisscript.Call {
		return s.settling(s.scripts.read, one)
	}, func(i int, now int64, charges []uint32) {
		undecided := s.decided.undecided(subjects[i].Key, charges, uint32(now), pending)
		subjects[i].Stand(charges, uint32(now), undecided, &standings[i])
		subjects[i].Tally(charges, uint32(now), &standings[i])
	})
	if err != nil {
		return fmt.Errorf("redisfailures: reading: %w", err)
	}
	return nil
}

// TakeBack implements failures.Store. What is taken back so late that it
// counted as a failure may open a key that nodes remember as closed; they are
// told.
func (s *Store) TakeBack(ctx context.Context, at failures.ChargeID, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil || at == 0 {
		return err
	}
	opened := false
	err := s.each(ctx, subjects, func(one *part) redisscript.Call {
		return s.takeBack(one, stampOf(at, one.place))
	}, func(i int, now int64, charges []uint32) {
		opened = opened || wasFull(&subjects[i], charges, now)
	})
	return s.settled(ctx, "taking back", opened, err)
}

// Failed implements failures.Store. It writes nothing, and is remembered by
// this node alone.
func (s *Store) Failed(_ context.Context, at failures.ChargeID, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil || at == 0 {
		return err
	}
	now, age := s.now(), s.pending.Load()
	for i := range subjects {
		s.decided.add(subjects[i].Key, uint32(stampOf(at, subjects[i].Shard)), now, age)
	}
	return nil
}

// Clear implements failures.Store. Within a second no node remembers any of
// the subjects as closed.
func (s *Store) Clear(ctx context.Context, subjects []failures.Subject) error {
	if err := check(subjects, nil, false); err != nil {
		return err
	}
	opened := false
	err := s.each(ctx, subjects, func(one *part) redisscript.Call {
		return s.settling(s.scripts.clear, one)
	}, func(i int, now int64, charges []uint32) {
		s.decided.forget(subjects[i].Key, charges)
		opened = opened || wasFull(&subjects[i], charges, now)
	})
	return s.settled(ctx, "clearing", opened, err)
}

// wasFull reports whether a subject had been full on any rung, bound or not.
func wasFull(subject *failures.Subject, charges []uint32, now int64) bool {
	var standing failures.Usage
	subject.Stand(charges, uint32(now), 0, &standing)
	return standing.Over != 0
}

// settled tells all nodes if a key was opened, although not all may have gone
// well.
func (s *Store) settled(ctx context.Context, what string, opened bool, err error) error {
	if opened {
		s.epoch.End(ctx)
	}
	if err != nil {
		return fmt.Errorf("redisfailures: %s: %w", what, err)
	}
	return nil
}

// takeBack is the call that takes back what was charged at one place.
func (s *Store) takeBack(one *part, stamp int64) redisscript.Call {
	return s.settling(s.scripts.takeBack, one, stamp, s.pending.Load())
}

// settling is a call of a script that needs no ladder, for one place.
func (s *Store) settling(script *redisscript.Script, one *part, more ...any) redisscript.Call {
	keys := make([]any, 1, 1+len(one.others))
	keys[0] = string(s.appendBook(nil, one.place))
	args := make([]any, 0, len(one.others)+len(more)+2)
	itself := 0
	for i := range one.others {
		if isBook(&one.others[i]) {
			itself = 1
			continue
		}
		keys = append(keys, string(s.appendOwn(nil, &one.others[i])))
		args = append(args, tag(&one.others[i]))
	}
	args = append(append(args, itself), more...)
	return redisscript.Call{Script: script, Keys: keys, Args: append(args, s.clockArgs()...)}
}

// each makes a call for each place of the subjects, all in one round trip, and
// hands over what was told of each subject.
func (s *Store) each(ctx context.Context, subjects []failures.Subject,
	call func(*part) redisscript.Call, told func(i int, now int64, charges []uint32)) error {
	if len(subjects) == 0 {
		return nil
	}
	places := byPlace(subjects)
	calls := make([]redisscript.Call, len(places))
	for i := range places {
		calls[i] = call(&places[i])
	}
	err := redisscript.Run(ctx, s.client, calls)
	for i := range places {
		places[i].tell(&calls[i], told)
	}
	return err
}

// tell hands over what a script told of the charges at one place, if it did.
func (p *part) tell(call *redisscript.Call, told func(i int, now int64, charges []uint32)) {
	list, _ := call.Reply.([]any)
	if call.Err != nil || len(list) < 2 {
		return
	}
	now, _ := list[0].(int64)
	book, _ := list[1].(string) // nothing, if there is none; and so below
	own := list[2:]
	for i := range p.others {
		text := mainOf(book)
		if !isBook(&p.others[i]) {
			if len(own) == 0 {
				return
			}
			text, _ = own[0].(string)
			if own = own[1:]; text == "" {
				text = section(book, tag(&p.others[i]))
			}
		}
		charges := chargesOf(text)
		told(p.where(i), notBefore(charges, now), charges)
	}
}
