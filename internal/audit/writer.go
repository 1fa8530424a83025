package audit

import (
	"context"
	"time"
)

// How long to wait before a failed batch is tried again, and how long one try
// may take.
const (
	firstRetry   = time.Second
	longestRetry = 30 * time.Second
	writeTimeout = 10 * time.Second
)

// Start begins to write. Starting twice is fine.
func (l *Log) Start() { l.start.Do(func() { go l.run() }) }

// Stop writes what waits, trying again until the context is done, and reports
// in the log what it had to give up. Stop the bus first. Stopping twice is
// fine.
func (l *Log) Stop(ctx context.Context) {
	l.Start()
	l.stop.Do(func() { close(l.quit) })
	defer context.AfterFunc(ctx, l.cancel)()
	<-l.done
}

func (l *Log) run() {
	defer close(l.done)
	defer l.cancel()
	for {
		select {
		case <-l.wake:
			l.writeAll()
		case <-l.quit:
			l.writeAll()
			l.writeRest()
			l.giveUp()
			return
		}
	}
}

func (l *Log) writeAll() {
	for {
		rows := l.next()
		if rows == nil || !l.writeBatch(rows) {
			return
		}
		l.written(rows)
	}
}

// writeRest writes the batch that is still open, which may have had no room.
func (l *Log) writeRest() {
	l.mu.Lock()
	l.seal()
	l.mu.Unlock()
	l.writeAll()
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

// writeBatch tries until it works; false means that the log is to end. A try
// that failed may have been committed all the same: then rows are there twice,
// which is better than not at all.
func (l *Log) writeBatch(rows []Row) bool {
	for delay := firstRetry; ; delay = min(2*delay, longestRetry) {
		err := l.try(rows)
		if err == nil {
			return true
		}
		l.failed(err, len(rows), delay)
		select {
		case <-time.After(delay):
		case <-l.ctx.Done():
			return false
		}
	}
}

func (l *Log) try(rows []Row) error {
	ctx, cancel := context.WithTimeout(l.ctx, writeTimeout)
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

// giveUp counts and reports what could not be written before the end.
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
