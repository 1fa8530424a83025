//go:build !race

package guard_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/testing/redistest"
	"authguard/internal/testing/world"
	"authguard/trusted"
)

// fullSize reports whether to simulate the site of docs/decisions/0020-spraying.md,
// which takes minutes: 5,000 people, and not the thousand of every day.
func fullSize() bool { return os.Getenv("FULL_SIZE") != "" }

// A town is a site of many people for some days. Each has a password, a home where
// they are known, and now and then is somewhere new. Everybody solves every challenge.
type town struct {
	*world.World
	t        testing.TB
	r        *rand.Rand
	words    []int    // the people's passwords: 0 is the commonest
	accounts []string // their names

	asked      map[int]bool // whose right password did not suffice
	challenged map[int]bool // who had to solve a challenge
}

const (
	common = 100 // passwords that strangers would guess
	logins = 4   // of a person in a day
	away   = 7   // one of so many is from a place that is new
)

// newTown is a town whose people have been home once. One in twenty has one of the
// hundred commonest passwords, one in ninety the commonest of all; who has another
// has it alone.
func newTown(t testing.TB, policy guard.Policy, people int, mail bool) *town {
	w := &town{
		World: world.New(t, world.Options{Policy: &policy, Mail: mail}), t: t, r: rand.New(rand.NewPCG(1, 2)),
		words: make([]int, people), accounts: make([]string, people),
	}
	zipf := rand.NewZipf(w.r, 1.1, 1, common-1)
	for i := range people {
		if w.accounts[i], w.words[i] = fmt.Sprint("person", i), common+i; w.r.IntN(20) == 0 {
			w.words[i] = int(zipf.Uint64())
		}
		w.try(i, world.Address(i), w.words[i])
	}
	w.asked, w.challenged = map[int]bool{}, map[int]bool{}
	return w
}

// try offers a password for a person's account, and solves what is asked for.
func (w *town) try(person int, from string, word int) (first guard.Decision, in bool) {
	w.t.Helper()
	a := world.From(w.accounts[person], from)
	a.PasswordTag = w.Fingerprint(fmt.Sprint("word", word))
	check := func(context.Context) (bool, error) { return word == w.words[person], nil }
	first, in, err := w.Login(context.Background(), a, check)
	if err == nil && first.Action == guard.Challenge {
		a.Solution = w.Works(w.t, a, first)
		var d guard.Decision
		d, in, err = w.Login(context.Background(), a, check)
		d.Reasons, first.Insufficient = nil, d.Insufficient
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return first, in
}

// live is somebody's login. Three of ten who are somewhere new offer another
// password of theirs first.
func (w *town) live() {
	person := w.r.IntN(len(w.words))
	from, isNew := world.Address(person), w.r.IntN(away) == 0
	if isNew {
		from = world.Address(200_000 + w.r.IntN(200_000))
	}
	note := func(word int) {
		d, _ := w.try(person, from, word)
		if d.Action == guard.Challenge {
			w.challenged[person] = true
		}
		if d.Insufficient && word == w.words[person] {
			w.asked[person] = true
		}
	}
	if isNew && w.r.IntN(10) < 3 {
		note(1_000_000 + w.r.IntN(1_000_000))
	}
	note(w.words[person])
}

// pass lets some hours go by, in which people live and something else is done so
// many times, evenly.
func (w *town) pass(hours, others int, other func(i int)) {
	minutes, all := hours*60, hours*logins*len(w.words)/24
	for m := range minutes {
		lives, does := all*(m+1)/minutes-all*m/minutes, others*(m+1)/minutes-others*m/minutes
		for range lives {
			w.live()
		}
		for i := range does {
			other(others*m/minutes + i)
			w.Clock.Advance(time.Minute / time.Duration(does))
		}
		if does == 0 {
			w.Clock.Advance(time.Minute)
		}
	}
}

// A botnet that solves every challenge tries the commonest passwords at every account,
// each time from another address. Until ten accounts are through a password is not
// recognised, however large the site is; so one right guess may get in.
func TestR28ABotnetWithASolvingFarmGetsNowhereBySpraying(t *testing.T) {
	t.Parallel()
	type spraying struct {
		people, days, passwords int
		mail                    bool
		most                    int // right guesses that may get in
	}
	// Without mail ten logins a day with each password are admitted.
	all := []spraying{{1000, 1, 10, true, 1}, {1000, 1, 1, false, 10 + 1}}
	if fullSize() {
		all = []spraying{{5000, 1, 10, true, 1}, {5000, 7, 100, true, 1}, {5000, 1, 10, false, 100 + 1}}
	}
	for _, c := range all {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			attack := func(policy guard.Policy) (in int, w *town) {
				w = newTown(t, policy, c.people, c.mail)
				w.pass(24*c.days, c.people*c.passwords, func(i int) {
					if _, ok := w.try(i%c.people, world.Address(1_000_000+i), i/c.people); ok {
						in++
					}
				})
				return in, w
			}
			policy := guard.DefaultPolicy()
			after, w := attack(policy)
			policy.Spray = guard.Spray{}
			before, _ := attack(policy)
			others := 0
			for person := range w.asked {
				if w.words[person] >= c.passwords {
					others++
				}
			}
			t.Logf("right guesses that got in: %d → %d; %d passwords were told of; people asked for the way in: %d, of them %d with a password that was not sprayed",
				before, after, len(w.Sprays()), len(w.asked), others)
			if before == 0 || after > c.most {
				t.Errorf("right guesses that got in: %d without the rule and %d with it; want at most %d", before, after, c.most)
			}
			if others*1000 > c.people {
				t.Errorf("%d of %d people were asked for a password that nobody sprayed: more than one in a thousand", others, c.people)
			}
		})
	}
}

