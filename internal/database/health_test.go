package database_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"authguard/internal/background"
	"authguard/internal/database"
)

// A disk is something to write to, and how often that was done.
type disk struct {
	mu     sync.Mutex
	broken error
	takes  time.Duration
	writes int
	edges  []error
}

func (d *disk) write(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writes++
	if d.takes > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d.takes):
		}
	}
	return d.broken
}

func (d *disk) written() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes
}

func (d *disk) set(broken error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.broken = broken
}

func (d *disk) watched(t *testing.T) *database.Health {
	h := database.NewHealth(nil, d.write, func(err error) { d.edges = append(d.edges, err) })
	t.Cleanup(background.Go(h.Run))
	return h
}

func TestR27ADatabaseThatFailsIsKnownToAndIsTriedEverySecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, full := new(disk), errors.New("full")
		h := d.watched(t)
		synctest.Wait()
		d.set(full)
		if why, _ := h.Failed(); why != nil {
			t.Errorf("failed before it was tried: %v", why)
		}
		if err := h.Prove(t.Context()); !errors.Is(err, full) {
			t.Errorf("proven: %v", err)
		}
		began := time.Now()
		if why, since := h.Failed(); !errors.Is(why, full) || !since.Equal(began) {
			t.Errorf("%v since %v, at %v", why, since, began)
		}
		time.Sleep(10*time.Second + time.Millisecond)
		synctest.Wait()
		if _, since := h.Failed(); !since.Equal(began) {
			t.Errorf("ten seconds later it has failed since %v, not %v", since, began)
		}
		d.set(nil)
		if n := d.written(); n != 12 { // at the start, when asked, and ten times since
			t.Errorf("%d writes", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if why, _ := h.Failed(); why != nil || len(d.edges) != 2 || d.edges[0] == nil || d.edges[1] != nil {
			t.Errorf("a second later: %v; told %v", why, d.edges)
		}
	})
}

func TestADatabaseThatIsNotUsedIsTriedNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := new(disk)
		d.watched(t)
		time.Sleep(time.Minute + time.Millisecond)
		synctest.Wait()
		if n := d.written(); n != 7 {
			t.Errorf("%d writes in a minute", n)
		}
	})
}

func TestManyProofsAtOnceAreOneWriteAndNeverAnOldOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: 10 * time.Millisecond}
		h := d.watched(t)
		time.Sleep(5 * time.Millisecond) // the first write is under way: too old for who comes now
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				if err := h.Prove(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		began := time.Now()
		all.Wait()
		synctest.Wait()
		if took := time.Since(began); d.written() != 2 || took != 15*time.Millisecond {
			t.Errorf("%d writes in %v, want 2 in 15ms", d.written(), took)
		}
	})
}

func TestAWriteThatHangsIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &disk{takes: time.Hour}
		h := d.watched(t)
		synctest.Wait() // the first write hangs already
		began := time.Now()
		if err := h.Prove(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		if why, _ := h.Failed(); why == nil || time.Since(began) != 6*time.Second {
			t.Errorf("%v after %v", why, time.Since(began))
		}
	})
}

func TestR27WhatAGlanceShowsFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, moved := new(disk), error(nil)
		glance := func() error {
			d.mu.Lock()
			defer d.mu.Unlock()
			return moved
		}
		set := func(err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			moved = err
		}
		h := database.NewHealth(glance, d.write, func(err error) { d.edges = append(d.edges, err) })
		t.Cleanup(background.Go(h.Run))
		synctest.Wait()
		set(database.ErrMoved)
		if why, since := h.Failed(); !errors.Is(why, database.ErrMoved) || !since.Equal(time.Now()) {
			t.Errorf("%v since %v", why, since)
		}
		synctest.Wait()
		if d.written() != 1 || len(d.edges) != 1 {
			t.Errorf("%d writes, told %v: it is noted once, without writing", d.written(), d.edges)
		}
		if err := h.Prove(t.Context()); !errors.Is(err, database.ErrMoved) {
			t.Errorf("proven: %v", err)
		}
		set(nil)
		time.Sleep(time.Second + time.Millisecond)
		synctest.Wait()
		if why, _ := h.Failed(); why != nil || len(d.edges) != 2 {
			t.Errorf("a second later: %v; told %v", why, d.edges)
		}
	})
}
