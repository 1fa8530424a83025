// Package failurestest is the test suite for implementations of failures.Store.
package failurestest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/failures"
)

// Retain and PendingFor are the required settings of the store under test.
const (
	Retain     = 24 * time.Hour
	PendingFor = 5 * time.Second
)

// A Fixture is an empty store with a clock that only Advance moves.
type Fixture struct {
	Store   failures.Store
	Advance func(time.Duration)
}

// Run runs all tests; fresh returns an empty store for each.
func Run(t *testing.T, fresh func(t *testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"AllOrNothing":                   allOrNothing,
		"AtMostNInAnyClosedWindow":       atMostN,
		"BurstGetsExactlyTheLimit":       burst,
		"EachFullLimitIsNamed":           fullLimits,
		"UnboundRungIsReportedOnly":      unbound,
		"AStrictRungSaysWhenThereIsRoom": strict,
		"TakeBackIsIdentity":             takeBack,
		"TakeBackTwiceTakesOne":          takeBackGone,
		"RefusedChargesExtendNothing":    refused,
		"UndecidedIsWorthWaitingFor":     undecided,
		"OldChargeIsAFailure":            decidedByAge,
		"FailedTellsSooner":              failedSooner,
		"PaceDoublesUpToItsMax":          backoff,
		"PaceHoldsUnderABurst":           paceBurst,
		"ABackoffBeginsAnew":             anew,
		"ClearForgetsOneKeyOnly":         clearOne,
		"ReadChangesNothing":             read,
		"WindowsMatchAModel":             model,
		"TooManySubjectsIsAnError":       tooMany,
		"KeysOfDifferentPlacesDoNotMix":  places,
		"WhatIsTakenBackPushesOutNone":   pushedOut,
		"StricterLimitsForgetNothing":    stricter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

var plain = failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 3, Window: time.Minute})

var wide = failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 1000, Window: time.Minute})

func key(n byte) failures.Key { return failures.Key{n, 1, 2, 3, 4, 5, 6, 7, n, 8} }

// subject is key n in its own shard, with all limits binding.
func subject(n byte, l *failures.Limits) failures.Subject {
	return failures.Subject{Shard: key(n), Key: key(n), Limits: l, Bind: failures.Every}
}

// charge charges the subjects, and returns the ID and the usages before it.
func (f Fixture) charge(t *testing.T, subjects ...failures.Subject) (failures.ChargeID, []failures.Usage) {
	t.Helper()
	usages := make([]failures.Usage, len(subjects))
	at, err := f.Store.Charge(t.Context(), subjects, usages)
	if err != nil {
		t.Fatalf("Charge: %v", err)
	}
	return at, usages
}

func (f Fixture) read(t *testing.T, s failures.Subject) failures.Usage {
	t.Helper()
	var out [1]failures.Usage
	if err := f.Store.Read(t.Context(), []failures.Subject{s}, out[:], nil); err != nil {
		t.Fatalf("Read: %v", err)
	}
	return out[0]
}

func (f Fixture) used(t *testing.T, s failures.Subject) failures.Used {
	t.Helper()
	var usage [1]failures.Usage
	var used [1]failures.Used
	must(t, f.Store.Read(t.Context(), []failures.Subject{s}, usage[:], used[:]))
	return used[0]
}

// fail charges the subjects and settles the charge as a failure.
func (f Fixture) fail(t *testing.T, subjects ...failures.Subject) bool {
	t.Helper()
	at, _ := f.charge(t, subjects...)
	must(t, f.Store.Failed(t.Context(), at, subjects))
	return at.Charged()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// stricter tests that limits with a shorter window that keep what earlier limits count forget nothing, and count by
// themselves.
func stricter(t *testing.T, f Fixture) {
	first := subject(1, failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 60, Window: 10 * time.Minute}))
	then := first
	then.Limits = failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 1, Window: 10 * time.Second}).
		Keeping(first.Limits)
	for range 60 {
		want(t, "room at first", f.fail(t, first), true)
	}
	for range 9 {
		f.Advance(11 * time.Second)
		want(t, "count of the stricter limit", f.read(t, then).Count, 0)
		want(t, "room of the stricter limit", f.fail(t, then), true)
		want(t, "room for one more", f.fail(t, then), false)
	}
	want(t, "room of the first limit again", f.fail(t, first), false)
	f.Advance(501*time.Second + time.Millisecond)
	want(t, "count once the first have left", f.read(t, first).Count, 9)
}

