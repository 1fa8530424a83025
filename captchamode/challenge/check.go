package challenge

import (
	"context"
	"fmt"
	"strings"
)

// A Reason is why a challenge counts as solved or not: a closed set, fit for a
// metric's label. The zero Reason is not solved.
type Reason uint8

// Only Wrong and Right mean that this try has used the challenge up.
// AlreadySpent means that an earlier one had.
const (
	Unchecked Reason = iota // the check itself broke: see the error
	Absent                  // no ID, or no answer
	Malformed               // not the form of an ID, or too long an answer
	Unknown                 // not issued by us
	Expired
	Elsewhere // issued to another address, or for something else
	TooLittle // issued for less work than is asked for now
	AlreadySpent
	Wrong
	Right
)

var reasons = [...]string{
	"unchecked", "absent", "malformed", "unknown", "expired", "elsewhere", "too-little", "spent", "wrong", "solved",
}

// String is the reason in one word.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return reasons[Unchecked]
}

// A Verdict says whether a challenge was solved. The zero Verdict says no.
type Verdict struct {
	Solved bool
	Reason Reason
	// Counted is what [Desk.Issue] was told. It is set only for the one try that
	// used the challenge up, right or wrong, so a charge is taken back once.
	Counted bool
	// Charge is the issued Bond's, and set like Counted.
	Charge Charge
}

// Check uses up a challenge and reports whether the answer solves it. The
// challenge must have been issued for one of the bonds. It is spent before the
// answer is compared, so of parallel tries only one is looked at. What is no try
// at an answer (absent, malformed, expired, for none of the bonds) spends nothing.
// An error means that the answer could not be checked; the verdict is then not
// solved.
func (d *Issuer) Check(ctx context.Context, solve Solution, bonds ...Binding) (Verdict, error) {
	s, reason := d.admit(solve, bonds)
	if reason != Unchecked {
		return Verdict{Reason: reason}, nil
	}
	first, err := d.spent.Spend(ctx, s.nonce, s.expires)
	if err != nil {
		return Verdict{}, fmt.Errorf("challenge: spending a challenge: %w", err)
	}
	if !first {
		return Verdict{Reason: AlreadySpent}, nil
	}
	right, err := d.compare(ctx, s, solve)
	if err != nil {
		return Verdict{Counted: s.counted, Charge: s.binding.Charge}, err
	}
	if !right {
		return Verdict{Reason: Wrong, Counted: s.counted, Charge: s.binding.Charge}, nil
	}
	return Verdict{Solved: true, Reason: Right, Counted: s.counted, Charge: s.binding.Charge}, nil
}

// admit returns what is wrong with a try before its answer is compared; Unchecked
// if nothing.
func (d *Issuer) admit(solve Solution, bonds []Binding) (sealed, Reason) {
	if !solve.Claimed() {
		return sealed{}, Absent
	}
	if len(solve.Answer) > MaxAnswer || len(solve.Work) > MaxAnswer {
		return sealed{}, Malformed
	}
	s, reason := d.find(solve.ID)
	if reason != Unchecked {
		return s, reason
	}
	for _, b := range bonds {
		if b.Address == s.binding.Address && b.Purpose == s.binding.Purpose {
			if s.binding.Level < b.Level {
				return sealed{}, TooLittle
			}
			return s, Unchecked
		}
	}
	return sealed{}, Elsewhere
}

// Claimed reports whether it is a try at all.
func (s Solution) Claimed() bool {
	return s.ID != "" && (strings.TrimSpace(s.Answer) != "" || s.Work != "")
}

// find opens an ID that can still be solved.
func (d *Issuer) find(id string) (sealed, Reason) {
	s, reason := d.sealer.open(id)
	if reason != Unchecked {
		return sealed{}, reason
	}
	if d.makers.Load().byKind[s.kind] == nil {
		return sealed{}, Unknown // issued by a node with other providers
	}
	if !d.now().Before(s.expires) {
		return sealed{}, Expired
	}
	return s, Unchecked
}

// compare asks the provider of the sealed kind and, as sealed, the built-in one
// as well or in its stead. Nothing that the client sends decides who is asked,
// but that the picture's digits alone never count as work.
func (d *Issuer) compare(ctx context.Context, s sealed, solve Solution) (bool, error) {
	own := solve.Answer
	if s.work > 0 {
		own = solve.Work
	}
	image := "" // of which there is no kind
	if picture := d.makers.Load().picture; picture != nil {
		image = picture.Kind()
	}
	if s.andImage && own != "" { // the picture first: it is cheaper
		if drawn, err := d.compareAs(ctx, s, image, solve.Answer); !drawn || err != nil {
			return false, err
		}
	}
	right, err := false, error(nil)
	if own != "" {
		right, err = d.compareAs(ctx, s, s.kind, own)
	}
	if right && err == nil {
		return true, nil
	}
	if s.orImage && image != "" && s.kind != image && (s.work == 0 || own == "") {
		if drawn, failed := d.compareAs(ctx, s, image, solve.Answer); drawn && failed == nil {
			return true, nil
		}
	}
	if err != nil {
		return false, fmt.Errorf("challenge: checking a challenge of kind %q: %w", s.kind, err)
	}
	return false, nil
}

func (d *Issuer) compareAs(ctx context.Context, s sealed, kind, answer string) (bool, error) {
	by := d.makers.Load().byKind[kind]
	if by == nil {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, providerWait)
	defer cancel()
	return by.Check(ctx, d.sealer.task(s, kind), answer)
}
