package guard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/guard"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// sprayed is a world in which strangers have tried the right password at so many
// other accounts, where it was wrong.
func spray(t *testing.T, w *world.World, accounts int) {
	t.Helper()
	for i := range accounts {
		a := world.From(fmt.Sprint("victim", i), world.Address(i/2))
		a.PasswordTag = w.Fingerprint(world.Right)
		if d, ok, err := w.Login(context.Background(), a, func(context.Context) (bool, error) { return false, nil }); d.Action != guard.Proceed || ok || err != nil {
			t.Fatalf("account %d: %v, %v", i, d.Action, err)
		}
		w.Clock.Advance(time.Minute)
	}
	w.Offer(t, "somebody", world.Address(5000), "anything") // shares what was seen
}

// sprayFrom tries one password at invented names, each from its own address, seven
// seconds apart.
func sprayFrom(t *testing.T, w *world.World, names int, password string, from func(i int) string) {
	t.Helper()
	for i := range names {
		a := world.From(fmt.Sprint("invented", i), from(i))
		a.PasswordTag = w.Fingerprint(password)
		if d, _, err := w.Login(context.Background(), a, func(context.Context) (bool, error) { return false, nil }); d.Action != guard.Proceed || err != nil {
			t.Fatalf("name %d: %v, %v", i, d.Action, err)
		}
		w.Clock.Advance(7 * time.Second)
	}
	w.Offer(t, "somebody", world.Address(5000), "anything") // shares what was seen
}

// Ten guesses with one password at invented names, from one IP address or from one
// network, leave the password good for its owners elsewhere. The network itself is
// refused. Four networks make it a sprayed password.
func TestR28OneNetworkPoisonsNoPassword(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		names    int
		from     func(i int) string
		poisoned bool
	}{
		"one address":    {10, func(int) string { return "198.51.100.1" }, false},
		"one network":    {10, func(i int) string { return fmt.Sprint("198.51.100.", i) }, false},
		"three networks": {30, func(i int) string { return fmt.Sprintf("198.51.%d.%d", 100+i%3, i) }, false},
		"four networks":  {10, func(i int) string { return fmt.Sprintf("198.51.%d.%d", 100+i%4, i) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			world.Each(t, world.Options{Mail: true}, func(t *testing.T, w *world.World) {
				sprayFrom(t, w, c.names, world.Right, c.from)
				if d, ok := w.Offer(t, "owner", nowhere, world.Right); ok == c.poisoned || d.Insufficient != c.poisoned || d.Action != guard.Proceed {
					t.Errorf("the owner at a new client: %v, in %v, insufficient %v", d.Action, ok, d.Insufficient)
				}
				if n := len(w.Sprays()); n == 0 {
					t.Error("no alert")
				}
				if d, ok := w.Offer(t, "victim", "198.51.100.77", world.Right); ok || !d.Insufficient {
					t.Errorf("the network that sprays: %v, in %v, insufficient %v", d.Action, ok, d.Insufficient)
				}
			})
		})
	}
}

