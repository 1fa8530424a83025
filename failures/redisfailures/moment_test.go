package redisfailures

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/failures"
)

func TestEachPlaceFindsItsStampInAMoment(t *testing.T) {
	t.Parallel()
	key := func(rt *rapid.T, name string) failures.Key {
		return failures.Key(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, name))
	}
	rapid.Check(t, func(rt *rapid.T) {
		a := stamp{key(rt, "a"), rapid.Int64Range(1, 1<<41).Draw(rt, "at")}
		b := stamp{key(rt, "b"), a.at + rapid.Int64Range(-farthest, farthest).Draw(rt, "apart")}
		if a.place == b.place || b.at < 1 {
			rt.Skip("one place")
		}
		there, ok := momentOf([]stamp{a, b})
		back, _ := momentOf([]stamp{b, a})
		if !ok || there <= 0 || there != back {
			rt.Fatalf("moments %d and %d, %v", there, back, ok)
		}
		if got := stampOf(there, a.place); got != a.at {
			rt.Fatalf("a is found at %d, not %d", got, a.at)
		}
		if got := stampOf(there, b.place); got != b.at {
			rt.Fatalf("b is found at %d, not %d", got, b.at)
		}
		if apart := there.Time().UnixMilli() - a.at; apart != 0 && apart != b.at-a.at {
			rt.Fatalf("the moment's time is neither's")
		}
	})
}

func TestMomentOfEqualStampsIsTheirTime(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMilli()
	var stamps []stamp
	for i := range 5 {
		stamps = append(stamps, stamp{failures.Key{byte(i)}, now})
	}
	at, ok := momentOf(stamps)
	if !ok || int64(at) != now {
		t.Fatalf("%d, %v; want %d", at, ok, now)
	}
}

func TestMomentRefusesClocksTooFarApart(t *testing.T) {
	t.Parallel()
	for name, stamps := range map[string][]stamp{
		"9 seconds":    {{failures.Key{1}, 10_000}, {failures.Key{2}, 19_000}},
		"three places": {{failures.Key{1}, 10_000}, {failures.Key{2}, 10_001}, {failures.Key{3}, 10_000}},
	} {
		if at, ok := momentOf(stamps); ok {
			t.Errorf("%s: moment %d", name, at)
		}
	}
}
