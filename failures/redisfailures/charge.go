package redisfailures

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"authguard/failures"
	"authguard/internal/redisscript"
)

// Charge implements failures.Store. Subjects are meant to be of two places, as
// an attempt's are; see errClocks for more in a cluster. Of a charge that is
// refused without asking Redis the standings of the other subjects are zero.
func (s *Store) Charge(ctx context.Context, subjects []failures.Subject, standings []failures.Usage) (failures.ChargeID, error) {
	if err := check(subjects, standings, true); err != nil || len(subjects) == 0 {
		return 0, err
	}
	if s.shut(subjects, standings) {
		return 0, nil
	}
	read := s.reading()
	parts := s.parts(subjects)
	s.run(ctx, s.bundler.Run, parts)
	for i := range parts {
		if parts[i].err == nil {
			s.fill(&parts[i], read, standings)
		}
	}
	return s.conclude(ctx, parts)
}

// A Past is a charge that was made elsewhere, at a time by Redis's clock.
type Past struct {
	At       time.Time
	Subjects []failures.Subject
}

// Add charges what was counted elsewhere, all in one round trip, whether there
// is room or not: for a node that could not reach Redis. The oldest comes
// first: a key with a younger charge is charged at the time of that one. A
// TakeBack with the same time in milliseconds finds a charge.
func (s *Store) Add(ctx context.Context, past ...Past) error {
	var parts []part
	for _, one := range past {
		if err := check(one.Subjects, nil, false); err != nil {
			return err
		}
		unbound := slices.Clone(one.Subjects)
		for i := range unbound {
			unbound[i].Bind = 0
		}
		if len(unbound) == 0 {
			continue
		}
		for _, p := range s.parts(unbound) {
			p.told = one.At.UnixMilli()
			parts = append(parts, p)
		}
	}
	if len(parts) == 0 {
		return nil
	}
	s.run(ctx, s.alone, parts)
	return firstError(parts)
}

// conclude makes one moment of what the parts did, or undoes it if one of them
// refused or failed.
func (s *Store) conclude(ctx context.Context, parts []part) (failures.ChargeID, error) {
	err := firstError(parts)
	var stamps []stamp
	refused := false
	for i := range parts {
		refused = refused || parts[i].refused
		if parts[i].charged() {
			stamps = append(stamps, stamp{parts[i].place, parts[i].at})
		}
	}
	at, ok := momentOf(stamps)
	switch {
	case err == nil && !refused && ok:
		return at, nil
	case err == nil && !refused:
		err = errClocks
	}
	return 0, errors.Join(err, s.undo(ctx, parts))
}

// undo takes back what the parts charged, although the caller may have gone:
// nobody else will.
func (s *Store) undo(ctx context.Context, parts []part) error {
	var calls []redisscript.Call
	for i := range parts {
		if !parts[i].charged() {
			continue
		}
		s.counts.takenBack.Add(1)
		for _, place := range byPlace(parts[i].charges()) {
			calls = append(calls, s.takeBack(&place, parts[i].at))
		}
	}
	if len(calls) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleWithin)
	defer cancel()
	if err := redisscript.Run(ctx, s.client, calls); err != nil {
		return fmt.Errorf("redisfailures: taking back half a charge: %w", err)
	}
	return nil
}
