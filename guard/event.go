package guard

import (
	"net/netip"
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

// An Event tells how one attempt ended: that it was stopped, or how it was
// settled. One that proceeds and is never settled is not told of. Or it tells that a
// limit on events was reached, or is quiet again: see Limited.
type Event struct {
	At    time.Time
	Realm string // for who observes several: the guard leaves it empty
	// Limited is the event whose limit was met, for what is no login: see Edge. Empty for
	// an attempt.
	Limited     string
	Edge        Edge
	Subject     string // of an edge: a piece of its keyed digest, where a limit counts by text
	Count       int    // of an edge: how many came beyond the limit so far
	Integration string
	Account     string // normalised; as it was typed where that was not possible
	Address     netip.Addr
	Action      Action
	Settled     bool
	Outcome     Outcome // if settled
	Reasons     Reasons
	// Known: the place was privileged when the attempt began.
	Known bool
	// AtDevice: it was privileged by a device cookie, and not by its address.
	AtDevice bool
	// Repeat: the password is one of the account's last wrong ones, and so the
	// attempt counts nowhere (R28).
	Repeat bool
	// Sprayed: strangers try the password on many accounts, and this was a
	// stranger's place (R28).
	Sprayed bool
	// Guess stands for the password at every account alike: 24 bits of a keyed digest,
	// or 0 if the door had none to show. It is for counting different ones in memory,
	// and is never written down (R23).
	Guess uint32
	// Identity is the client's (Attempt.Identity); 0: it is not known.
	Identity uint32
	// NewClient: the attempt succeeded from a place that was not privileged.
	NewClient bool
	// Note is what the door, or whoever checked the password, has to say about it
	// (Ticket.Note).
	Note string
	// AccountFailures is how many failures of strangers the account had, as
	// far as its ladder looks, when the attempt began.
	AccountFailures int // 0 where they may be other accounts', at the memory bound
}

// An Observer is told of every event. Observe is called on the hot path from
// many goroutines and must not block.
type Observer interface {
	Observe(Event)
}
