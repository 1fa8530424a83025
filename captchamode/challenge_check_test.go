package captchamode_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode"
)

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
