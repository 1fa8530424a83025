package redisfailures_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"authguard/failures"
	"authguard/failures/redisfailures"
	"authguard/internal/redistest"
	"authguard/trusted"
	"authguard/trusted/redisplaces"
)

// A whole is both stores of one node.
type whole struct {
	*redisfailures.Store
	places *redisplaces.Store
	seen   *spy
}

func (on redisOf) whole(t testing.TB) whole {
	t.Helper()
	client, seen := on.open(t), new(spy)
	client.AddHook(seen)
	return on.wholeOver(t, client, seen)
}

func (on redisOf) wholeOver(t testing.TB, client redis.UniversalClient, seen *spy) whole {
	t.Helper()
	places, err := redisplaces.New(client, redisplaces.Options{Prefix: on.prefix})
	must(t, err)
	t.Cleanup(places.Stop)
	o := on.options()
	o.Places = places
	return whole{newStore(t, client, o), places, seen}
}

// A visit is somebody at an address who wants into an account.
type visit struct{ account, place trusted.Key }

func visitTo(account, address int) visit {
	return visit{trusted.Key(digest('a', account)), trusted.Key(digest('i', address))}
}

func (v visit) stranger() []failures.Subject {
	account, address := failures.Key(v.account), failures.Key(v.place)
	network, pair := digest('n', int(address[0])), digest('p', int(account[0])<<8+int(address[0]))
	return []failures.Subject{
		{Shard: network, Key: address, Ladder: limit, Bind: failures.Every},
		{Shard: network, Key: network, Ladder: wide, Bind: failures.Every},
		{Shard: account, Key: account, Ladder: plain, Bind: failures.Every},
		{Shard: account, Key: pair, Ladder: wide, Bind: failures.Every},
	}
}

func (v visit) privileged() []failures.Subject { return v.stranger()[3:] }

func (v visit) as(t testing.TB, w whole) (trusted.Status, failures.ChargeID, []failures.Usage) {
	t.Helper()
	standings := make([]failures.Usage, 4)
	status, at, err := w.ChargeAs(t.Context(), time.Now(), v.account, v.place, v.privileged(), v.stranger(), standings)
	must(t, err)
	return status, at, standings
}

// counts are those of the stranger's subjects.
func (v visit) counts(t testing.TB, w whole) (counts [4]int) {
	t.Helper()
	standings := make([]failures.Usage, 4)
	must(t, w.Read(t.Context(), v.stranger(), standings))
	for i, st := range standings {
		counts[i] = st.Count
	}
	return counts
}

func (w whole) remember(t testing.TB, v visit) {
	t.Helper()
	must(t, w.places.Remember(t.Context(), v.account, v.place, time.Now()))
}

func chargeAsAStranger(t *testing.T, on redisOf) {
	w, v := on.whole(t), visitTo(1, 1)
	status, at, _ := v.as(t, w)
	want(t, "status", status, trusted.Stranger)
	want(t, "counts", v.counts(t, w), [4]int{1, 1, 1, 1})
	before := w.seen.trips.Load()
	v.as(t, w)
	want(t, "trips", w.seen.trips.Load()-before, 1)
	must(t, w.TakeBack(t.Context(), at, v.stranger()))
	want(t, "counts when it is taken back", v.counts(t, w), [4]int{1, 1, 1, 1})
	v.as(t, w)
	v.as(t, w)
	status, at, st := v.as(t, w)
	want(t, "status", status, trusted.Stranger)
	want(t, "moment beyond the limit", at, 0)
	want(t, "full", st[2].Over, failures.Mask(1))
	want(t, "counts", v.counts(t, w), [4]int{3, 3, 3, 3})
}

func chargeAsAPrivilegedPlace(t *testing.T, on redisOf) {
	w, other, v := on.whole(t), on.whole(t), visitTo(1, 1)
	other.remember(t, v)
	for n := range 3 {
		status, at, st := v.as(t, w)
		want(t, "status", status, trusted.Privileged)
		want(t, "charged", at != 0, true)
		want(t, "count before", st[0].Count, n)
		want(t, "counts", v.counts(t, w), [4]int{0, 0, 0, n + 1})
	}
	if on.split {
		want(t, "networks charged in vain: the first time only", w.Counts().TakenBack, 1)
	}
	before := w.seen.trips.Load()
	_, at, _ := v.as(t, w)
	want(t, "trips", w.seen.trips.Load()-before, 1)
	must(t, w.TakeBack(t.Context(), at, v.privileged()))
	want(t, "counts when it is taken back", v.counts(t, w), [4]int{0, 0, 0, 3})
	status, _, _ := visitTo(2, 1).as(t, w)
	want(t, "status for another account", status, trusted.Stranger)
}

