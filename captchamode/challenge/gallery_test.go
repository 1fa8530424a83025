package challenge_test

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode/challenge"
)

// at is a bond of the nth address.
func at(n int) challenge.Binding {
	return challenge.Binding{Address: [16]byte{9, byte(n >> 8), byte(n)}}
}

func (d *desk) issueTo(t testing.TB, bond challenge.Binding) string {
	t.Helper()
	c, err := d.Issue(t.Context(), bond, false)
	if err != nil {
		t.Fatal(err)
	}
	return c.ID
}

// fetches counts what became of fetches that run beside the test.
type fetches struct {
	sync.WaitGroup
	shown, busy, failed atomic.Int64
}

func (f *fetches) of(ctx context.Context, d *desk, id, ext string) {
	f.Go(func() {
		switch _, err := d.Media(ctx, id, ext); {
		case err == nil:
			f.shown.Add(1)
		case errors.Is(err, challenge.ErrBusy):
			f.busy.Add(1)
		default:
			f.failed.Add(1)
		}
	})
}

func TestR26APictureIsRenderedOnceHoweverManyAskForIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		release := make(chan struct{})
		d.image.render = func() { <-release }
		id := d.issueTo(t, here)
		var got fetches
		for range 600 {
			got.of(t.Context(), d, id, "png")
		}
		synctest.Wait()
		close(release)
		got.Wait()
		if d.image.rendered.Load() != 1 || got.shown.Load() != 100 || got.busy.Load() != 500 {
			t.Errorf("600 fetches: %d shown, %d busy; rendered %d times; want 100, 500 and once",
				got.shown.Load(), got.busy.Load(), d.image.rendered.Load())
		}
	})
}

func TestR26OneAddressHoldsUpNobodyElsesPictures(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		d.image.render = func() { time.Sleep(3 * time.Millisecond) }
		var greedy, others fetches
		for range 2500 {
			greedy.of(t.Context(), d, d.issueTo(t, here), "png")
		}
		synctest.Wait()
		began := time.Now()
		for i := range 24 {
			others.of(t.Context(), d, d.issueTo(t, at(i)), "png")
		}
		others.Wait()
		if took := time.Since(began); others.shown.Load() != 24 || took > 24*3*time.Millisecond {
			t.Errorf("%d of 24 others were shown theirs, in %v", others.shown.Load(), took)
		}
		greedy.Wait()
		// One is being made, and so many wait.
		if greedy.shown.Load() != 65 || greedy.busy.Load() != 2500-65 {
			t.Errorf("of 2500 pictures for one address %d were made and %d refused, want 65 and the rest", greedy.shown.Load(), greedy.busy.Load())
		}
	})
}

func TestR26RenderingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t)
		release := make(chan struct{})
		d.image.render = func() { <-release }
		left, leave := context.WithCancel(t.Context())
		var sounds, gone, late fetches
		for i := range 2 {
			sounds.of(t.Context(), d, d.issueTo(t, at(i)), "wav")
		}
		synctest.Wait()
		gone.of(left, d, d.issueTo(t, at(2)), "wav")
		synctest.Wait()
		leave()
		gone.Wait()
		late.of(t.Context(), d, d.issueTo(t, at(3)), "wav")
		late.Wait()
		sounds.Wait() // they have given up, too
		if d.image.rendered.Load() != 2 || gone.failed.Load() != 1 || late.busy.Load() != 1 || sounds.busy.Load() != 2 {
			t.Errorf("%d at once; the third was told %d times to come back", d.image.rendered.Load(), late.busy.Load())
		}
		close(release)
		// Sounds do not hold up pictures, nor those after them; and nobody makes
		// what nobody waits for.
		for _, ext := range []string{"png", "wav"} {
			if _, err := d.Media(t.Context(), d.issueTo(t, here), ext); err != nil {
				t.Errorf("%s afterwards: %v", ext, err)
			}
		}
		if got := d.image.rendered.Load(); got != 4 {
			t.Errorf("rendered %d times, want 4", got)
		}
	})
}

