package authguard_test

import (
	"fmt"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/world"
)

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
				try(person, address(person), "wrong")
			}
			w.Clock.Advance(2 * time.Second)
			if i%6 != 0 {
				try(person, address(person), world.Right)
			}
			w.Clock.Advance(500 * time.Millisecond)
			w.Mode.Tick()
		}
	}
	if on, _ := w.Switched(); on > 0 || asked > in/100 {
		t.Errorf("the mode went on %d times; %d of %d were challenged", on, asked, in)
	}
}

func TestR25KnownPlacesAndWhatIsMadeGoodAreNoPressure(t *testing.T) {
	t.Parallel()
	each(t, world.Options{}, func(t *testing.T, w *world.World) {
		pressure := func(what string, want int) {
			t.Helper()
			if got := w.Mode.State().Pressure[captchamode.Failure]; got != want {
				t.Errorf("%s: the pressure is %d, want %d", what, got, want)
			}
		}
		w.Right(t, "alice", home)
		w.Wrong(t, "alice", home)
		pressure("a known place", 0)
		w.Wrong(t, "bob", nowhere)
		w.Wrong(t, "bob", address(1))
		w.Wrong(t, "carol", nowhere)
		pressure("strangers", 3)
		w.Clock.Advance(5 * time.Second)
		w.Right(t, "bob", nowhere)
		pressure("one of them made it good", 2)
		w.Right(t, "bob", nowhere)
		pressure("he made good the one at his place only", 2)
		e, err := w.Explain(t.Context(), "bob", world.From("bob", nowhere).Address)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range e.Lines {
			if line.Subject == guard.OnAddress && line.Used != 2 {
				t.Errorf("%d failures of the address are left, want bob's and carol's: no limit is lowered", line.Used)
			}
		}
	})
}
