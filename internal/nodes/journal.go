package nodes

import (
	"context"
	"sync"

	"authguard/failures"
)

// A journal is what this node did while it was alone, in order, to be told to
// Redis afterwards. It is bounded: at the bound the oldest goes.
type journal struct {
	mu      sync.Mutex
	entries []entry
	lost    int
}

type entry struct {
	what     what
	at       failures.Moment
	subjects []failures.Subject
}

type what uint8

const (
	charged what = iota
	tookBack
	cleared
)

// maxJournal is about 30 MB of attempts: half an hour of 50 a second.
const maxJournal = 100_000

func (j *journal) add(w what, at failures.Moment, subjects []failures.Subject) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.entries) >= maxJournal {
		j.entries = append(j.entries[:0], j.entries[maxJournal/10:]...)
		j.lost += maxJournal / 10
	}
	j.entries = append(j.entries, entry{w, at, append([]failures.Subject(nil), subjects...)})
}

// tell hands the entries over, oldest first, until there are none or one
// fails; what was handed over is forgotten.
func (j *journal) tell(ctx context.Context, hand func(context.Context, entry) error) error {
	for {
		j.mu.Lock()
		if len(j.entries) == 0 {
			j.mu.Unlock()
			return nil
		}
		next := j.entries[0]
		j.mu.Unlock()
		if err := hand(ctx, next); err != nil {
			return err
		}
		j.mu.Lock()
		if len(j.entries) > 0 {
			j.entries = j.entries[1:]
		}
		j.mu.Unlock()
	}
}

func (j *journal) size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries)
}
