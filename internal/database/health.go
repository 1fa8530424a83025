package database

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// provenWithin bounds one check: a longer lock is a failure.
	provenWithin = 3 * time.Second
	// retryFailed is the check interval of a failed database, so that logins resume within a second of its return.
	// proveEvery is the interval while it works: each check costs a write.
	retryFailed = time.Second
	proveEvery  = 10 * time.Second
)

// Health knows whether the database is writable. Reading proves nothing: with a full disk, a locked file or a read-only
// PostgreSQL, queries still succeed. Only a right password, which starts a session, gets the error (R27). The database
// counts as healthy until the first check. Health is safe for concurrent use.
type Health struct {
	glance   func() error
	write    func(context.Context) error
	onChange func(failed error)
	asked    chan struct{}

	mu      sync.Mutex
	failed  error
	since   time.Time
	waiting []chan error // for the next check
}

// NewHealth returns a Health; call Run to start it. write does what a login writes and leaves nothing behind. glance,
// which may be nil, returns a failure that shows without waiting, such as InPlace's. onChange gets the error when the
// database fails, and nil when it is writable again.
func NewHealth(glance func() error, write func(context.Context) error, onChange func(failed error)) *Health {
	if glance == nil {
		glance = func() error { return nil }
	}
	return &Health{glance: glance, write: write, onChange: onChange, asked: make(chan struct{}, 1)}
}

// Failed returns why and since when the database is not writable, or nil. It reports the last check or glance's failure
// and does not wait.
func (h *Health) Failed() (why error, since time.Time) {
	h.mu.Lock()
	why, since = h.failed, h.since
	h.mu.Unlock()
	if why == nil {
		if why = h.glance(); why != nil {
			since = time.Now()
			h.wake() // records it
		}
	}
	return why, since
}

func (h *Health) wake() {
	select {
	case h.asked <- struct{}{}:
	default:
	}
}

// Prove writes, and returns the error. Concurrent callers share one write, so its cost does not grow with an attack.
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

// Run checks until ctx ends.
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
