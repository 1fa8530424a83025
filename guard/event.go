package guard

import (
	"net/netip"
	"time"
)

// An Edge says whether an Event begins or ends the time in which events exceed a limit.
type Edge uint8

const (
	NoEdge Edge = iota
	// Reached: an event exceeds a limit that had room until then.
	Reached
	// Over: no event has exceeded the limit for the length of its window.
	Over
	// Met: an event exceeds a limit. Reported each time.
	Met
)

// An Event reports that an attempt was stopped, or how it was settled. An attempt that proceeds and is never settled
// has none. With Limited it reports a limit on events instead.
type Event struct {
	At    time.Time
	Realm string // for an observer of several guards; a guard leaves it empty
	LimitEvent
	Integration string
	Account     string // normalized; as typed if it is invalid
	Address     netip.Addr
	Action      Action
	Settled     bool
	Outcome     Outcome // if settled
	Reasons     Reasons
	ClientEvent
	PasswordEvent
	// Note is what the integration or the password check adds (Ticket.Note).
	Note string
	// AccountFailures is how many failures of unknown clients the account had in its longest window before the attempt.
	AccountFailures int // 0 if they may be other accounts', at the memory bound
}

// LimitEvent is the part of an Event about a limit on events.
type LimitEvent struct {
	// Limited is the name of the event whose limit was exceeded: see Edge. Empty for a login attempt.
	Limited string
	Edge    Edge
	Subject string // of an edge: a part of its keyed digest, if the limit counts by text
	Count   int    // of an edge: how many exceeded the limit so far
}

// ClientEvent is the part of an Event about the client.
type ClientEvent struct {
	// Known: the client was known when the attempt began.
	Known bool
	// AtDevice: it was known by its device cookie, not by its address.
	AtDevice bool
	// Identity is Attempt.Fingerprint; 0: unknown.
	Identity uint32
	// NewClient: the attempt succeeded from an unknown client.
	NewClient bool
}

// PasswordEvent is the part of an Event about the password.
type PasswordEvent struct {
	// Repeat: a repeated password, so the attempt does not count (R28).
	Repeat bool
	// Sprayed: the password is used for password spraying, and the client is unknown (R28).
	Sprayed bool
	// Guess identifies the password for all accounts: 24 bits of a keyed digest; 0: unknown. It is for counting different
	// passwords in memory, and must not be stored (R23).
	Guess uint32
}

// An Observer gets every event. Observe is called on the hot path from many goroutines and must not block.
type Observer interface {
	Observe(Event)
}
