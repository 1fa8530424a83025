package guard

import (
	"net/netip"
	"time"

	"authguard/captchamode/challenge"
)

// An Attempt is somebody offering a password for an account from an address.
// It never holds the password.
type Attempt struct {
	// Account is the name as it was typed.
	Account string
	// Directory is where the account is kept, if that is not where the site's
	// accounts are: one of Config.Directories. Accounts of one name in two
	// directories are two accounts, and where the one logs in from is no place
	// of the other.
	Directory string
	// Address is the client's, decided by the door; invalid counts as one
	// shared address, so that what cannot be parsed is never unlimited.
	Address netip.Addr
	// Devices are the device cookies that came along, of whichever accounts; at
	// most MaxDevices are looked at.
	Devices []string
	// Solve is the answer to a challenge, if one came along.
	Solve challenge.Solve
	// Fingerprint recognises a repeated guess: keyed, truncated, 0 for none.
	// It is recorded nowhere yet.
	Fingerprint uint64
	// Forwarded says that the peer is no configured proxy and yet sent a
	// forwarding header (R9).
	Forwarded bool
	// Hold is how long the door lets an attempt wait on a timer until it is due;
	// zero: it is told to wait (R15).
	Hold time.Duration
	// Door names where the attempt came in: "login", "admin", "api", "library".
	Door string
}

// MaxDevices is how many device cookies of one attempt are looked at.
const MaxDevices = 8

// A Decision is the answer to an attempt. The zero Decision refuses.
type Decision struct {
	// Action is Proceed, Wait, Challenge or Refuse.
	Action Action
	// RetryAfter is how long to wait before the next try: for Wait until the
	// attempt is due, for Refuse until there may be room again.
	RetryAfter time.Duration
	// Reasons say why, strongest first; also what a monitored limit would have
	// done. Proceed may have reasons too.
	Reasons Reasons
	// Solve is what became of the challenge's answer that came along.
	Solve challenge.Verdict
	// Privileged says that the attempt came from a privileged place.
	Privileged bool
	// Counted says that a Challenge is pressure on the site until it is solved.
	Counted bool
	// Account is the name, normalised and canonical; empty if it was unusable.
	Account string
	// Ticket is what Settle wants; it is of use only for Proceed.
	Ticket Ticket
}

// An Outcome is how an attempt ended. The zero Outcome is Failed.
type Outcome uint8

const (
	// Failed: the password was wrong, or nobody said otherwise.
	Failed Outcome = iota
	// Succeeded: the password was right and the person is let in.
	Succeeded
	// Abandoned: the check itself broke and said nothing of the password.
	Abandoned
	// Withdrawn: the attempt was stopped after all, before its password was
	// looked at. The guard says so itself; nobody else needs to.
	Withdrawn
)

var outcomeNames = [...]string{Failed: "failed", Succeeded: "succeeded", Abandoned: "abandoned", Withdrawn: "withdrawn"}

// String is the outcome's stable name.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return outcomeNames[Failed]
}