// pushedOut tests that taking back surplus charges restores the earlier ones. Charges that do not bind may exceed
// what the limits need.
func pushedOut(t *testing.T, f Fixture) {
	s := subject(1, plain)
	for range 3 {
		f.fail(t, s)
		f.Advance(time.Millisecond)
	}
	unbound := s
	unbound.Bind = 0
	var extra []failures.ChargeID
	for range 60 {
		at, _ := f.charge(t, unbound)
		extra = append(extra, at)
		f.Advance(time.Millisecond)
	}
	for _, at := range extra {
		must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{unbound}))
	}
	want(t, "what is left", f.read(t, s).Count, 3)
	at, _ := f.charge(t, s)
	want(t, "the next charge", at, failures.ChargeID{})
}

func allOrNothing(t *testing.T, f Fixture) {
	full, free := subject(1, plain), subject(2, plain)
	for range 3 {
		want(t, "room", f.fail(t, full), true)
	}
	at, _ := f.charge(t, free, full)
	want(t, "ID of a refused charge", at, failures.ChargeID{})
	want(t, "charges of the one that had room", f.read(t, free).Count, 0)
}

func atMostN(t *testing.T, f Fixture) {
	s := subject(1, plain)
	for range 3 {
		want(t, "room", f.fail(t, s), true)
		f.Advance(10 * time.Second)
	}
	f.Advance(30 * time.Second) // the first charge is exactly one minute old
	want(t, "room at both ends of a closed minute", f.fail(t, s), false)
	f.Advance(time.Millisecond)
	want(t, "room a millisecond later", f.fail(t, s), true)
	want(t, "room for a second one", f.fail(t, s), false)
}

func burst(t *testing.T, f Fixture) {
	limit := failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: 10, Window: time.Minute})
	want(t, "charged of 500", inParallel(t, f, 500, func(int) []failures.Subject {
		return []failures.Subject{subject(1, limit), subject(2, wide)}
	}), 10)
}

func paceBurst(t *testing.T, f Fixture) {
	l := failures.MustLimits(failures.Backoff{After: 3, First: time.Second, Max: 20 * time.Second, Window: time.Hour})
	want(t, "charged of 200 at one moment", inParallel(t, f, 200, func(int) []failures.Subject {
		return []failures.Subject{subject(1, l)}
	}), 3)
}

// inParallel makes n concurrent attempts and returns how many were charged.
func inParallel(t *testing.T, f Fixture, n int, subjects func(i int) []failures.Subject) int {
	var charged atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			s := subjects(i)
			at, err := f.Store.Charge(t.Context(), s, make([]failures.Usage, len(s)))
			if err != nil {
				t.Errorf("Charge: %v", err)
			}
			if at.Charged() {
				charged.Add(1)
			}
		})
	}
	all.Wait()
	return int(charged.Load())
}

func fullLimits(t *testing.T, f Fixture) {
	l := failures.MustLimits(failures.Backoff{},
		failures.Limit{Failures: 2, Window: time.Minute}, failures.Limit{Failures: 3, Window: time.Hour})
	s := subject(1, l)
	f.fail(t, s)
	f.fail(t, s)
	_, st := f.charge(t, s)
	want(t, "full limits after two", st[0].Over, failures.Mask(1))
	f.Advance(time.Minute + time.Millisecond)
	want(t, "room after a minute", f.fail(t, s), true)
	_, st = f.charge(t, s)
	want(t, "full limits after three", st[0].Over, failures.Mask(2))
	want(t, "count", st[0].Count, 3)
	want(
		t,
		"in the minute, in the hour",
		f.used(t, s),
		failures.Used{{Charges: 1}, {Charges: 3, FreeIn: time.Hour - time.Minute}},
	)
	f.Advance(time.Hour - time.Minute)
	want(t, "room when the first two have left the hour", f.fail(t, s), true)
}

