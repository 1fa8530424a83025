package audit

import (
	"context"
	"slices"
	"time"
)

// The pauses before a retry of a failed batch, and the time limit of a try.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	writeTimeout = 10 * time.Second
)

// Run writes until ctx ends, and then the queue: it retries for ten seconds and logs the lost rows. Stop the bus first.
func (l *Log) Run(ctx context.Context) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(l.drain, cancel) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.wake:
			l.writeAll(last, ctx)
		}
	}
	l.writeAll(last, last)
	l.mu.Lock()
	l.addSums()
	l.seal() // there may have been no room before
	l.mu.Unlock()
	l.writeAll(last, last)
	l.giveUp()
}

// writeAll writes the queue and retries until retry ends.
func (l *Log) writeAll(ctx, retry context.Context) {
	for {
		l.mu.Lock()
		if len(l.queue) == 0 {
			l.mu.Unlock()
			return
		}
		rows := l.queue[0]
		l.mu.Unlock()
		if !l.writeBatch(ctx, retry, rows) {
			return
		}
		l.mu.Lock()
		l.queue = slices.Delete(l.queue, 0, 1)
		l.waiting -= len(rows)
		l.mu.Unlock()
	}
}

// writeBatch retries until it succeeds, or returns false when retry ends. A failed try may have been committed:
// duplicate rows are better than lost ones.
func (l *Log) writeBatch(ctx, retry context.Context, rows []Row) bool {
	for delay := firstRetry; ; delay = min(2*delay, longestRetry) {
		err := l.try(ctx, rows)
		if err == nil {
			return true
		}
		l.mu.Lock()
		waiting := l.waiting
		l.mu.Unlock()
		l.cfg.Logger.Error("audit batch not written", "error", err, "rows", len(rows), "waiting", waiting, "retry_in", delay)
		select {
		case <-time.After(delay):
		case <-retry.Done():
			return false
		}
	}
}

func (l *Log) try(ctx context.Context, rows []Row) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return l.write(ctx, rows)
}

func (l *Log) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	lost := slices.Concat(append(l.queue, l.open.rows, l.sums.rows)...)
	l.queue, l.waiting, l.open, l.sums = nil, 0, newBatch(), newSums()
	events := int64(0)
	for _, r := range lost {
		events += r.Count
	}
	if len(lost) > 0 {
		l.cfg.Logger.Error("audit rows lost", "rows", len(lost), "events", events)
	}
}
