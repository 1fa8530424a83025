package audit

import (
	"fmt"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// A batch collects rows. It is not safe for concurrent use.
type batch struct {
	realm   string
	rows    []Row
	index   map[likeness]int // rows that events may still be merged into
	skipped int64            // events that found no room
	since   time.Time        // the first of those
}

func newBatch(realm string) *batch {
	return &batch{realm: realm, index: make(map[likeness]int)}
}

// add merges the event or makes it a row, and reports whether it made one.
// Without room for a row the event is only counted.
func (b *batch) add(e *guard.Event, ending events.Ending, room bool) bool {
	like := likenessOf(e, ending)
	if i, ok := b.index[like]; ok {
		b.rows[i].Count++
		return false
	}
	if !room {
		b.skip(e.At)
		return false
	}
	b.index[like] = len(b.rows)
	b.rows = append(b.rows, like.row(e.At, b.realm))
	return true
}

func (b *batch) skip(at time.Time) {
	if b.skipped == 0 {
		b.since = at
	}
	b.skipped++
}

func (b *batch) empty() bool { return len(b.rows) == 0 && b.skipped == 0 }

// sealed returns the rows, the last of which counts what was skipped.
func (b *batch) sealed() []Row {
	if b.skipped == 0 {
		return b.rows
	}
	return append(b.rows, Row{
		At: b.since, Realm: b.realm, Kind: KindMore, Count: b.skipped,
		Detail: fmt.Sprintf("and %d more not written", b.skipped),
	})
}
