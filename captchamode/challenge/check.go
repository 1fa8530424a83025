package challenge

import (
	"context"
	"fmt"
	"strings"
)

// A Reason is why a challenge counts as solved or not: a closed set, suitable as a metric label. The zero Reason is
// not solved.
type Reason uint8

// After Wrong and Right, this attempt has spent the challenge; after Unchecked, it may have. AlreadySpent means that
// an earlier attempt did.
const (
	Unchecked Reason = iota // the check failed: see the error
	Absent                  // no ID, or no answer
	Malformed               // not an ID, or too long an answer
	Unknown                 // not issued by this site
	Expired
	Elsewhere // issued to another IP address, or for another purpose
	TooLittle // issued for less work than is required now
	AlreadySpent
	Wrong
	Right
)

var reasons = [...]string{
	"unchecked", "absent", "malformed", "unknown", "expired", "elsewhere", "too-little", "spent", "wrong", "solved",
}

// String returns the reason as one word.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return reasons[Unchecked]
}

// A Verdict is the result of Check. The zero Verdict is not solved.
type Verdict struct {
	Solved bool
	Reason Reason
	// Counted is the value passed to [Issuer.Issue]. It is set only for the attempt that spent the challenge, so that
	// the caller takes a charge back once.
	Counted bool
	// Charge is the Binding's, and set like Counted.
	Charge Charge
	// Work is what a solved challenge required; zero if it had only an image or a provider's widget.
	Work uint32
}

// Check spends a challenge and reports whether the answer solves it. The challenge must have been issued for one of
// the bindings. It is spent before the answer is compared, so only one of several concurrent attempts is checked. An
// absent, malformed, expired or unbound attempt spends nothing. An error means that the answer could not be checked;
// the verdict is then not solved.
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
	return Verdict{Solved: true, Reason: Right, Counted: s.counted, Charge: s.binding.Charge, Work: s.work}, nil
}

// admit validates an attempt before its answer is compared; Unchecked if it is valid.
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

// Claimed reports whether the solution has an ID and an answer.
func (s Solution) Claimed() bool {
	return s.ID != "" && (strings.TrimSpace(s.Answer) != "" || s.Work != "")
}

// find opens an ID that has not expired.
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

// compare asks the sealed provider and, as sealed, the built-in one additionally or instead. The client cannot choose
// the provider, and the image's digits alone never count as work.
func (d *Issuer) compare(ctx context.Context, s sealed, solve Solution) (bool, error) {
	if s.solved {
		return true, nil
	}
	own := solve.Answer
	if s.work > 0 {
		own = solve.Work
	}
	image := "" // matches no provider
	if picture := d.makers.Load().picture; picture != nil {
		image = picture.Kind()
	}
	if s.andImage && own != "" { // the image first: it is cheaper
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
