package captchamode_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode"
)

var (
	challengeSecret = []byte("0123456789abcdef0123456789abcdef")
	here            = [16]byte{1}
	elsewhere       = [16]byte{2}
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

func plainAnswer(kind string, seed captchamode.Seed) string { return kind + string(seed[:]) }

func (p *plainKind) Kind() string { return p.kind }

func (p *plainKind) Issue(ctx context.Context, seed captchamode.Seed, _ time.Time) (captchamode.Puzzle, error) {
	if p.hangs.Load() {
		<-ctx.Done()
		return captchamode.Puzzle{}, ctx.Err()
	}
	if p.breaks.Load() {
		return captchamode.Puzzle{}, errBroken
	}
	// The tests find the answer here; people are not told it.
	return captchamode.Puzzle{OrImage: p.orImage, PoW: &captchamode.PoW{Salt: plainAnswer(p.kind, seed)}}, nil
}

func (p *plainKind) Check(_ context.Context, seed captchamode.Seed, _ time.Time, answer string) (bool, error) {
	if p.breaks.Load() {
		return true, errBroken // a pass if anybody believes it
	}
	return answer == plainAnswer(p.kind, seed), nil
}

func (p *plainKind) Render(w io.Writer, seed captchamode.Seed, ext string) error {
	p.rendered.Add(1)
	if p.render != nil {
		p.render()
	}
	_, err := io.WriteString(w, ext+plainAnswer(p.kind, seed))
	return err
}

// desk is a set of challenges with its providers and its clock.
type desk struct {
	*captchamode.Challenges
	image, pow *plainKind
	clock      *challengeClock
	spent      captchamode.Spent
	fallbacks  atomic.Int64
}

func newDesk(t testing.TB, change ...func(*captchamode.ChallengeConfig)) *desk {
	t.Helper()
	d := &desk{
		image: &plainKind{kind: "image"}, pow: &plainKind{kind: "pow", orImage: true},
		clock: newChallengeClock(),
	}
	d.spent = captchamode.NewMemorySpent(0, d.clock.Now)
	config := captchamode.ChallengeConfig{
		Secret: challengeSecret, Spent: d.spent, BuiltIn: d.image,
		Others: []captchamode.Provider{d.pow}, Now: d.clock.Now,
		OnFallback: func(string, error) { d.fallbacks.Add(1) },
	}
	for _, f := range change {
		f(&config)
	}
	var err error
	if d.Challenges, err = captchamode.NewChallenges(config); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) issue(t testing.TB) captchamode.Challenge {
	t.Helper()
	c, err := d.Issue(t.Context(), here, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *desk) check(t testing.TB, place [16]byte, id, answer string) captchamode.Verdict {
	t.Helper()
	v, err := d.Check(t.Context(), place, captchamode.Solve{ID: id, Answer: answer})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func expectReason(t testing.TB, v captchamode.Verdict, want captchamode.SolveReason) {
	t.Helper()
	if v.Reason != want || v.Solved != (want == captchamode.SolveRight) {
		t.Errorf("verdict %v (solved %t), want %v", v.Reason, v.Solved, want)
	}
}

func TestARightAnswerSolvesOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), captchamode.SolveRight)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), captchamode.SolveSpent)
}

func TestAWrongAnswerBurnsTheChallenge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	expectReason(t, d.check(t, here, c.ID, "wrong"), captchamode.SolveWrong)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), captchamode.SolveSpent)
}

func TestOfParallelTriesOneIsLookedAt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	var solved atomic.Int64
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			v, err := d.Check(t.Context(), here, captchamode.Solve{ID: c.ID, Answer: c.PoW.Salt})
			if err == nil && v.Solved {
				solved.Add(1)
			}
		})
	}
	group.Wait()
	if solved.Load() != 1 {
		t.Errorf("200 parallel tries solved %d times", solved.Load())
	}
}

func TestWhatIsNoTryFailsAndBurnsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	last := c.ID[:len(c.ID)-1]
	for name, try := range map[string]struct {
		place      [16]byte
		id, answer string
		want       captchamode.SolveReason
	}{
		"nothing":        {here, "", "", captchamode.SolveAbsent},
		"no ID":          {here, "", c.PoW.Salt, captchamode.SolveAbsent},
		"no answer":      {here, c.ID, "", captchamode.SolveAbsent},
		"blank answer":   {here, c.ID, " \t\n", captchamode.SolveAbsent},
		"long answer":    {here, c.ID, strings.Repeat("1", captchamode.MaxAnswer+1), captchamode.SolveMalformed},
		"cut ID":         {here, last, c.PoW.Salt, captchamode.SolveMalformed},
		"long ID":        {here, c.ID + "A", c.PoW.Salt, captchamode.SolveMalformed},
		"no base64":      {here, last + "*", c.PoW.Salt, captchamode.SolveMalformed},
		"line break":     {here, last + "\n", c.PoW.Salt, captchamode.SolveMalformed},
		"made-up ID":     {here, strings.Repeat("A", captchamode.IDLen), c.PoW.Salt, captchamode.SolveUnknown},
		"another's ID":   {elsewhere, c.ID, c.PoW.Salt, captchamode.SolveElsewhere},
		"the zero place": {[16]byte{}, c.ID, c.PoW.Salt, captchamode.SolveElsewhere},
	} {
		v := d.check(t, try.place, try.id, try.answer)
		if v != (captchamode.Verdict{Reason: try.want}) {
			t.Errorf("%s: %+v, want %v", name, v, try.want)
		}
	}
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), captchamode.SolveRight)
}

func TestAnExpiredChallengeFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c, late := d.issue(t), d.issue(t)
	d.clock.Advance(captchamode.DefaultChallengeTTL - time.Millisecond)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), captchamode.SolveRight)
	d.clock.Advance(time.Millisecond)
	expectReason(t, d.check(t, here, late.ID, late.PoW.Salt), captchamode.SolveExpired)
	if !late.Expires.Equal(d.clock.Now()) {
		t.Errorf("the challenge says it expires at %v, at %v it had", late.Expires, d.clock.Now())
	}
}

func TestCountedComesBackOnceForEachChallenge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, counted := range []bool{true, false} {
		for _, answer := range []string{"right", "wrong"} {
			c, err := d.Issue(t.Context(), here, counted)
			if err != nil {
				t.Fatal(err)
			}
			if answer == "right" {
				answer = c.PoW.Salt
			}
			if v := d.check(t, elsewhere, c.ID, answer); v.Counted {
				t.Error("another place was told that the challenge was counted")
			}
			if v := d.check(t, here, c.ID, answer); v.Counted != counted {
				t.Errorf("issued with counted %t, got %t back", counted, v.Counted)
			}
			if v := d.check(t, here, c.ID, answer); v.Counted {
				t.Error("a spent challenge was counted again")
			}
		}
	}
}

func TestOnlyTheSealedKindsAnswerCounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.Set("pow", time.Minute); err != nil {
		t.Fatal(err)
	}
	pow := d.issue(t)
	if err := d.Set("image", time.Minute); err != nil {
		t.Fatal(err)
	}
	image := d.issue(t)
	// With the seed of the image challenge, were it a proof of work.
	forged := "pow" + strings.TrimPrefix(image.PoW.Salt, "image")
	expectReason(t, d.check(t, here, image.ID, forged), captchamode.SolveWrong)
	expectReason(t, d.check(t, here, pow.ID, pow.PoW.Salt), captchamode.SolveRight)
}

func TestAProofOfWorkCanBeSolvedByItsPicture(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if err := d.Set("pow", time.Minute); err != nil {
		t.Fatal(err)
	}
	c := d.issue(t)
	if c.Kind != "pow" || c.Image == "" || c.Audio == "" || c.PoW == nil {
		t.Fatalf("the challenge is %+v", c)
	}
	media, err := d.Media(t.Context(), c.ID, "png")
	if err != nil {
		t.Fatal(err)
	}
	typed := strings.TrimPrefix(string(media.Body), "png")
	expectReason(t, d.check(t, here, c.ID, typed), captchamode.SolveRight)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), captchamode.SolveSpent)
}

func TestAKindWithoutAPictureHasNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *captchamode.ChallengeConfig) { c.Preferred = "pow" })
	d.pow.orImage = false
	c := d.issue(t)
	if c.Image != "" || c.Audio != "" {
		t.Errorf("the challenge offers %q and %q", c.Image, c.Audio)
	}
	if _, err := d.Media(t.Context(), c.ID, "png"); !errors.Is(err, captchamode.ErrGone) {
		t.Errorf("its picture: %v", err)
	}
}

func TestTheJSONFormIsTheContracts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *captchamode.ChallengeConfig) { c.Preferred = "pow" })
	c := d.issue(t)
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	if fields["id"] != c.ID || fields["kind"] != "pow" ||
		fields["image"] != "/captcha/"+c.ID+".png" || fields["audio"] != "/captcha/"+c.ID+".wav" {
		t.Errorf("JSON form is %s", raw)
	}
	pow, _ := fields["pow"].(map[string]any)
	for _, name := range []string{"algorithm", "challenge", "maxnumber", "salt", "signature"} {
		if _, ok := pow[name]; !ok {
			t.Errorf("pow has no %q", name)
		}
	}
}

func TestTheZeroVerdictIsNotSolved(t *testing.T) {
	t.Parallel()
	var v captchamode.Verdict
	if v.Solved || v.Reason.String() != "unchecked" {
		t.Errorf("zero verdict: %+v", v)
	}
}

func TestImpossibleConfigsAreErrors(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, change := range map[string]func(*captchamode.ChallengeConfig){
		"no secret":         func(c *captchamode.ChallengeConfig) { c.Secret = nil },
		"short secret":      func(c *captchamode.ChallengeConfig) { c.Secret = c.Secret[:31] },
		"unset secret":      func(c *captchamode.ChallengeConfig) { c.Secret = make([]byte, 32) },
		"no store":          func(c *captchamode.ChallengeConfig) { c.Spent = nil },
		"no built-in":       func(c *captchamode.ChallengeConfig) { c.BuiltIn = nil },
		"unknown preferred": func(c *captchamode.ChallengeConfig) { c.Preferred = "none" },
		"two of a kind":     func(c *captchamode.ChallengeConfig) { c.Others = []captchamode.Provider{d.image} },
		"long kind": func(c *captchamode.ChallengeConfig) {
			c.Others = []captchamode.Provider{&plainKind{kind: "ninebytes"}}
		},
		"short life":   func(c *captchamode.ChallengeConfig) { c.TTL = time.Second },
		"long life":    func(c *captchamode.ChallengeConfig) { c.TTL = 2 * time.Hour },
		"no rendering": func(c *captchamode.ChallengeConfig) { c.Renders = -1 },
	} {
		config := captchamode.ChallengeConfig{Secret: challengeSecret, Spent: d.spent, BuiltIn: d.image}
		change(&config)
		if c, err := captchamode.NewChallenges(config); err == nil || c != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
