package modestore

import (
	"context"
	"fmt"

	"authguard/captchamode"
)

// Sync writes the switches that wait, and then makes the newest word that a
// person said on any node the mode's. It does nothing if that is in force
// already. Call it in a round of a changes.Watcher:
//
//	watcher.On(changes.Mode(realm), func(ctx context.Context) error { return store.Sync(ctx, mode) })
func (s *Store) Sync(ctx context.Context, mode *captchamode.Mode) error {
	if err := s.writeAll(ctx); err != nil {
		return err
	}
	id, force, err := s.word(ctx)
	if err != nil {
		return fmt.Errorf("modestore: sync: %w", err)
	}
	if !s.take(id) {
		return nil
	}
	if !mode.AdoptOverride(force) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.known = id
	}
	return nil
}

// take says whether a word is to be followed. A word of our own that is still
// to be written is newer; when it is written there is another round.
func (s *Store) take(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id == "" || id == s.known {
		return false
	}
	for _, e := range s.queue {
		if e.Cause == captchamode.ByPerson {
			return false
		}
	}
	s.taking = id
	return true
}
