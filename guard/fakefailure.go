package guard

import (
	"context"
	"crypto/rand"
	"time"
)

// Decoy is a text that cannot be the password, to be checked in the password's place
// where the decision is FakeFailure: the check takes as long, whatever the hash, and says
// nothing about the password. It is as long as the password, at least 26 characters.
func Decoy(password string) string {
	text := rand.Text()
	for len(text) < len(password) {
		text += rand.Text()
	}
	return text[:max(26, min(len(text), len(password)))]
}

// waitLikeWrong waits as long as the newest wrong password took to check.
func (g *Guard) waitLikeWrong(ctx context.Context) {
	timer := time.NewTimer(time.Duration(g.wrongTook.Load()))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
