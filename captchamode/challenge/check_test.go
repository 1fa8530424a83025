package challenge_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode/challenge"
)

func TestARightAnswerSolvesOnce(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.AlreadySpent)
}

func TestAWrongAnswerBurnsTheChallenge(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	expectReason(t, d.check(t, here, c.ID, "wrong"), challenge.Wrong)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.AlreadySpent)
}

func TestOfParallelTriesOneIsLookedAt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c := d.issue(t)
	var solved atomic.Int64
	var group sync.WaitGroup
	for range 200 {
		group.Go(func() {
			v, err := d.Check(t.Context(), challenge.Solution{ID: c.ID, Answer: c.PoW.Salt}, here)
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
		bond       challenge.Binding
		id, answer string
		want       challenge.Reason
	}{
		"nothing":         {here, "", "", challenge.Absent},
		"no ID":           {here, "", c.PoW.Salt, challenge.Absent},
		"no answer":       {here, c.ID, "", challenge.Absent},
		"blank answer":    {here, c.ID, " \t\n", challenge.Absent},
		"long answer":     {here, c.ID, strings.Repeat("1", challenge.MaxAnswer+1), challenge.Malformed},
		"cut ID":          {here, last, c.PoW.Salt, challenge.Malformed},
		"long ID":         {here, c.ID + "A", c.PoW.Salt, challenge.Malformed},
		"no base64":       {here, last + "*", c.PoW.Salt, challenge.Malformed},
		"line break":      {here, last + "\n", c.PoW.Salt, challenge.Malformed},
		"made-up ID":      {here, strings.Repeat("A", challenge.IDLen), c.PoW.Salt, challenge.Unknown},
		"another's ID":    {elsewhere, c.ID, c.PoW.Salt, challenge.Elsewhere},
		"another purpose": {challenge.Binding{Address: here.Address, Purpose: [16]byte{2}}, c.ID, c.PoW.Salt, challenge.Elsewhere},
		"the zero bond":   {challenge.Binding{}, c.ID, c.PoW.Salt, challenge.Elsewhere},
	} {
		v := d.check(t, try.bond, try.id, try.answer)
		if v != (challenge.Verdict{Reason: try.want}) {
			t.Errorf("%s: %+v, want %v", name, v, try.want)
		}
	}
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
}

func TestAnExpiredChallengeFails(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	c, late := d.issue(t), d.issue(t)
	d.clock.Advance(challenge.TTL - time.Millisecond)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
	d.clock.Advance(time.Millisecond)
	expectReason(t, d.check(t, here, late.ID, late.PoW.Salt), challenge.Expired)
	if !late.Expires.Equal(d.clock.Now()) {
		t.Errorf("the challenge says it expires at %v, at %v it had", late.Expires, d.clock.Now())
	}
}

func TestWorkThatIsTooLongIsNoTry(t *testing.T) {
	t.Parallel()
	d := newDesk(t, preferPoW)
	c := d.issue(t)
	v, err := d.Check(t.Context(), challenge.Solution{ID: c.ID, Work: strings.Repeat("1", challenge.MaxAnswer+1)}, here)
	if err != nil {
		t.Fatal(err)
	}
	expectReason(t, v, challenge.Malformed)
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
}
