package captchamode

import (
	"context"
	"fmt"
	"strings"
)

// A SolveReason is why a challenge counts as solved or not: a closed set, fit
// for a metric's label. The zero reason is not solved.
type SolveReason uint8

// Why a Verdict is what it is. Only SolveWrong and SolveRight have used the
// challenge up; SolveSpent found that another try had.
const (
	SolveUnchecked SolveReason = iota // the check itself broke: see the error
	SolveAbsent                       // no ID, or no answer
	SolveMalformed                    // not the form of an ID, or too long an answer
	SolveUnknown                      // not issued by us
	SolveExpired
	SolveElsewhere // issued to another place
	SolveSpent
	SolveWrong
	SolveRight
)

var solveReasons = [...]string{
	"unchecked", "absent", "malformed", "unknown", "expired", "elsewhere", "spent", "wrong", "solved",
}

// String is the reason in one word.
func (r SolveReason) String() string {
	if int(r) < len(solveReasons) {
		return solveReasons[r]
	}
	return solveReasons[SolveUnchecked]
}

// A Verdict says whether a challenge was solved. The zero Verdict says no.
type Verdict struct {
	Solved bool
	Reason SolveReason
	// Counted is what [Challenges.Issue] was told. It is set only for the one
	// try that used the challenge up, right or wrong: what is taken back for
	// it is taken back once.
	Counted bool
}

// Check uses up a challenge and tells whether the answer solves it. The
// challenge is spent before the answer is compared, so that of parallel tries
// one is looked at. What is no try at an answer (absent, malformed, expired,
// of another place) spends nothing. An error means that it could not be
// checked, and the verdict is then not solved.
func (c *Challenges) Check(ctx context.Context, place [16]byte, solve Solve) (Verdict, error) {
	s, reason := c.admit(place, solve)
	if reason != SolveUnchecked {
		return Verdict{Reason: reason}, nil
	}
	first, err := c.spent.Spend(ctx, s.nonce, s.expires)
	if err != nil {
		return Verdict{}, fmt.Errorf("captchamode: spending a challenge: %w", err)
	}
	if !first {
		return Verdict{Reason: SolveSpent}, nil
	}
	right, err := c.compare(ctx, s, solve.Answer)
	if err != nil {
		return Verdict{Counted: s.counted}, err
	}
	if !right {
		return Verdict{Reason: SolveWrong, Counted: s.counted}, nil
	}
	return Verdict{Solved: true, Reason: SolveRight, Counted: s.counted}, nil
}

// admit tells what is wrong with a try before its answer is looked at;
// SolveUnchecked if nothing.
func (c *Challenges) admit(place [16]byte, solve Solve) (sealed, SolveReason) {
	if solve.ID == "" || strings.TrimSpace(solve.Answer) == "" {
		return sealed{}, SolveAbsent
	}
	if len(solve.Answer) > MaxAnswer {
		return sealed{}, SolveMalformed
	}
	s, reason := c.find(solve.ID)
	if reason == SolveUnchecked && s.place != place {
		return sealed{}, SolveElsewhere
	}
	return s, reason
}

// find opens an ID that can still be solved.
func (c *Challenges) find(id string) (sealed, SolveReason) {
	s, reason := c.sealer.open(id)
	if reason != SolveUnchecked {
		return sealed{}, reason
	}
	if c.providers[s.kind] == nil {
		return sealed{}, SolveUnknown // issued by a node with other providers
	}
	if !c.now().Before(s.expires) {
		return sealed{}, SolveExpired
	}
	return s, SolveUnchecked
}

// compare asks the provider of the kind that was sealed, and the built-in one
// if that was offered beside it. Nothing else decides who is asked.
func (c *Challenges) compare(ctx context.Context, s sealed, answer string) (bool, error) {
	right, err := c.compareAs(ctx, s, s.kind, answer)
	if right && err == nil {
		return true, nil
	}
	if s.orImage && s.kind != c.builtIn.Kind() {
		if drawn, failed := c.compareAs(ctx, s, c.builtIn.Kind(), answer); drawn && failed == nil {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("captchamode: checking a challenge of kind %q: %w", s.kind, err)
	}
	return false, nil
}

func (c *Challenges) compareAs(ctx context.Context, s sealed, kind, answer string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, providerWait)
	defer cancel()
	return c.providers[kind].Check(ctx, c.sealer.seed(s, kind), s.expires, answer)
}
