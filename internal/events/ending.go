package events

import "authguard/guard"

// An Ending is what became of an attempt: a closed set, fit for metric labels.
type Ending uint8

const (
	// Undecided: the attempt may proceed and has not been settled yet.
	Undecided Ending = iota
	Failed
	Succeeded
	Abandoned
	Refused
	Challenged
	Waited
	endings int = iota
)

var endingNames = [...]string{
	Undecided: "undecided", Failed: "failed", Succeeded: "succeeded", Abandoned: "abandoned",
	Refused: "refused", Challenged: "challenged", Waited: "waited",
}

// String is the ending's stable name.
func (e Ending) String() string { return endingNames[e] }

// EndingOf is what the event says became of its attempt. What it does not know
// counts as refused, or as failed if it was settled.
func EndingOf(e *guard.Event) Ending {
	if e.Settled {
		return settled(e.Outcome)
	}
	switch e.Action {
	case guard.Proceed:
		return Undecided
	case guard.Challenge:
		return Challenged
	case guard.Wait:
		return Waited
	default:
		return Refused
	}
}

func settled(o guard.Outcome) Ending {
	switch o {
	case guard.Succeeded:
		return Succeeded
	case guard.Abandoned:
		return Abandoned
	default:
		return Failed
	}
}
