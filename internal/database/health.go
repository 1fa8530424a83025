package database

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// provenWithin bounds one proof: a lock that is held for longer is a failure.
	provenWithin = 3 * time.Second
	// retryFailed is how often a database that failed is tried, so that logins go
	// on a second after it is back; proveEvery is how often one that works is,
	// while nobody asks: each time costs a write.
	retryFailed = time.Second
	proveEvery  = 10 * time.Second
)

// A Health knows whether the database can be written. Reading is no proof: a
// disk that is full, a file that somebody has locked and a PostgreSQL that was made
// read-only answer every query, and only the right password, which begins a
// session, meets the error (R27). The database is taken for sound until the first
// proof.
//
// It is safe for concurrent use.
type Health struct {
	glance   func() error
	write    func(context.Context) error
	onChange func(failed error)
	asked    chan struct{}

	mu      sync.Mutex
	failed  error
	since   time.Time
	waiting []chan error // for the next proof
}

// NewHealth makes a Health and starts nothing. write is what a login writes, and
// leaves nothing behind. glance is a failure that shows without waiting, such as InPlace's;
// nil: there is none. onChange is told the error when the database fails, and nil when it
// can be written again.
func NewHealth(glance func() error, write func(context.Context) error, onChange func(failed error)) *Health {
	if glance == nil {
		glance = func() error { return nil }
	}
	return &Health{glance: glance, write: write, onChange: onChange, asked: make(chan struct{}, 1)}
}

// Failed is why the database could not be written when it was last tried, or what a
// glance shows, and since when; nil if it could. It does not wait.
func (h *Health) Failed() (why error, since time.Time) {
	h.mu.Lock()
	why, since = h.failed, h.since
	h.mu.Unlock()
	if why == nil {
		if why = h.glance(); why != nil {
			since = time.Now()
			h.wake() // notes it
		}
	}
	return why, since
}

// wake makes Run prove now.
func (h *Health) wake() {
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

// Prove writes, and reports whether that was possible. However many call it at
// once, there is one write for all who came while the one before it was going on:
// its cost does not grow with an attack.
func (h *Health) Prove(ctx context.Context) error {
	answer := make(chan error, 1)
	h.mu.Lock()
	h.waiting = append(h.waiting, answer)
	h.mu.Unlock()
	h.wake()
	ctx, cancel := context.WithTimeout(ctx, 2*provenWithin+time.Second)
	defer cancel()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return errors.Join(errors.New("database: not checked yet whether it can be written"), ctx.Err())
	}
}

// Run tries until ctx ends.
func (h *Health) Run(ctx context.Context) {
	for {
		h.prove(ctx)
		pause := proveEvery
		if why, _ := h.Failed(); why != nil {
			pause = retryFailed
		}
		select {
		case <-ctx.Done():
			return
		case <-h.asked:
		case <-time.After(pause):
		}
	}
}

func (h *Health) prove(ctx context.Context) {
	h.mu.Lock()
	waiting := h.waiting
	h.waiting = nil
	h.mu.Unlock()
	within, cancel := context.WithTimeout(ctx, provenWithin)
	err := h.glance()
	if err == nil {
		err = h.write(within)
	}
	cancel()
	if ctx.Err() == nil {
		h.note(err)
	}
	for _, one := range waiting {
		one <- err
	}
}

func (h *Health) note(err error) {
	h.mu.Lock()
	changed := (err == nil) != (h.failed == nil)
	if h.failed = err; changed {
		h.since = time.Now()
	}
	h.mu.Unlock()
	if changed {
		h.onChange(err)
	}
}
