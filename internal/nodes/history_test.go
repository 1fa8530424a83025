package nodes

import (
	"testing"
	"time"

	"authguard/failures"
)

func of(names ...byte) (subjects []failures.Subject) {
	for _, name := range names {
		subjects = append(subjects, failures.Subject{Key: failures.Key{name}})
	}
	return subjects
}

// left are the keys of the charges that a Redis that lost all would be told.
func left(h *history) (names string) {
	charges, _ := h.standing(func(*failures.Subject) bool { return true }, time.Time{})
	for i := range charges {
		for _, one := range charges[i].of() {
			names += string(one.Key[0])
		}
		names += " "
	}
	return names
}

func TestHistoryForgetsWhatWasClearedAndNotWhatCameLater(t *testing.T) {
	t.Parallel()
	h := new(history)
	h.charged(1, of('a', 'p'), false)
	h.charged(2, of('b', 'p'), false)
	h.cleared(of('p'), false)
	h.charged(3, of('a', 'p'), false)
	h.charged(4, of('c', 'q'), false)
	h.tookBack(4, of('c', 'q'), false)
	for range 2 { // asking changes nothing
		if got, want := left(h), "a b ap "; got != want {
			t.Errorf("left are %q, want %q", got, want)
		}
	}
}

func TestHistoryDropsTheOldestChargeOnlyWhenNothingElseCanGo(t *testing.T) {
	t.Parallel()
	h := new(history)
	h.charged(1, of('a'), false)
	for at := failures.ChargeID(2); at < 3*mostCharges; at++ { // logins
		h.charged(at, of('p'), false)
		h.tookBack(at, of('p'), false)
		h.cleared(of('p'), false)
	}
	if got, want := left(h), "a "; got != want {
		t.Errorf("after logins left are %q, want %q", got, want)
	}
	for at := failures.ChargeID(3 * mostCharges); at < 4*mostCharges; at++ {
		h.charged(at, of('b'), false)
	}
	charges, _ := h.standing(func(*failures.Subject) bool { return true }, time.Time{})
	if n := len(charges); n < mostCharges*9/10 || n > mostCharges || charges[0].at == 1 || charges[n-1].at != 4*mostCharges-1 {
		t.Errorf("%d are left, from %d to %d", n, charges[0].at, charges[n-1].at)
	}
}

func TestWhatWasTakenBackBeforeRedisHeardOfItIsNotTold(t *testing.T) {
	t.Parallel()
	var h history
	subjects := []failures.Subject{{Key: failures.Key{1}}, {Key: failures.Key{2}}}
	h.charged(1, subjects, true)
	h.charged(2, subjects, true)
	h.tookBack(2, subjects, true)
	h.tookBack(1, subjects[:1], true)
	deeds, upTo := h.next(10)
	if len(deeds) != 2 || deeds[0].n != 1 || deeds[1].n != 0 {
		t.Fatalf("%+v", deeds)
	}
	h.tookBack(1, subjects[1:], true) // Redis may have heard of it by now
	h.heard(upTo)
	if deeds, _ = h.next(10); len(deeds) != 1 || deeds[0].what != tookBack {
		t.Errorf("%+v", deeds)
	}
}