// strict tests that FreeIn of a full strict limit ignores other limits that are full for longer.
func strict(t *testing.T, f Fixture) {
	l := failures.MustLimits(failures.Backoff{},
		failures.Limit{Failures: 2, Window: time.Hour}, failures.Limit{Failures: 4, Window: time.Hour, Strict: true})
	s := subject(1, l)
	s.Bind = 2
	for range 4 {
		f.fail(t, s)
		f.Advance(time.Minute)
	}
	s.Bind = failures.Every
	want(t, "until the strict limit opens", f.read(t, s).FreeIn, 56*time.Minute+time.Millisecond)
	used := f.used(t, s)
	want(t, "until each opens", [2]time.Duration{used[0].FreeIn, used[1].FreeIn},
		[2]time.Duration{58*time.Minute + time.Millisecond, 56*time.Minute + time.Millisecond})
	s.Bind = 1
	want(t, "where the strict limit does not bind", f.read(t, s).FreeIn, 58*time.Minute+time.Millisecond)
}

func unbound(t *testing.T, f Fixture) {
	s := subject(1, plain)
	s.Bind = 0
	for range 3 {
		f.fail(t, s)
	}
	at, st := f.charge(t, s)
	want(t, "full limits", st[0].Over, failures.Mask(1))
	want(t, "charged all the same", at.Charged(), true)
	want(t, "no time to wait for", st[0].FreeIn, 0)
}

func takeBack(t *testing.T, f Fixture) {
	s := subject(1, plain)
	f.fail(t, s)
	f.Advance(time.Second)
	before := f.read(t, s)
	at, _ := f.charge(t, s)
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{s}))
	want(t, "usage", f.read(t, s), before)
	want(t, "room for the second", f.fail(t, s), true)
	want(t, "room for the third", f.fail(t, s), true)
	want(t, "room for a fourth", f.fail(t, s), false)
}

func takeBackGone(t *testing.T, f Fixture) {
	s := subject(1, plain)
	f.fail(t, s)
	f.Advance(time.Second)
	at, _ := f.charge(t, s)
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{s}))
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{s}))
	must(t, f.Store.TakeBack(t.Context(), failures.ChargeID{}, []failures.Subject{s}))
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{subject(9, plain)}))
	want(t, "count", f.read(t, s).Count, 1)
}

func refused(t *testing.T, f Fixture) {
	s := subject(1, plain)
	for range 3 {
		f.fail(t, s)
	}
	for range 59 {
		f.Advance(time.Second)
		want(t, "room", f.fail(t, s), false)
	}
	f.Advance(time.Second + time.Millisecond)
	want(t, "room a minute after the last that was let in", f.fail(t, s), true)
}

func undecided(t *testing.T, f Fixture) {
	s := subject(1, plain)
	f.fail(t, s)
	f.fail(t, s)
	at, _ := f.charge(t, s)
	f.Advance(time.Second)
	got := f.read(t, s)
	want(t, "full", got.Over, failures.Mask(1))
	want(t, "full for good", got.Failed, failures.Mask(0))
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{s}))
	want(t, "room when it succeeded", f.read(t, s).Over, failures.Mask(0))
}

func decidedByAge(t *testing.T, f Fixture) {
	s := subject(1, plain)
	for range 3 {
		f.charge(t, s)
	}
	want(t, "full for good while young", f.read(t, s).Failed, failures.Mask(0))
	f.Advance(PendingFor + time.Millisecond)
	want(t, "full for good when old", f.read(t, s).Failed, failures.Mask(1))
}

// failedSooner accepts stores that ignore Failed until the charges are old.
func failedSooner(t *testing.T, f Fixture) {
	s := subject(1, plain)
	for range 3 {
		f.fail(t, s)
	}
	want(t, "full", f.read(t, s).Over, failures.Mask(1))
	f.Advance(PendingFor + time.Millisecond)
	want(t, "full for good", f.read(t, s).Failed, failures.Mask(1))
}

func backoff(t *testing.T, f Fixture) {
	l := failures.MustLimits(failures.Backoff{After: 3, First: time.Second, Max: 20 * time.Second, Window: time.Hour})
	s := subject(1, l)
	for range 3 {
		want(t, "free of delay", f.fail(t, s), true)
	}
	for _, seconds := range []int{1, 2, 4, 8, 16, 20, 20, 20} {
		delay := time.Duration(seconds) * time.Second
		f.Advance(delay - time.Millisecond)
		got := f.read(t, s)
		want(t, "not due", got.Over, failures.BackoffBit)
		want(t, "room", f.fail(t, s), false)
		f.Advance(time.Millisecond)
		want(t, "due", f.fail(t, s), true)
	}
}