// Fifty mail programs with an old password, half of them at home and half at a place
// where nobody has logged in, try it every minute (in the full size every five
// seconds: a site that busy has a higher threshold). Without the rule that puts people
// before a challenge: all who are somewhere new, and the owners at home.
func TestR28FiftyStaleProgramsPutNobodyBeforeAChallenge(t *testing.T) {
	t.Parallel()
	const programs = 50
	people, hours, perMinute := 1000, 6, 1
	if fullSize() {
		people, hours, perMinute = 5000, 24, 12
	}
	live := func(programs int, recognised bool) (challenged, switched int) {
		w := newTown(t, guard.DefaultPolicy(), people, true)
		w.pass(hours, programs*perMinute*60*hours, func(i int) {
			person := i % programs
			a := world.From(w.accounts[person], world.Address(person+person%2*300_000))
			if recognised {
				a.PasswordTag = w.Fingerprint("last year's")
			}
			d, in, err := w.Login(context.Background(), a, func(context.Context) (bool, error) { return false, nil })
			if in || err != nil || recognised && d.Action != guard.Proceed {
				t.Fatalf("the program of %v is answered %v, %v, %v", a.Account, d.Action, in, err)
			}
		})
		switched, _ = w.Switched()
		return len(w.challenged), switched
	}
	none, _ := live(0, true)
	before, on := live(programs, false)
	after, stillOn := live(programs, true)
	t.Logf("of %d people in %d hours were challenged: %d → %d, without such programs %d; the mode went on %d → %d times", people, hours, before, after, none, on, stillOn)
	if before*20 < people {
		t.Errorf("without the rule %d of %d people are challenged: the test shows nothing", before, people)
	}
	if none+after+stillOn > 0 {
		t.Errorf("challenged with the rule: %d, without such programs %d; the mode went on %d times", after, none, stillOn)
	}
}

// A carrier's pool: 1,000 people log in for a week, each time from another of its
// addresses; then somebody in it guesses at them all.
func TestR30APoolsAddressesAreNobodysPlaces(t *testing.T) {
	t.Parallel()
	policy := guard.DefaultPolicy()
	policy.KnownClients.Sharers = 50
	w := world.New(t, world.Options{Policy: &policy})
	random, pool := rand.New(rand.NewPCG(1, 2)), func(i int) string { return fmt.Sprintf("198.51.100.%d", i) }
	name := func(i int) string { return fmt.Sprintf("person%d", i) }
	for range 29_000 {
		w.Clock.Advance(20 * time.Second)
		w.Right(t, name(random.IntN(1000)), pool(random.IntN(256)))
	}
	cookie, through := w.Device(t, "owner", pool(7)), 0
	for i := range 256 {
		for range 100 {
			w.Clock.Advance(time.Second)
			if d := w.Wrong(t, name(random.IntN(1000)), pool(i)); d.Known {
				through++
			}
		}
	}
	if through != 0 {
		t.Errorf("%d of 25600 guesses came in through people's places", through)
	}
	a := world.From("owner", pool(8))
	if a.Devices = []string{cookie}; !mustPass(t, w, a) {
		t.Error("the owner's cookie is nothing there")
	}
}

// A week of 5,000 people who share words as people do, and of whom some forget
// which one it was: how many are asked for more than their right password.
func TestR28WordsThatPeopleShareMakeNoStorm(t *testing.T) {
	t.Parallel()
	const people, logins = 5000, 21_000 // from places that are new, in a week
	w := world.New(t, world.Options{})
	r := rand.New(rand.NewPCG(1, 2))
	words := rand.NewZipf(r, 1.1, 20, 2_000_000) // the commonest word is that of about 1 in 100
	word := make([]string, people)
	for i := range word {
		word[i] = fmt.Sprint("word", words.Uint64())
	}
	asked := map[int]bool{}
	for n := range logins {
		person := r.IntN(people)
		from := world.Address(r.IntN(100_000))
		try := func(password string, right bool) {
			a := world.From(fmt.Sprint("person", person), from)
			a.PasswordTag = w.Fingerprint(password)
			d, _, err := w.Login(context.Background(), a, func(context.Context) (bool, error) { return right, nil })
			if err != nil {
				t.Fatal(err)
			}
			if right && d.Insufficient {
				asked[person] = true
			}
		}
		if r.IntN(10) < 3 { // another word of theirs; one in five gives up
			try(fmt.Sprint("word", words.Uint64()), false)
			if r.IntN(5) == 0 {
				continue
			}
		}
		try(word[person], true)
		w.Clock.Advance(7 * 24 * time.Hour / logins)
		_ = n
	}
	t.Logf("%d of %d people were asked; %d words were taken for sprayed", len(asked), people, len(w.Sprays()))
	if len(asked)*1000 > people {
		t.Errorf("%d of %d people were asked: more than one in a thousand", len(asked), people)
	}
}

