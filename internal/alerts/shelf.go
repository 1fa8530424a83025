package alerts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	firstRetry   = time.Second
	longestRetry = 5 * time.Minute
	// lease is how long a node holds a message for one try, longer than sendTimeout. Then another node may take over.
	lease = 45 * time.Second
	// deadAfter is how many failures in a row notify the other channels; the third comes seconds after the first.
	deadAfter = 3
	// deadQuiet keeps a flapping channel from filling the others.
	deadQuiet = time.Hour
)

// A shelf is the state of one channel that outlives a process: the backlog, the message in delivery and its tries. The
// outbox stores it as JSON; it is bounded. Its methods are pure functions without clock or I/O.
type shelf struct {
	Waiting digest      `json:"waiting"`
	Open    *sealed     `json:"open,omitempty"` // nil: no message in delivery
	Sent    []time.Time `json:"sent,omitempty"` // the last messages, up to the hourly maximum; oldest first

	Holder    string    `json:"holder,omitempty"` // the node that delivers Open
	HeldUntil time.Time `json:"held_until,omitzero"`

	Failing    int           `json:"failing,omitempty"` // tries in a row
	Since      time.Time     `json:"since,omitzero"`    // the first of them
	Why        string        `json:"why,omitempty"`     // without secrets
	Backoff    time.Duration `json:"backoff,omitempty"`
	RetryAt    time.Time     `json:"retry_at,omitzero"`
	Notified   bool          `json:"notified,omitempty"`   // the other channels were notified of the failure
	NotifiedAt time.Time     `json:"notified_at,omitzero"` // when they were last notified of it

	Last      time.Time `json:"last,omitzero"` // the last delivery
	LastTitle string    `json:"last_title,omitempty"`
	Delivered int       `json:"delivered,omitempty"` // total alerts
}

// A sealed is a message with fixed ID and text, so that a receiver can detect a second try as a duplicate.
type sealed struct {
	ID   string    `json:"id"`
	At   time.Time `json:"at"`
	What digest    `json:"what"`
	Note string    `json:"note,omitempty"`
}

func (s *sealed) message() message {
	m := s.What.message(s.Note)
	m.id, m.at = s.ID, s.At
	return m
}

type rules struct {
	window  time.Duration
	perHour int
	quiet   Quiet
	alone   bool // there is no other node, so another holder is dead
}

// absorb merges what a node kept in memory while the outbox was unavailable.
func (s *shelf) absorb(other shelf) {
	if other.Open != nil {
		s.Waiting.merge(other.Open.What)
	}
	s.Waiting.merge(other.Waiting)
	s.Sent = append(s.Sent, other.Sent...)
	slices.SortFunc(s.Sent, time.Time.Compare)
	s.Sent = slices.CompactFunc(s.Sent, time.Time.Equal)
	if s.Delivered += other.Delivered; other.Last.After(s.Last) {
		s.Last, s.LastTitle = other.Last, other.LastTitle
	}
}

func (s *shelf) len() int {
	n := s.Waiting.len()
	if s.Open != nil {
		n += s.Open.What.len()
	}
	return n
}

func (s *shelf) copy() shelf {
	c := *s
	c.Waiting, c.Sent = s.Waiting.copy(), slices.Clone(s.Sent)
	return c
}

// going selects the kinds that may go now: in quiet hours only those that wake.
func (s *shelf) going(r rules, now time.Time) func(Kind) bool {
	if r.quiet.holds(now) {
		return Kind.wakes
	}
	return func(Kind) bool { return true }
}

// next returns when there is something to do; zero for never.
func (s *shelf) next(r rules, now time.Time) time.Time {
	if s.Open != nil {
		if r.alone {
			return laterOf(s.RetryAt, now)
		}
		return laterOf(s.RetryAt, s.HeldUntil, now)
	}
	if s.Waiting.len() == 0 {
		return time.Time{}
	}
	rest := s.Waiting.copy()
	part := rest.split(s.going(r, now))
	if part.len() == 0 {
		return r.quiet.end(now)
	}
	at := laterOf(part.due(r.window), s.free(r, part.has(Kind.important)), s.RetryAt, now)
	if end := r.quiet.end(now); rest.len() > 0 && end.Before(at) {
		return end
	}
	return at
}

func laterOf(all ...time.Time) time.Time { return slices.MaxFunc(all, time.Time.Compare) }

// free returns when the hourly maximum allows a message; zero for now. A quarter is reserved for important alerts, so
// that ordinary ones cannot use it up before the attack ends.
func (s *shelf) free(r rules, important bool) time.Time {
	room := r.perHour
	if !important {
		room -= min(r.perHour-1, max(1, r.perHour/4))
	}
	if len(s.Sent) < room {
		return time.Time{}
	}
	// One nanosecond more: both ends of an hour belong to it.
	return s.Sent[len(s.Sent)-room].Add(time.Hour + 1)
}