// anew tests that resetting the backoff leaves the limits' counts unchanged.
func anew(t *testing.T, f Fixture) {
	l := failures.MustLimits(failures.Backoff{After: 2, First: time.Second, Max: 20 * time.Second, Window: time.Hour},
		failures.Limit{Failures: 6, Window: time.Hour})
	s := subject(1, l)
	must(t, f.Store.Clear(t.Context(), []failures.Subject{s}, failures.BackoffBit)) // without any charge
	for round := range 3 {
		for i := range 2 {
			want(t, fmt.Sprint("room for charge ", i, " of round ", round), f.fail(t, s), true)
			f.Advance(time.Millisecond)
		}
		mask := failures.BackoffBit
		if round == 2 {
			mask |= 1
		}
		want(t, "not due", f.read(t, s).Over, mask)
		want(t, "due in", f.used(t, s)[failures.MaxLimits].FreeIn, time.Second-time.Millisecond)
		must(t, f.Store.Clear(t.Context(), []failures.Subject{s}, failures.BackoffBit))
		want(t, "count", f.read(t, s).Count, int32(2*round+2))
	}
	want(t, "full, and due", f.read(t, s).Over, failures.Mask(1))
	f.Advance(time.Hour)
	want(t, "room an hour later", f.fail(t, s), true)
	want(t, "room for the next", f.fail(t, s), true)
	want(t, "not due after two new ones", f.read(t, s).Over, failures.BackoffBit)
	must(t, f.Store.Clear(t.Context(), []failures.Subject{s}, failures.Every))
	want(t, "all cleared", f.read(t, s), failures.Usage{})
	at, _ := f.charge(t, s)
	must(t, f.Store.Clear(t.Context(), []failures.Subject{s}, failures.BackoffBit))
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{s}))
	want(t, "taken back", f.read(t, s), failures.Usage{})
	f.fail(t, s) // in the same millisecond as the removed charge
	f.fail(t, s)
	want(t, "not due after two at that moment", f.read(t, s).Over, failures.BackoffBit)
	must(t, f.Store.Clear(t.Context(), []failures.Subject{s}, failures.Every))
	f.fail(t, s) // an older one stays
	f.Advance(time.Millisecond)
	at, _ = f.charge(t, s)
	must(t, f.Store.Clear(t.Context(), []failures.Subject{s}, failures.BackoffBit))
	must(t, f.Store.TakeBack(t.Context(), at, []failures.Subject{s}))
	want(t, "the older one does not delay", f.read(t, s).Over, 0)
	f.fail(t, s)
	f.fail(t, s)
	want(t, "not due after two beside an older one", f.read(t, s).Over, failures.BackoffBit)
}

func clearOne(t *testing.T, f Fixture) {
	a, b := subject(1, plain), subject(2, plain)
	b.Shard = a.Shard
	for range 3 {
		f.fail(t, a, b)
	}
	must(t, f.Store.Clear(t.Context(), []failures.Subject{a}, failures.Every))
	want(t, "cleared", f.read(t, a).Count, 0)
	want(t, "its neighbour", f.read(t, b).Count, 3)
}

func read(t *testing.T, f Fixture) {
	s := subject(1, plain)
	for range 10 {
		want(t, "count", f.read(t, s).Count, 0)
	}
	f.fail(t, s)
	want(t, "count", f.read(t, s).Count, 1)
}

func tooMany(t *testing.T, f Fixture) {
	subjects := make([]failures.Subject, 9)
	for i := range subjects {
		subjects[i] = subject(byte(i), plain)
	}
	if _, err := f.Store.Charge(t.Context(), subjects, make([]failures.Usage, 9)); err == nil {
		t.Fatal("nine subjects: no error")
	}
	if _, err := f.Store.Charge(t.Context(), subjects[:2], make([]failures.Usage, 1)); err == nil {
		t.Fatal("one usage for two subjects: no error")
	}
}

func places(t *testing.T, f Fixture) {
	subjects := make([]failures.Subject, 8)
	for i := range subjects {
		subjects[i] = subject(byte(i*31), plain)
	}
	f.fail(t, subjects...)
	for _, s := range subjects {
		want(t, "count", f.read(t, s).Count, 1)
	}
}
