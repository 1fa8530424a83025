package challenge_test

import (
	"bytes"
	"errors"
	"testing"

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
	d.clock.Advance(challenge.TTL)
	if _, err := d.Media(t.Context(), c.ID, "png"); !errors.Is(err, challenge.ErrGone) {
		t.Errorf("after it expired: %v", err)
	}
	if d.image.rendered.Load() != 0 {
		t.Error("something was rendered for it")
	}
}
