package audit

import (
	"context"
	"time"
)

// The pauses before a failed batch is tried again, and the time for one try.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	writeTimeout = 10 * time.Second
)

// Run writes until ctx ends, and then what still waits: it goes on trying for
// Config.Drain and logs what it had to give up. Stop the bus first.
func (l *Log) Run(ctx context.Context) {
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(l.cfg.Drain, cancel) })
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-l.wake:
			l.writeAll(last, ctx)
		}
	}
	l.writeAll(last, last)
	l.mu.Lock()
	l.seal() // there may have been no room before
	l.mu.Unlock()
	l.writeAll(last, last)
	l.giveUp()
}

// writeAll writes the queue, and pauses between tries until retry ends.
func (l *Log) writeAll(ctx, retry context.Context) {
	for {
		rows := l.next()
		if rows == nil || !l.writeBatch(ctx, retry, rows) {
			return
		}
		l.written(rows)
	}
}

func (l *Log) next() []Row {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[0]
}

func (l *Log) written(rows []Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.waiting -= len(rows)
	l.stats.Written += uint64(len(rows))
}

// writeBatch tries until it works; false means that retry has ended. A try that
// failed may have been committed all the same: then rows are there twice, which
// is better than not at all.
func (l *Log) writeBatch(ctx, retry context.Context, rows []Row) bool {
	for delay := firstRetry; ; delay = min(2*delay, longestRetry) {
		err := l.try(ctx, rows)
		if err == nil {
			return true
		}
		l.failed(err, len(rows), delay)
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

func (l *Log) failed(err error, rows int, delay time.Duration) {
	l.mu.Lock()
	l.stats.Retries++
	waiting := l.waiting
	l.mu.Unlock()
	l.cfg.Logger.Error("audit batch not written", "error", err, "rows", rows, "waiting", waiting, "retry_in", delay)
}

// giveUp counts and logs what could not be written before the end.
func (l *Log) giveUp() {
	l.mu.Lock()
	lost := l.waiting + len(l.open.rows)
	events := l.open.skipped
	for _, rows := range l.queue {
		for _, r := range rows {
			events += r.Count
		}
	}
	for _, r := range l.open.rows {
		events += r.Count
	}
	l.queue, l.waiting, l.open = nil, 0, newBatch(l.cfg.Realm)
	l.stats.Lost += uint64(lost)
	l.mu.Unlock()
	if lost > 0 {
		l.cfg.Logger.Error("audit rows lost", "rows", lost, "events", events)
	}
}