// One password that was wrong at ten accounts is told of, and from then on it
// lets no stranger in, even where it is right. Known places never notice.
func TestR28ASprayedPasswordDoesNotSuffice(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{Mail: true}, func(t *testing.T, w *world.World) {
		w.Offer(t, "alice", home, world.Right)
		spray(t, w, 9)
		if n := len(w.Sprays()); n != 0 {
			t.Fatalf("told of after nine accounts")
		}
		if _, ok := w.Offer(t, "carol", nowhere, world.Right); !ok {
			t.Error("after nine accounts a stranger is not let in")
		}
		spray(t, w, 10)
		told := w.Sprays()
		if len(told) != 1 || told[0].Accounts != 10 || told[0].Networks != 5 {
			t.Fatalf("told of %+v", told)
		}
		d, ok := w.Offer(t, "bob", nowhere, world.Right)
		wrong, _ := w.Offer(t, "bob", nowhere, "wrong")
		if ok || d.Action != wrong.Action || !d.Insufficient || wrong.Insufficient {
			t.Errorf("a stranger is answered %v, %v, insufficient %v", d.Action, ok, d.Insufficient)
		}
		events := w.Events()
		if last := events[len(events)-2]; last.Outcome != guard.Insufficient || last.NewClient {
			t.Errorf("the event says %v, new place %v", last.Outcome, last.NewClient)
		}
		if got := w.Used(t, "bob", nowhere, guard.OnAccount); got != 2 {
			t.Errorf("the account has %d failures, want 2", got)
		}
		w.Offer(t, "bob", nowhere, world.Right)
		if got := w.Used(t, "bob", nowhere, guard.OnAccount); got != 2 {
			t.Errorf("a right one that comes again is charged like no wrong one: %d failures, want 2", got)
		}
		if d, ok := w.Offer(t, "alice", home, world.Right); !ok || d.Insufficient {
			t.Error("a known place notices")
		}
		if events = w.Events(); events[len(events)-1].Sprayed {
			t.Error("the event of a known place says sprayed")
		}
		w.Clock.Advance(24*time.Hour + time.Minute)
		if _, ok := w.Offer(t, "dave", nowhere, world.Right); !ok {
			t.Error("a day later it does not suffice yet")
		}
	})
}

// A back end that settles a success that does not suffice is told so, also by a
// ticket that has travelled.
func TestR28ASuccessThatDoesNotSufficeIsAFailure(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Mail: true})
	spray(t, w, 10)
	a := world.From("bob", nowhere)
	a.PasswordTag = w.Fingerprint(world.Right)
	d, err := w.Begin(context.Background(), a)
	if err != nil || !d.Insufficient {
		t.Fatal(d.Insufficient, err)
	}
	travelled, err := w.Open(w.Seal(&d.Ticket))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(context.Background(), travelled, guard.Succeeded); !errors.Is(err, guard.ErrInsufficient) {
		t.Errorf("settled with %v", err)
	}
	if cookie, _, _ := w.Guard.Device(travelled); cookie != "" {
		t.Error("a device cookie was issued")
	}
}

// What the same person mends from the same place was mistyped, and is no spray.
func TestR28WhatIsMadeGoodIsNoSpray(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{Mail: true}, func(t *testing.T, w *world.World) {
		for i := range 30 {
			account, from := fmt.Sprint("person", i), world.Address(i)
			w.Offer(t, account, from, "the word that many people have")
			w.Clock.Advance(time.Minute)
			w.Offer(t, account, from, world.Right)
		}
		if n := len(w.Sprays()); n != 0 {
			t.Errorf("%d passwords are said to be sprayed", n)
		}
	})
}

// What people mistype where they are known is no spray; what nobody mends within a
// quarter of an hour is one.
func TestR28WhoIsKnownSpraysNotAndWhoIsLateMendsNothing(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{Mail: true}, func(t *testing.T, w *world.World) {
		for i := range 10 {
			w.Right(t, fmt.Sprint("person", i), world.Address(i))
			w.Offer(t, fmt.Sprint("person", i), world.Address(i), "an old word")
		}
		spray(t, w, 0)
		if n := len(w.Sprays()); n != 0 {
			t.Fatalf("what known people mistype is told of %d times", n)
		}
		for i := range 9 {
			w.Offer(t, fmt.Sprint("late", i), world.Address(100+i), "another word")
		}
		w.Clock.Advance(15*time.Minute + time.Second)
		for i := range 9 {
			w.Offer(t, fmt.Sprint("late", i), world.Address(100+i), world.Right)
		}
		w.Offer(t, "the tenth", world.Address(200), "another word")
		spray(t, w, 0)
		if n := len(w.Sprays()); n != 1 {
			t.Errorf("what was mended too late is told of %d times, want once", n)
		}
	})
}

