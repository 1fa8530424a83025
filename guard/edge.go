package guard

import (
	"encoding/hex"
	"sync"
	"time"
)

// An Edge says which end of a stretch of time an Event about a limit on events is.
type Edge uint8

const (
	NoEdge Edge = iota
	// Reached: one of the event came beyond a limit that had room until then.
	Reached
	// Over: none has for as long as the limit's window.
	Over
	// Met: one came beyond a limit: no edge, and told each time.
	Met
)

// maxEdges is how many limits may be reached at once and be told of one by one. Those
// of all further subjects of a limit are told of as one without a name (R24, R31).
const maxEdges = 1000

// edges know which limits are reached, so that each stretch is told of twice and not
// once for every event in it. The zero edges know none. What a node tells of is what
// came to it.
type edges struct {
	mu    sync.Mutex
	known map[edgeOf]*stretch
}

// An edgeOf is one rung of one subject.
type edgeOf struct {
	event   string
	by      SubjectKind
	rung    int
	subject digest // zero: of all those that there was no room to name
}

// A stretch is from when a limit was reached until it has been quiet for its window.
type stretch struct {
	event Event
	last  time.Time // one came beyond the limit
	wait  time.Duration
}

// over notes that an event came beyond a limit, and tells of the first.
func (e *edges) over(g *Guard, o *occurrence, of *Subject, limit int, l *Limit) {
	if g.config.Observer == nil {
		return
	}
	by := of.Kind
	key := edgeOf{o.event, by, limit, digest(of.Key)}
	e.mu.Lock()
	s, ok := e.known[key]
	if !ok && len(e.known) >= maxEdges {
		key.subject = digest{}
		s, ok = e.known[key]
	}
	if ok {
		s.event.Count++
		s.last, s.wait = o.Now, l.Window
		e.mu.Unlock()
		return
	}
	s = &stretch{event: o.edge(by, l, key.subject), last: o.Now, wait: l.Window}
	if e.known == nil {
		e.known = map[edgeOf]*stretch{}
	}
	e.known[key] = s
	event := s.event
	e.mu.Unlock()
	g.tell(event)
	time.AfterFunc(l.Window, func() { e.quiet(g, key) })
}

// quiet ends a stretch, or waits on for as long as it has not been quiet.
func (e *edges) quiet(g *Guard, key edgeOf) {
	e.mu.Lock()
	s, now := e.known[key], g.config.Now()
	if left := s.wait - now.Sub(s.last); left > 0 {
		e.mu.Unlock()
		time.AfterFunc(max(left, time.Second), func() { e.quiet(g, key) })
		return
	}
	delete(e.known, key)
	e.mu.Unlock()
	s.event.At, s.event.Edge = now, Over
	g.tell(s.event)
}

// edge is what is told of a limit that was reached: of the subject itself, and of the
// other ones only where nobody counts by them.
func (o *occurrence) edge(by SubjectKind, l *Limit, subject digest) Event {
	e := Event{At: o.Now, Door: "event", Limited: o.event, Edge: Reached, Action: l.Action, Count: 1}
	e.Reasons.add(Reason{Cause: LimitReached, Subject: by, Limit: l, Event: o.event, Monitored: l.Monitor})
	switch {
	case subject == digest{}:
	case by == OnAccount:
		e.Account = o.name
	case by == OnAddress || by == OnNetwork:
		e.Address = o.attempt.Address
	case by == OnSubject: // enough to tell two apart, and of no use to find either
		e.Subject = hex.EncodeToString(subject[:4])
	}
	return e
}
