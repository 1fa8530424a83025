package guard

import (
	"net/netip"
	"sync"
	"time"
)

// An Event tells how one attempt ended: that it was stopped, or how it was
// settled. One that proceeds and is never settled is not told of.
type Event struct {
	At      time.Time
	Door    string
	Account string // normalised; as it was typed where that was not possible
	Address netip.Addr
	Action  Action
	Settled bool
	Outcome Outcome // if settled
	Reasons Reasons
	// Privileged: the place was privileged when the attempt began.
	Privileged bool
	// NewPlace: the attempt succeeded from a place that was not privileged.
	NewPlace bool
	// AccountFailures is how many failures of strangers the account had, as
	// far as its ladder looks, when the attempt began.
	AccountFailures int
}

// events are used again, as views are.
var events = sync.Pool{New: func() any { return new(Event) }}

// tell hands an event to the observer.
func (g *Guard) tell(e Event) {
	shared := events.Get().(*Event)
	*shared = e
	g.config.Observer.Observe(shared)
	*shared = Event{}
	events.Put(shared)
}

// An Observer is told of every event. Observe is called on the hot path from
// many goroutines and must neither block nor keep the event's address.
type Observer interface {
	Observe(e *Event)
}