// Who mistypes a word that is sprayed, and then logs in, ends no spray: neither one
// person nor an attacker with ten accounts of his own.
func TestR28WhoMendsASprayedPasswordDoesNotEndTheSpray(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{Mail: true}, func(t *testing.T, w *world.World) {
		try := func(i int, password string, right bool) {
			t.Helper()
			a := world.From(fmt.Sprint("mender", i), world.Address(7000+i))
			a.PasswordTag = w.Fingerprint(password)
			if _, ok, err := w.Login(context.Background(), a, func(context.Context) (bool, error) { return right, nil }); ok != right || err != nil {
				t.Fatalf("mender %d: in %v, %v", i, ok, err)
			}
		}
		spray(t, w, 12)
		for _, menders := range []int{1, 10} {
			for i := range menders {
				try(100*menders+i, world.Right, false)
				w.Clock.Advance(time.Minute)
			}
			spray(t, w, 0)
			for i := range menders {
				try(100*menders+i, "another", true)
			}
			spray(t, w, 0)
			if d, ok := w.Offer(t, fmt.Sprint("bob", menders), world.Address(8000+menders), world.Right); ok || !d.Insufficient {
				t.Errorf("%d have mended it: a stranger gets in with it", menders)
			}
		}
		if n := len(w.Sprays()); n != 1 {
			t.Errorf("told %d times, want once", n)
		}
		w.Clock.Advance(24*time.Hour + time.Minute)
		if _, ok := w.Offer(t, "dave", nowhere, world.Right); !ok {
			t.Error("a day later it does not suffice yet")
		}
	})
}

// A one-time code and the password let one place in, although strangers try the
// password everywhere; nobody else of them. The code alone does not (R29).
func TestR28ACodeLetsAStrangerInWithASprayedPassword(t *testing.T) {
	t.Parallel()
	eachWithCodes(t, func(t *testing.T, w *world.World, c *codes) {
		spray(t, w, 10)
		offer := func(code, from, password string) (guard.Decision, bool) {
			a := showing(code, from)
			a.PasswordTag = w.Fingerprint(password)
			return w.Try(t, a, password)
		}
		for name, try := range map[string][3]string{
			"no code":                  {"", world.Address(6000), world.Right},
			"a made-up code":           {"made up", world.Address(6001), world.Right},
			"a code, another password": {"alice's", nowhere, "wrong"},
		} {
			if d, ok := offer(try[0], try[1], try[2]); d.Action != guard.Proceed || ok || d.Insufficient != (try[0] != "alice's") {
				t.Errorf("%s: %v, in %v, insufficient %v", name, d.Action, ok, d.Insufficient)
			}
			if st := w.Status(t, "alice", try[1]); st != trusted.Unknown || c.used["alice's"] {
				t.Errorf("%s: the place is %v, the code used %v", name, st, c.used["alice's"])
			}
		}
		if d, ok := offer("alice's", nowhere, world.Right); !ok || d.Insufficient || !d.CodeValid {
			t.Fatalf("the code and the password: %v, in %v, insufficient %v", d.Action, ok, d.Insufficient)
		}
		if !c.used["alice's"] || w.Status(t, "alice", nowhere) != trusted.Known {
			t.Errorf("the code is used: %v; the place is %v", c.used["alice's"], w.Status(t, "alice", nowhere))
		}
		events := w.Events()
		if last := events[len(events)-1]; last.Outcome != guard.Succeeded || !last.NewClient || !last.Sprayed {
			t.Errorf("the event says %v, new place %v, sprayed %v", last.Outcome, last.NewClient, last.Sprayed)
		}
		if d, ok := offer("", nowhere, world.Right); !ok || d.Insufficient {
			t.Error("the place is not let in without the code afterwards")
		}
	})
}

// A ticket that travels keeps that its password is sprayed, and that a code makes
// it enough.
func TestR28ATicketThatTravelsKeepsThatItsPasswordIsSprayed(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Mail: true, Codes: newCodes()})
	spray(t, w, 10)
	a := showing("alice's", nowhere)
	a.PasswordTag = w.Fingerprint(world.Right)
	d, err := w.Begin(context.Background(), a)
	if err != nil || d.Insufficient {
		t.Fatal(d.Insufficient, err)
	}
	travelled, err := w.Open(w.Seal(&d.Ticket))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(context.Background(), travelled, guard.Succeeded); err != nil {
		t.Error(err)
	}
	events := w.Events()
	if last := events[len(events)-1]; last.Outcome != guard.Succeeded || !last.Sprayed {
		t.Errorf("the event says %v, sprayed %v", last.Outcome, last.Sprayed)
	}
}