// take returns the message to try now, held until settle; nil for none, or if another node holds it.
func (s *shelf) take(r rules, now time.Time, node, id string) *sealed {
	if at := s.next(r, now); at.IsZero() || at.After(now) {
		return nil
	}
	if s.Open == nil {
		s.seal(r, now, id)
	}
	s.Holder, s.HeldUntil = node, now.Add(lease)
	return s.Open
}

// seal creates a message from the alerts that may go.
func (s *shelf) seal(r rules, now time.Time, id string) {
	what := s.Waiting.split(s.going(r, now))
	free, late, night := s.free(r, what.has(Kind.important)), 0, 0
	for _, a := range what.Kept {
		switch {
		case r.quiet.holds(a.At) && !a.Kind.wakes():
			night++
		case !free.IsZero() && a.At.Add(r.window).Before(free):
			late++
		}
	}
	var notes []string
	if late > 0 {
		notes = append(notes, fmt.Sprintf("%d of these were held back: at most %d messages are sent per hour.", late,
			r.perHour))
	}
	if night > 0 {
		notes = append(notes, fmt.Sprintf("%d of these were held back until the end of the quiet hours.", night))
	}
	s.Open = &sealed{ID: id, At: now, What: what, Note: strings.Join(notes, "\n")}
}

// settle records the outcome of a try. It reports whether to notify the other channels.
func (s *shelf) settle(r rules, now time.Time, err error) (tell bool) {
	s.Holder, s.HeldUntil = "", time.Time{}
	if err != nil {
		if s.Failing++; s.Failing == 1 {
			s.Since = now
		}
		s.Why = err.Error()
		s.Backoff = min(max(2*s.Backoff, firstRetry), longestRetry)
		s.RetryAt = now.Add(s.Backoff)
		if s.Notified || s.Failing < deadAfter || !s.NotifiedAt.IsZero() && now.Sub(s.NotifiedAt) < deadQuiet {
			return false
		}
		s.Notified, s.NotifiedAt = true, now
		return true
	}
	s.Last, s.LastTitle = now, s.Open.message().title
	s.Delivered += s.Open.What.len()
	s.Open, s.Backoff, s.RetryAt = nil, 0, time.Time{}
	s.Sent = append(s.Sent, now)
	s.Sent = slices.Delete(s.Sent, 0, max(0, len(s.Sent)-max(r.perHour, 1)))
	tell, s.Notified, s.Failing, s.Why = s.Notified, false, 0, ""
	return tell
}

func (s *shelf) state(r rules, now time.Time) Channel {
	c := Channel{
		State: "unused", Waiting: s.len(), Tries: s.Failing, Why: s.Why, Last: s.Last, LastTitle: s.LastTitle,
		Delivered: s.Delivered,
		PerHour:   r.perHour, Quiet: r.quiet.holds(now), Next: s.next(r, now),
	}
	for _, at := range s.Sent {
		if now.Sub(at) <= time.Hour {
			c.Hour++
		}
	}
	switch {
	case s.Failing > 0:
		c.State, c.Since = cmp.Or(map[bool]string{true: "dead"}[s.Failing >= deadAfter], "failing"), s.Since
	case !s.Last.IsZero():
		c.State = "working"
	}
	return c
}

// A Channel is the public state of a channel.
type Channel struct {
	Name  string `json:"name"`  // its position and kind, such as "to[0] (smtp)"
	State string `json:"state"` // unused, working, failing or dead
	Kinds []Kind `json:"kinds,omitempty"`
	// Waiting counts undelivered alerts, Delivered all delivered ones.
	Waiting   int       `json:"waiting"`
	Delivered int       `json:"delivered"`
	Hour      int       `json:"hour"`     // messages in the last hour
	PerHour   int       `json:"per_hour"` // the maximum
	Quiet     bool      `json:"quiet"`    // in its quiet hours
	Last      time.Time `json:"last,omitzero"`
	LastTitle string    `json:"last_title,omitempty"`
	Next      time.Time `json:"next,omitzero"`  // the next delivery or retry
	Since     time.Time `json:"since,omitzero"` // the first failure
	Tries     int       `json:"tries,omitempty"`
	Why       string    `json:"why,omitempty"` // without secrets
}

// empty reports whether the outbox needs no update.
func (s *shelf) empty() bool { return s.len() == 0 && len(s.Sent) == 0 && s.Delivered == 0 }
