package redisfailures

import (
	"context"
	"encoding/base64"
	"errors"

	"authguard/failures"
	"authguard/trusted"
)

// ChargeAs asks what a place is to an account and charges accordingly, in one
// trip: privileged's subjects if the place is privileged, else stranger's.
// Either list may be empty: then nothing is charged for it. Privileged's
// subjects must lie in the account's place. standings tells how the subjects
// of the list that applied stood.
//
// Of stranger's subjects those elsewhere are charged in the same trip, before
// the answer is known, and taken back if the place turns out to be privileged.
func (s *Store) ChargeAs(ctx context.Context, account, place trusted.Key, privileged, stranger []failures.Subject, standings []failures.Standing) (trusted.Status, failures.Moment, error) {
	if err := errors.Join(check(privileged, standings, true), check(stranger, standings, true)); err != nil {
		return trusted.Stranger, 0, err
	}
	proposed := s.clock.propose()
	recognise := s.recognising(account, place, privileged, stranger, proposed)
	calls := []call{recognise.call}
	for _, g := range groups(stranger) {
		if g.place != failures.Key(account) {
			calls = append(calls, s.charging(stranger, g, proposed))
		}
	}
	answers, err := s.run(ctx, calls)
	if err != nil {
		return trusted.Stranger, 0, err
	}
	status := trusted.Status(answers[0].status)
	if status == trusted.Privileged {
		return s.recognised(ctx, recognise, calls, answers, standings)
	}
	calls[0].group = recognise.stranger
	at, err := s.conclude(ctx, inOrder(calls), inOrder(answers), stranger, standings)
	return status, at, err
}

// inOrder puts what was asked of the account, which came first, where the
// stranger's subjects have it: last.
func inOrder[T any](all []T) []T { return append(all[1:len(all):len(all)], all[0]) }

// A recognition is the call that asks about the place, and the subjects that
// it charges in either case.
type recognition struct {
	call
	privileged, stranger group
}

func (s *Store) recognising(account, place trusted.Key, privileged, stranger []failures.Subject, moment int64) recognition {
	r := recognition{privileged: group{place: failures.Key(account)}, stranger: group{place: failures.Key(account)}}
	for i := range privileged {
		r.privileged.members = append(r.privileged.members, i)
	}
	for i := range stranger {
		if stranger[i].Place == failures.Key(account) {
			r.stranger.members = append(r.stranger.members, i)
		}
	}
	first, second := s.charging(privileged, r.privileged, moment), s.charging(stranger, r.stranger, moment)
	r.keys = append([]string{s.placesKey(account)}, append(first.keys, second.keys...)...)
	r.args = append([]any{moment, place[:], s.ttl.Milliseconds(), len(first.keys)}, append(first.args[1:], second.args[1:]...)...)
	var ladders []*failures.Ladder
	for _, i := range r.privileged.members {
		ladders = append(ladders, privileged[i].Ladder)
	}
	for _, i := range r.stranger.members {
		ladders = append(ladders, stranger[i].Ladder)
	}
	r.script = s.script("recognise", ladders, newRecognise)
	return r
}

// placesKey is where package redisplaces keeps the account's record.
func (s *Store) placesKey(account trusted.Key) string {
	return s.prefix + "{" + base64.RawURLEncoding.EncodeToString(account[:]) + "}p"
}

// recognised ends the charge of a place that turned out to be privileged.
func (s *Store) recognised(ctx context.Context, r recognition, calls []call, answers []answer, standings []failures.Standing) (trusted.Status, failures.Moment, error) {
	if _, err := answers[0].standings(r.privileged.members, standings); err != nil {
		return trusted.Stranger, 0, err
	}
	var back []call
	for i := 1; i < len(calls); i++ {
		if answers[i].at != 0 {
			back = append(back, s.takingBack(calls[i].keys, answers[i].at, answers[i].at))
		}
	}
	if len(back) > 0 {
		if _, err := s.send(context.WithoutCancel(ctx), back); err != nil {
			return trusted.Privileged, failures.Moment(answers[0].at), err
		}
	}
	return trusted.Privileged, failures.Moment(answers[0].at), nil
}