// Real sites have 24 logins beside 34 failures a minute: here by people who mistype,
// some of whom give up, some at places where they have been before.
func TestR25ABusyMorningIsNoAttack(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	in, asked := 0, 0
	try := func(person int, where, password string) {
		d, ok := w.Try(t, world.From(fmt.Sprint("person", person), where), password)
		if d.Action == guard.Challenge {
			asked++
			_, ok = w.Try(t, w.Solved(t, fmt.Sprint("person", person), where), password)
		}
		if ok {
			in++
		}
	}
	for minute := range 3 * 60 {
		for i := range 24 {
			person := (minute*24 + i) * 7919 % 5000
			for range 1 + i%2 {
				try(person, world.Address(person), "wrong")
			}
			w.Clock.Advance(2 * time.Second)
			if i%6 != 0 {
				try(person, world.Address(person), world.Right)
			}
			w.Clock.Advance(500 * time.Millisecond)
			w.Mode.Tick()
		}
	}
	if on, _ := w.Switched(); on > 0 || asked > in/100 {
		t.Errorf("the mode went on %d times; %d of %d were challenged", on, asked, in)
	}
}

func mustPass(t *testing.T, w *world.World, a guard.Attempt) bool {
	d, ok := w.Try(t, a, world.Right)
	return ok && d.Known
}

// A mail program goes on with an old password for two days. Its owner never
// notices: no challenge, no wait, and the place stays known.
func TestR28AStaleProgramCostsItsOwnerNothing(t *testing.T) {
	t.Parallel()
	const days = 2 * 24 * time.Hour
	story := func(t *testing.T, w *world.World, every time.Duration, address string, known bool) {
		if known && !w.Right(t, "alice", address) {
			t.Fatal("the first login failed")
		}
		tries, logins := 0, 0
		a := world.From("alice", address)
		a.PasswordTag = w.Fingerprint("stale")
		for at := time.Duration(0); at < days; at += every {
			if d, ok := w.Try(t, a, "stale"); d.Action != guard.Proceed || ok {
				t.Fatalf("after %v the program is answered %v, %v", at, d.Action, d.Reasons)
			}
			tries++
			if tries%(int(4*time.Hour/every)) == 0 {
				logins++
				if d, ok := w.Offer(t, "alice", address, world.Right); !ok || known && !d.Known {
					t.Fatalf("after %v the owner is answered %v, %v", at, d.Action, d.Reasons)
				}
				known = true
			}
			w.Clock.Advance(every)
		}
		if logins != 12 || w.Status(t, "alice", address) != trusted.Known {
			t.Errorf("%d of 12 logins, and the place is %v", logins, w.Status(t, "alice", address))
		}
	}
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		every := 5 * time.Second
		if w.Counts == nil { // Redis
			every = time.Minute
		}
		story(t, w, every, home, true)
	})
	t.Run("from a place that is new", func(t *testing.T) {
		t.Parallel()
		story(t, world.New(t, world.Options{}), 5*time.Second, nowhere, false)
	})
	t.Run("from a place that is new, every minute, Redis", func(t *testing.T) {
		t.Parallel()
		story(t, world.New(t, world.Options{Redis: redistest.Shared(t).Client(t)}), time.Minute, nowhere, false)
	})
}

// A phone on the road has a new address each hour.
func TestR28AStaleProgramOnTheRoadCostsItsOwnerNothing(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		for hour := range 48 {
			a := world.From("alice", world.Address(hour))
			a.PasswordTag = w.Fingerprint("stale")
			for range 60 {
				if d, ok := w.Try(t, a, "stale"); d.Action != guard.Proceed || ok {
					t.Fatalf("in hour %d the phone is answered %v, %v", hour, d.Action, d.Reasons)
				}
				w.Clock.Advance(time.Minute)
			}
		}
		if got := w.Used(t, "alice", nowhere, guard.OnAccount); got > 1 {
			t.Errorf("the account has %d failures, want at most one a day", got)
		}
		if d, ok := w.Offer(t, "alice", nowhere, world.Right); !ok {
			t.Errorf("the owner is answered %v at a new place", d.Action)
		}
	})
}

// Fifty of them among many people are no attack. They make their password a sprayed
// one: where no verification code can be sent they are challenged, which is no
// pressure either.
func TestR28FiftyStaleProgramsSwitchNoMode(t *testing.T) {
	t.Parallel()
	t.Run("with mail", func(t *testing.T) { t.Parallel(); staleProgramsSwitchNoMode(t, true) })
	t.Run("without mail", func(t *testing.T) { t.Parallel(); staleProgramsSwitchNoMode(t, false) })
}