// To be watched only: told, and enforced nowhere.
func TestR28ASprayThatIsOnlyWatchedStopsNobody(t *testing.T) {
	t.Parallel()
	policy := guard.DefaultPolicy()
	policy.Spray.Monitor = true
	world.Each(t, world.Options{Policy: &policy}, func(t *testing.T, w *world.World) {
		spray(t, w, 10)
		d, ok := w.Offer(t, "bob", nowhere, world.Right)
		events := w.Events()
		if last := events[len(events)-1]; len(w.Sprays()) != 1 || !ok || d.Insufficient || !last.Sprayed {
			t.Errorf("%d told, in %v, insufficient %v, the event says sprayed %v", len(w.Sprays()), ok, d.Insufficient, last.Sprayed)
		}
	})
}

// It is told once that a password is sprayed, and again at ten times as many
// accounts, over all that goes on.
func TestR28ASprayIsToldOnce(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{Mail: true}, func(t *testing.T, w *world.World) {
		began := w.Clock.Now()
		for _, c := range []struct{ accounts, told int }{{9, 0}, {10, 1}, {10, 1}, {99, 1}, {100, 2}, {120, 2}} {
			spray(t, w, c.accounts)
			if got := len(w.Sprays()); got != c.told {
				t.Fatalf("after %d accounts it was told %d times, want %d", c.accounts, got, c.told)
			}
		}
		first, second := w.Sprays()[0], w.Sprays()[1]
		if first.Accounts != 10 || first.Networks != 5 || second.Accounts != 100 || first.Since.Before(began) || first.Since.After(began.Add(9*time.Minute)) || !second.Since.Equal(first.Since) {
			t.Errorf("told of %+v, then %+v", first, second)
		}
	})
}

// sprayedSite is a site that sends no codes, where the right password is sprayed from
// four networks.
func sprayedSite(t *testing.T, w *world.World) {
	t.Helper()
	sprayFrom(t, w, 10, world.Right, func(i int) string { return fmt.Sprintf("198.51.%d.%d", 100+i%4, i) })
}

// solved is a login with the sprayed password after the challenge that it asks for.
func solved(t *testing.T, w *world.World, account, from string, right bool) (guard.Decision, bool) {
	t.Helper()
	a := world.From(account, from)
	a.PasswordTag = w.Fingerprint(world.Right)
	d, err := w.Begin(t.Context(), a)
	if err != nil || d.Action != guard.Challenge || !d.Reasons.Has(guard.SprayedAsks) {
		t.Fatalf("%s: %v, %v, %v", account, d.Action, d.Reasons.Codes(), err)
	}
	a.Solution = w.Works(t, a, d)
	d, ok, err := w.Login(t.Context(), a, func(context.Context) (bool, error) { return right, nil })
	if err != nil || d.Action != guard.Proceed {
		t.Fatalf("%s: %v, %v", account, d.Action, err)
	}
	return d, ok
}