func TestR26WhatIsKeptIsBounded(t *testing.T) {
	t.Parallel()
	const size = 3 + 5 + 32 // of what plainKind draws
	d := newDesk(t, func(c *challenge.Config) { c.Kept = 200 * size })
	fetch := func(ids ...string) int64 {
		before := d.image.rendered.Load()
		for _, id := range ids {
			if _, err := d.Media(t.Context(), id, "png"); err != nil {
				t.Fatal(err)
			}
		}
		return d.image.rendered.Load() - before
	}
	first := d.issueTo(t, here)
	fetch(first)
	var own []string
	for range 1000 { // one address pushes out its own only
		own = append(own, d.issueTo(t, elsewhere))
	}
	fetch(own...)
	if got := fetch(append(own[1000-64:], first)...); got != 0 {
		t.Errorf("%d were rendered again", got)
	}
	if got := fetch(own[1000-65]); got != 1 {
		t.Error("an address keeps more than its share")
	}
	for i := range 200 {
		fetch(d.issueTo(t, at(i)))
	}
	if got := fetch(first); got != 1 {
		t.Error("more is kept than there is room for")
	}
}

// Addresses take turns: one that asks for many, and is asked again each time one of its
// own is ready, holds up nobody who asked after it.
func TestR26AddressesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *challenge.Config) { c.Renders = 1 })
		d.image.render = func() { time.Sleep(10 * time.Millisecond) }
		var greedy, others fetches
		for range 40 {
			greedy.of(t.Context(), d, d.issueTo(t, here), "png")
		}
		synctest.Wait()
		for i := range 5 {
			others.of(t.Context(), d, d.issueTo(t, at(i)), "png")
			synctest.Wait()
		}
		began := time.Now()
		others.Wait()
		// One of the greedy one's is being made, and it is next once more.
		if took := time.Since(began); others.shown.Load() != 5 || took > 7*10*time.Millisecond {
			t.Errorf("%d of 5 others were shown theirs, in %v", others.shown.Load(), took)
		}
		greedy.Wait()
	})
}

// flaky draws the second time.
type flaky struct {
	*plainKind
	tried atomic.Int64
}

func (f *flaky) Render(w io.Writer, seed challenge.Seed, ext string) error {
	if f.tried.Add(1) == 1 {
		return errBroken
	}
	return f.plainKind.Render(w, seed, ext)
}

// A picture that could not be made is made when somebody asks again: a person who
// reloads it is not shown the old error until the challenge ends.
func TestAPictureThatFailedIsMadeAnew(t *testing.T) {
	t.Parallel()
	image := &flaky{plainKind: &plainKind{kind: "image"}}
	d := newDesk(t, func(c *challenge.Config) { c.BuiltIn = image })
	id := d.issueTo(t, here)
	if _, err := d.Media(t.Context(), id, "png"); !errors.Is(err, errBroken) {
		t.Fatalf("the first time: %v", err)
	}
	if m, err := d.Media(t.Context(), id, "png"); err != nil || len(m.Body) == 0 {
		t.Errorf("the second time: %d bytes, %v", len(m.Body), err)
	}
}

// Of two who wait for one picture, one that goes away takes it from nobody. And once
// nothing of an address waits or is kept, the address takes no room.
func TestR26WhoGoesAwayTakesNobodysPicture(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, func(c *challenge.Config) { c.Renders, c.Kept = 1, 1 })
		d.image.render = func() { time.Sleep(100 * time.Millisecond) }
		var first, goes, stays fetches
		first.of(t.Context(), d, d.issueTo(t, here), "png")
		synctest.Wait()
		left, leave := context.WithCancel(t.Context())
		id := d.issueTo(t, elsewhere)
		goes.of(left, d, id, "png")
		stays.of(t.Context(), d, id, "png")
		synctest.Wait()
		leave()
		goes.Wait()
		stays.Wait()
		if goes.failed.Load() != 1 || stays.shown.Load() != 1 {
			t.Errorf("who went away: %d failed; who stayed was shown %d", goes.failed.Load(), stays.shown.Load())
		}
		first.Wait()
		synctest.Wait()
		if n := d.Lines("png"); n != 0 {
			t.Errorf("%d addresses are remembered", n)
		}
	})
}
