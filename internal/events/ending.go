package events

import "authguard/guard"

// An Ending is what became of an attempt: a closed set, fit for metric labels.
type Ending uint8

const (
	// Undecided: the attempt may proceed and has not been settled yet. No event
	// says so.
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

// String is the ending's stable name.
func (e Ending) String() string { return endingNames[e] }

// EndingOf is what the event says became of its attempt. An unknown action
// counts as refused, and an unknown outcome as failed.
func EndingOf(e *guard.Event) Ending {
	switch {
	case e.Limited != "":
		return Undecided // it is no attempt: see guard.Event
	case e.Settled && e.Outcome == guard.Withdrawn:
		return Undecided // another attempt goes on with it: web.Login's second step
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
