package events

import "authguard/guard"

// Ending is the result of an attempt: a closed set, usable as a metric label.
type Ending uint8

const (
	// Undecided: the attempt may proceed and is not settled yet, another attempt continues it, or the event is not an
	// attempt.
	Undecided Ending = iota
	Failed
	Succeeded
	Abandoned
	Refused
	Challenged
	Waited
	FakeFailure
	endings int = iota
)

var endingNames = [...]string{
	Undecided: "undecided", Failed: "failed", Succeeded: "succeeded", Abandoned: "abandoned",
	Refused: "blocked", Challenged: "challenged", Waited: "delayed", FakeFailure: "fake-failure",
}

// String returns the ending's stable name.
func (e Ending) String() string { return endingNames[e] }

// EndingOf returns the result of the event's attempt. An unknown action counts as refused, an unknown outcome as
// failed.
func EndingOf(e *guard.Event) Ending {
	switch {
	case e.Limited != "":
		return Undecided // not an attempt: see guard.Event
	case e.Settled && e.Outcome == guard.Withdrawn:
		return Undecided // another attempt continues it: web.Login's second step
	case e.Settled && e.Outcome == guard.Succeeded:
		return Succeeded
	case e.Settled && e.Outcome == guard.Abandoned:
		return Abandoned
	case e.Settled:
		return Failed
	case e.Action == guard.Proceed:
		return Undecided
	case e.Action == guard.Challenge:
		return Challenged
	case e.Action == guard.Delay:
		return Waited
	case e.Action == guard.FakeFailure:
		return FakeFailure
	default:
		return Refused
	}
}