func chargeAsASpentPlace(t *testing.T, on redisOf) {
	w, v := on.whole(t), visitTo(1, 1)
	w.remember(t, v)
	must(t, w.places.Spend(t.Context(), v.account, v.place, time.Now()))
	status, _, _ := v.as(t, w)
	want(t, "status", status, trusted.Spent)
	want(t, "counts", v.counts(t, w), [4]int{1, 1, 1, 1})
}

func chargeAsWithEmptyLists(t *testing.T, on redisOf) {
	w, v := on.whole(t), visitTo(1, 1)
	ask := func(privileged, stranger []failures.Subject) (trusted.Status, failures.ChargeID) {
		status, at, err := w.ChargeAs(t.Context(), time.Now(), v.account, v.place, privileged, stranger, make([]failures.Usage, 4))
		must(t, err)
		return status, at
	}
	status, at := ask(v.privileged(), nil)
	want(t, "a stranger's status", status, trusted.Stranger)
	want(t, "a stranger's moment", at, 0)
	w.remember(t, v)
	status, at = ask(nil, v.stranger())
	want(t, "a privileged place's status", status, trusted.Privileged)
	want(t, "a privileged place's moment", at, 0)
	status, _ = ask(nil, nil)
	want(t, "status alone", status, trusted.Privileged)
	want(t, "counts", v.counts(t, w), [4]int{})
	wrong := v.stranger()[:1]
	if _, _, err := w.ChargeAs(t.Context(), time.Now(), v.account, v.place, wrong, nil, make([]failures.Usage, 4)); err == nil {
		t.Error("a privileged place was charged elsewhere than with its account")
	}
}

// What a node knows spares it work, and makes nobody privileged.
func forgottenPlaceIsAStranger(t *testing.T, on redisOf) {
	here, there, v := on.whole(t), on.whole(t), visitTo(1, 1)
	here.Start()
	here.places.Start()
	here.remember(t, v)
	status, _, _ := v.as(t, here)
	want(t, "status", status, trusted.Privileged)
	must(t, there.places.Forget(t.Context(), v.account, v.place, time.Now()))
	status, at, _ := v.as(t, here)
	want(t, "status at once on the other node", status, trusted.Stranger)
	want(t, "charged", at != 0, true)
	want(t, "counts", v.counts(t, here), [4]int{1, 1, 1, 2})
	must(t, here.TakeBack(t.Context(), at, v.stranger()))
	want(t, "counts when it is taken back", v.counts(t, here), [4]int{0, 0, 0, 1})
}

// The script reads the record by itself; it has to read it as Go does.
func scriptAndRecordAgree(t *testing.T, on redisOf) {
	w, ttl := on.whole(t), trusted.DefaultTTL
	account := 0
	rapid.Check(t, func(rt *rapid.T) {
		account++
		now := time.Now()
		for range rapid.IntRange(0, 12).Draw(rt, "changes") {
			v := visitTo(account, rapid.IntRange(1, 9).Draw(rt, "place"))
			then := now.Add(-rapid.SampledFrom([]time.Duration{0, time.Hour, ttl - time.Minute, ttl}).Draw(rt, "ago"))
			if rapid.Bool().Draw(rt, "spent") {
				must(t, w.places.Spend(t.Context(), v.account, v.place, then))
			} else {
				must(t, w.places.Remember(t.Context(), v.account, v.place, then))
			}
		}
		for place := range 10 {
			v := visitTo(account, place)
			told, err := w.places.Status(t.Context(), v.account, v.place, now)
			must(t, err)
			status, _, err := w.ChargeAs(t.Context(), now, v.account, v.place, nil, nil, nil)
			must(t, err)
			if status != told {
				rt.Fatalf("place %d: the script says %v, the record %v", place, status, told)
			}
		}
	})
}

// R14: a privileged place passes where strangers knock in vain, and they cost
// no call.
func closedKeyLetsPrivilegedPass(t *testing.T, on redisOf) {
	w, owner := on.whole(t), visitTo(1, 1)
	w.remember(t, owner)
	w.Start()
	w.places.Start()
	for n := range 3 {
		v := visitTo(1, 100+n)
		_, at, _ := v.as(t, w)
		must(t, w.Failed(t.Context(), at, v.stranger()))
	}
	knock := func(n int) {
		status, at, st := visitTo(1, 200+n).as(t, w)
		want(t, "a stranger's status", status, trusted.Stranger)
		want(t, "a stranger's moment", at, 0)
		want(t, "the account has failed", st[2].Failed, failures.Mask(1))
	}
	redistest.Until(t, "the account to be known as closed", func() bool {
		before := w.Counts().Closed
		knock(0)
		return w.Counts().Closed > before
	})
	before := w.Counts().Closed
	for n := range 100 {
		knock(n)
	}
	if answered := w.Counts().Closed - before; answered < 95 {
		t.Errorf("%d of 100 knocks of strangers from everywhere were answered without a call", answered)
	}
	status, at, _ := owner.as(t, w)
	want(t, "the owner's status", status, trusted.Privileged)
	want(t, "the owner passes", at != 0, true)
}
