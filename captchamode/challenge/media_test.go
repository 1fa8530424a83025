package challenge_test

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"authguard/captchamode/challenge"
)

func TestAPictureIsTheSameUntilTheChallengeIsSpent(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	for _, ext := range []string{"png", "wav"} {
		first, err := d.Media(t.Context(), c.ID, ext)
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.Media(t.Context(), c.ID, ext)
		if err != nil || !bytes.Equal(first.Body, again.Body) {
			t.Errorf("%s: asked twice, got two: %v", ext, err)
		}
	}
	expectReason(t, d.check(t, here, c.ID, "wrong"), challenge.Wrong)
	if _, err := d.Media(t.Context(), c.ID, "png"); !errors.Is(err, challenge.ErrGone) {
		t.Errorf("after it was spent: %v", err)
	}
}

func TestThereIsNoPictureOfWhatCannotBeSolved(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	for _, try := range []struct{ id, ext string }{
		{"", "png"}, {"x", "png"}, {c.ID[1:] + "A", "png"}, {c.ID, ""}, {c.ID, "gif"}, {c.ID, ".png"},
	} {
		if _, err := d.Media(t.Context(), try.id, try.ext); !errors.Is(err, challenge.ErrGone) {
			t.Errorf("%q as %q: %v", try.id, try.ext, err)
		}
	}
	d.clock.Advance(challenge.DefaultTTL)
	if _, err := d.Media(t.Context(), c.ID, "png"); !errors.Is(err, challenge.ErrGone) {
		t.Errorf("after it expired: %v", err)
	}
	if d.image.rendered.Load() != 0 {
		t.Error("something was rendered for it")
	}
}

func TestRenderingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		release := make(chan struct{})
		d.image.render = func() { <-release }
		c := d.issue(t)
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() { d.Media(t.Context(), c.ID, "wav") })
		}
		synctest.Wait()
		if _, err := d.Media(t.Context(), c.ID, "wav"); !errors.Is(err, challenge.ErrBusy) {
			t.Errorf("a third sound at once: %v", err)
		}
		left, leave := context.WithCancel(t.Context())
		leave()
		if _, err := d.Media(left, c.ID, "wav"); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that left: %v", err)
		}
		close(release)
		group.Wait()
		// Sounds do not hold up pictures, nor those after them.
		for _, ext := range []string{"png", "wav"} {
			if _, err := d.Media(t.Context(), c.ID, ext); err != nil {
				t.Errorf("%s afterwards: %v", ext, err)
			}
		}
		if got := d.image.rendered.Load(); got != 4 {
			t.Errorf("rendered %d times, want 4", got)
		}
	})
}
