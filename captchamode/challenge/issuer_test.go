package challenge_test

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"

	"authguard/captchamode/challenge"
	"authguard/internal/testing/clocktest"
)

var (
	challengeSecret = []byte("0123456789abcdef0123456789abcdef")
	here            = challenge.Binding{Address: [16]byte{1}, Purpose: [16]byte{1}}
	elsewhere       = challenge.Binding{Address: [16]byte{2}, Purpose: [16]byte{1}}
)

// plainKind is a provider whose answer is its kind and the seed. It breaks
// when told to.
type plainKind struct {
	kind     string
	orImage  bool
	breaks   atomic.Bool
	hangs    atomic.Bool
	rendered atomic.Int64
	render   func() // called while rendering
}

var errBroken = errors.New("broken")

func plainAnswer(kind string, seed challenge.Seed) string { return kind + string(seed[:]) }

func (p *plainKind) Kind() string { return p.kind }

func (p *plainKind) Issue(ctx context.Context, task challenge.Task) (challenge.Puzzle, error) {
	if p.hangs.Load() {
		<-ctx.Done()
		return challenge.Puzzle{}, ctx.Err()
	}
	if p.breaks.Load() {
		return challenge.Puzzle{}, errBroken
	}
	// The tests find the answer here; people are not told it.
	return challenge.Puzzle{OrImage: p.orImage, PoW: &challenge.PoW{Salt: plainAnswer(p.kind, task.Seed)}}, nil
}

func (p *plainKind) Check(_ context.Context, task challenge.Task, answer string) (bool, error) {
	if p.breaks.Load() {
		return true, errBroken // a pass if anybody believes it
	}
	return answer == plainAnswer(p.kind, task.Seed), nil
}

func (p *plainKind) Render(w io.Writer, seed challenge.Seed, ext string) error {
	p.rendered.Add(1)
	if p.render != nil {
		p.render()
	}
	_, err := io.WriteString(w, ext+plainAnswer(p.kind, seed))
	return err
}

// desk is a set of challenges with its providers and its clock.
type desk struct {
	*challenge.Issuer
	image, pow *plainKind
	clock      *clocktest.Clock
	spent      challenge.Spent
	fallbacks  atomic.Int64
}

func newDesk(t testing.TB, change ...func(*challenge.Config)) *desk {
	t.Helper()
	d := &desk{
		image: &plainKind{kind: "image"}, pow: &plainKind{kind: "pow", orImage: true},
		clock: newClock(),
	}
	d.spent = challenge.NewMemorySpent(0, d.clock.Now)
	config := challenge.Config{
		Secret: challengeSecret, Spent: d.spent, BuiltIn: d.image,
		Others: []challenge.Provider{d.pow}, Now: d.clock.Now,
		OnFallback: func(string, error) { d.fallbacks.Add(1) },
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	if d.Issuer, err = challenge.New(config); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) issue(t testing.TB) challenge.Challenge {
	t.Helper()
	c, err := d.Issue(t.Context(), here, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *desk) check(t testing.TB, bond challenge.Binding, id, answer string) challenge.Verdict {
	t.Helper()
	v, err := d.Check(t.Context(), challenge.Solution{ID: id, Answer: answer}, bond)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func expectReason(t testing.TB, v challenge.Verdict, want challenge.Reason) {
	t.Helper()
	if v.Reason != want || v.Solved != (want == challenge.Right) {
		t.Errorf("verdict %v (solved %t), want %v", v.Reason, v.Solved, want)
	}
}
