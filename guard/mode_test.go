package guard_test

import (
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/testing/world"
)

func TestR25KnownPlacesAndWhatIsMadeGoodAreNoPressure(t *testing.T) {
	t.Parallel()
	world.Each(t, world.Options{}, func(t *testing.T, w *world.World) {
		pressure := func(what string, want int) {
			t.Helper()
			if got := w.Mode.State().FailureRate[captchamode.Failure]; got != want {
				t.Errorf("%s: the pressure is %d, want %d", what, got, want)
			}
		}
		w.Right(t, "alice", home)
		w.Wrong(t, "alice", home)
		pressure("a known place", 0)
		w.Wrong(t, "bob", nowhere)
		w.Wrong(t, "bob", world.Address(1))
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
