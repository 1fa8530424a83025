package redisfailures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"authguard/failures"
	"authguard/trusted"
)

var errNoPlaces = errors.New("redisfailures: ChargeAs needs Options.Places")

// ChargeAs finds out what a place is to an account and charges accordingly, in
// one trip: the subjects privileged, all of them kept with the account, if the
// place is privileged, else the subjects stranger. The list that does not
// apply is not charged; one that is empty charges nothing, with moment 0 and
// no error. Standings are those of the list that applies, and must be as long
// as the longer one. Now is for the age of the privilege only.
//
// In a cluster a stranger's charge takes one script for each place. They are
// sent along with the question unless this node knows the place to be
// privileged, and taken back if it turns out to be. What this node knows saves
// work and decides nothing, but for keys that it knows to be closed: whether
// the place may pass these it may have learned up to a second ago.
//
// After an error the status is what was found out before it, or Stranger.
func (s *Store) ChargeAs(ctx context.Context, now time.Time, account, place trusted.Key,
	privileged, stranger []failures.Subject, standings []failures.Usage) (trusted.Status, failures.ChargeID, error) {
	if err := s.checkAs(account, privileged, stranger, standings); err != nil {
		return trusted.Stranger, 0, err
	}
	if status, refused := s.shutAs(now, account, place, privileged, stranger, standings); refused {
		return status, 0, nil
	}
	read, epoch := s.reading(), s.places.Epoch()
	parts := s.partsAs(account, privileged, stranger)
	parts[0].asks = &asked{account, place, now.Add(-s.places.Limits().TTL).UnixMilli()}
	later := parts[1:]
	if s.places.Known(account, place, now) == trusted.Privileged {
		parts = parts[:1]
	}
	s.run(ctx, s.bundler.Run, parts)
	first := &parts[0]
	if first.record != nil {
		s.places.Heard(account, *first.record, epoch)
	}
	if first.err == nil && first.status != trusted.Privileged && len(parts) == 1 && !first.refused {
		s.run(ctx, s.bundler.Run, later)
		parts = parts[:1+len(later)]
	}
	return s.concludeAs(ctx, parts, read, standings)
}

// concludeAs fills the standings and undoes what the place's status made
// needless. A place that is privileged passes although that fails: what is
// left is one failure too many of its address, which is only counted here.
func (s *Store) concludeAs(ctx context.Context, parts []part, read reading, standings []failures.Usage) (trusted.Status, failures.ChargeID, error) {
	clear(standings) // not every part was run
	status := parts[0].status
	if parts[0].err == nil && status == trusted.Privileged {
		if s.undo(ctx, parts[1:]) != nil {
			s.counts.lost.Add(1)
		}
		parts = parts[:1]
	}
	for i := range parts {
		if parts[i].err == nil {
			s.fill(&parts[i], read, standings)
		}
	}
	at, err := s.conclude(ctx, parts)
	return status, at, err
}

// partsAs are the parts of a stranger's charge, the account's first. It is
// there even if nothing is charged to it.
func (s *Store) partsAs(account trusted.Key, privileged, stranger []failures.Subject) []part {
	if !s.split {
		return []part{{place: failures.Key(account), privileged: privileged, others: stranger}}
	}
	parts := []part{{place: failures.Key(account), privileged: privileged, index: []int{}}}
	for i := range stranger {
		parts = addTo(parts, &stranger[i], i)
	}
	return parts
}

// shutAs answers without Redis if a list has a closed key and this node knows
// that the list applies.
func (s *Store) shutAs(now time.Time, account, place trusted.Key,
	privileged, stranger []failures.Subject, standings []failures.Usage) (trusted.Status, bool) {
	status, fresh := s.places.Fresh(account, place, now)
	if !fresh {
		return status, false
	}
	if status == trusted.Privileged {
		return status, s.shut(privileged, standings)
	}
	return status, s.shut(stranger, standings)
}

func (s *Store) checkAs(account trusted.Key, privileged, stranger []failures.Subject, standings []failures.Usage) error {
	if s.places == nil {
		return errNoPlaces
	}
	if n := len(privileged) + len(stranger); n > maxSubjects {
		return fmt.Errorf("redisfailures: %d subjects; at most %d in both lists", n, maxSubjects)
	}
	if slices.ContainsFunc(privileged, func(of failures.Subject) bool { return of.Shard != failures.Key(account) }) {
		return errors.New("redisfailures: a privileged place is charged to subjects kept with the account only")
	}
	return errors.Join(check(privileged, standings, true), check(stranger, standings, true))
}
