package challenge_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"authguard/captchamode/challenge"
)

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
				t.Error("another address was told that the challenge was counted")
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
	if err := d.Set("pow"); err != nil {
		t.Fatal(err)
	}
	pow := d.issue(t)
	if err := d.Set("image"); err != nil {
		t.Fatal(err)
	}
	image := d.issue(t)
	// With the seed of the image challenge, were it a proof of work.
	forged := "pow" + strings.TrimPrefix(image.PoW.Salt, "image")
	expectReason(t, d.check(t, here, image.ID, forged), challenge.Wrong)
	expectReason(t, d.check(t, here, pow.ID, pow.PoW.Salt), challenge.Right)
}

// work is a provider whose work is its kind and the seed.
type work struct {
	*plainKind
	andImage bool
}

func (w work) Issue(ctx context.Context, task challenge.Task) (challenge.Puzzle, error) {
	puzzle, err := w.plainKind.Issue(ctx, task)
	puzzle.OrImage, puzzle.AndImage, puzzle.Work = true, w.andImage, 8<<task.Level
	return puzzle, err
}

// What a challenge with work takes, with the picture and without.
func TestWorkAndPictureCountAsWasSealed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *challenge.Config) {
		c.Others = []challenge.Provider{work{&plainKind{kind: "pow"}, false}, work{&plainKind{kind: "both"}, true}}
	})
	for _, kind := range []string{"pow", "both"} {
		if err := d.Set(kind); err != nil {
			t.Fatal(err)
		}
		for name, try := range map[string]struct {
			digits, work bool
			other        string
			alone        bool
			pow, both    challenge.Reason
		}{
			"work and digits":    {digits: true, work: true, pow: challenge.Right, both: challenge.Right},
			"work":               {work: true, pow: challenge.Right, both: challenge.Wrong},
			"digits":             {digits: true, alone: true, pow: challenge.Right, both: challenge.Right},
			"digits as work":     {other: "digits", pow: challenge.Wrong, both: challenge.Wrong},
			"digits, wrong work": {digits: true, other: "wrong", pow: challenge.Wrong, both: challenge.Wrong},
			"wrong digits alone": {other: "answer", alone: true, pow: challenge.Wrong, both: challenge.Wrong},
			"work, wrong digits": {work: true, other: "answer", pow: challenge.Right, both: challenge.Wrong},
			"nothing":            {alone: true, pow: challenge.Absent, both: challenge.Absent},
		} {
			c := d.issue(t)
			media, err := d.Media(t.Context(), c.ID, "png")
			if err != nil || c.Kind != kind || c.Image == "" {
				t.Fatal(err, c)
			}
			digits := strings.TrimPrefix(string(media.Body), "png")
			solve := challenge.Solution{ID: c.ID}
			if try.digits {
				solve.Answer = digits
			}
			if try.work {
				solve.Work = c.PoW.Salt
			}
			switch try.other {
			case "answer":
				solve.Answer = "wrong"
			case "digits":
				solve.Work = digits
			case "wrong":
				solve.Work = "wrong"
			}
			want := map[string]challenge.Reason{"pow": try.pow, "both": try.both}[kind]
			if alone := d.PictureAlone(solve); alone != try.alone {
				t.Errorf("%s, %s: picture alone: %t", kind, name, alone)
			}
			v, err := d.Check(t.Context(), solve, here)
			if err != nil || v.Reason != want {
				t.Errorf("%s, %s: %v, %v; want %v", kind, name, v.Reason, err, want)
			}
		}
	}
}

func TestR29AChallengeIsGoodForItsLevelAndBelow(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for level := range uint8(4) {
		for asked := range uint8(4) {
			issued, now := here, here
			issued.Level, now.Level = level, asked
			c, err := d.Issue(t.Context(), issued, false)
			if err != nil {
				t.Fatal(err)
			}
			want := challenge.Right
			if level < asked {
				want = challenge.TooLittle
			}
			expectReason(t, d.check(t, now, c.ID, c.PoW.Salt), want)
			if want == challenge.TooLittle { // it was not spent
				expectReason(t, d.check(t, issued, c.ID, c.PoW.Salt), challenge.Right)
			}
		}
	}
}

func TestAKindWithoutAPictureHasNone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *challenge.Config) { c.Preferred = "pow" })
	d.pow.orImage = false
	c := d.issue(t)
	if c.Image != "" || c.Audio != "" {
		t.Errorf("the challenge offers %q and %q", c.Image, c.Audio)
	}
	if _, err := d.Media(t.Context(), c.ID, "png"); !errors.Is(err, challenge.ErrGone) {
		t.Errorf("its picture: %v", err)
	}
}

func TestTheJSONFormIsTheContracts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, func(c *challenge.Config) { c.Preferred = "pow" })
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
	for _, name := range []string{"algorithm", "iterations", "parts", "below", "salt", "work"} {
		if _, ok := pow[name]; !ok {
			t.Errorf("pow has no %q", name)
		}
	}
}

func TestTheZeroVerdictIsNotSolved(t *testing.T) {
	t.Parallel()
	var v challenge.Verdict
	if v.Solved || v.Reason.String() != "unchecked" {
		t.Errorf("zero verdict: %+v", v)
	}
}

func TestImpossibleConfigsAreErrors(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for name, change := range map[string]func(*challenge.Config){
		"no secret":         func(c *challenge.Config) { c.Secret = nil },
		"short secret":      func(c *challenge.Config) { c.Secret = c.Secret[:31] },
		"unset secret":      func(c *challenge.Config) { c.Secret = make([]byte, 32) },
		"no store":          func(c *challenge.Config) { c.Spent = nil },
		"no built-in":       func(c *challenge.Config) { c.BuiltIn = nil },
		"unknown preferred": func(c *challenge.Config) { c.Preferred = "none" },
		"two of a kind":     func(c *challenge.Config) { c.Others = []challenge.Provider{d.image} },
		"long kind": func(c *challenge.Config) {
			c.Others = []challenge.Provider{&plainKind{kind: "ninebytes"}}
		},
		"no rendering": func(c *challenge.Config) { c.Renders = -1 },
	} {
		config := challenge.Config{Secret: challengeSecret, Spent: d.spent, BuiltIn: d.image}
		change(&config)
		if c, err := challenge.New(config); err == nil || c != nil {
			t.Errorf("%s: no error", name)
		}
	}
}