// Where no verification code can be sent, a sprayed password meets the most expensive
// challenge, right or wrong. Behind it three logins an hour and ten a day are admitted.
func TestR28WithoutMailASprayedPasswordMeetsTheHardestChallenge(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{Work: true}, func(t *testing.T, w *world.World) {
		sprayedSite(t, w)
		a := world.From("alice", nowhere)
		a.PasswordTag = w.Fingerprint(world.Right)
		d, err := w.Begin(t.Context(), a)
		issued, err2 := w.Issue(t.Context(), a, d)
		if err != nil || err2 != nil || d.Action != guard.Challenge || issued.PoW.Work < 100<<20 {
			t.Fatalf("%v, %v, work %+v", d.Action, errors.Join(err, err2), issued.PoW)
		}
		if got := w.Used(t, "alice", nowhere, guard.OnAccount); got != 0 {
			t.Errorf("the challenge cost the account %d failures", got)
		}
		// CAPTCHA mode makes it no cheaper. The login page issues challenges without a password tag.
		w.Force(t)
		d, err = w.Begin(t.Context(), a)
		issued, err2 = w.Issue(t.Context(), world.From("alice", nowhere), d)
		if err != nil || err2 != nil || !d.Reasons.Has(guard.ModeOn) || issued.PoW.Work < 100<<20 {
			t.Errorf("in CAPTCHA mode: %v, %v, work %+v", d.Reasons.Codes(), errors.Join(err, err2), issued.PoW)
		}
		if events := w.Events(); !events[len(events)-1].Sprayed {
			t.Error("the event of the challenge does not say that the password is sprayed")
		}
		w.Mode.Release("test", "test")
		cheap, err := w.Issue(t.Context(), world.From("alice", nowhere), guard.Decision{Action: guard.Challenge, Account: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		a.Solution = challenge.Solution{ID: cheap.ID, Answer: world.Answer, Work: world.Done}
		if d, ok := w.Try(t, a, world.Right); ok || d.Action != guard.Challenge || d.Verdict.Reason != challenge.TooLittle {
			t.Errorf("a cheap challenge: %v, in %v, %v", d.Action, ok, d.Verdict.Reason)
		}
		in, asked := 0, 0
		for hour := range 24 {
			for i := range 8 { // every other one is wrong, and takes no room
				account := fmt.Sprintf("person%d-%d", hour, i)
				switch d, ok := solved(t, w, account, world.Address(100+8*hour+i), i%2 == 1); {
				case ok && !d.Insufficient:
					in++
				case i%2 == 1 && d.Insufficient:
					asked++
				}
			}
			if in+asked != 4*(hour+1) || in != min(3*(hour+1), 10) {
				t.Fatalf("after %d hours %d are in, and %d are not", hour+1, in, asked)
			}
			w.Clock.Advance(time.Hour + time.Second)
		}
		if st := w.Status(t, "person0-1", world.Address(101)); st != trusted.Known {
			t.Errorf("the place of a login that was admitted is %v", st)
		}
	})
}

// An administrator's code spares its owner that challenge where no mail is sent.
func TestR28ACodeTakesThePlaceOfTheHardestChallenge(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Work: true, Codes: newCodes()})
	sprayedSite(t, w)
	a := showing("alice's", nowhere)
	a.PasswordTag = w.Fingerprint(world.Right)
	if d, ok := w.Try(t, a, world.Right); !ok || !d.CodeValid || d.Insufficient || d.Reasons.Has(guard.SprayedAsks) {
		t.Errorf("%v, in %v, %v", d.Action, ok, d.Reasons.Codes())
	}
}

// At most three of many at once are admitted, each node and each ticket that travels
// included; a ticket that is settled otherwise gives its room back.
func TestR1SprayedLoginsAreChargedFirst(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		sprayedSite(t, w)
		begin := func(i int) guard.Decision {
			a := world.From(fmt.Sprint("person", i), world.Address(100+i))
			a.PasswordTag = w.Fingerprint(world.Right)
			d, err := w.Begin(t.Context(), a)
			if err == nil {
				a.Solution = w.Works(t, a, d)
				d, err = w.Begin(t.Context(), a)
			}
			if err != nil || d.Action != guard.Proceed {
				t.Errorf("%v, %v", d.Action, err)
			}
			return d
		}
		var mu sync.Mutex
		var admitted []guard.Decision
		world.Burst(40, 20, func(i int) {
			if d := begin(i); !d.Insufficient {
				mu.Lock()
				defer mu.Unlock()
				admitted = append(admitted, d)
			}
		})
		if len(admitted) != guard.SprayedPerHour {
			t.Fatalf("%d of 40 at once are admitted", len(admitted))
		}
		for i, o := range []guard.Outcome{guard.Failed, guard.Abandoned, guard.Succeeded} {
			travelled, err := w.Open(w.Seal(&admitted[i].Ticket))
			if err = errors.Join(err, w.Settle(t.Context(), travelled, o)); err != nil {
				t.Fatal(err)
			}
		}
		admitted = nil
		for i := range 5 {
			if d := begin(100 + i); !d.Insufficient {
				admitted = append(admitted, d)
			}
		}
		if len(admitted) != 2 {
			t.Errorf("%d more are admitted, want the two that were given back", len(admitted))
		}
	})
}
