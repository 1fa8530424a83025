package challenge_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/captchamode/challenge"
)

// known is what a history knows of a challenge it issued.
type known struct {
	challenge.Challenge
	bond   challenge.Binding
	spent  bool
	solved int
}

// expected is what one try must find: R17 as a table.
func (k *known) expected(now time.Time, bond challenge.Binding, answer string) challenge.Reason {
	switch {
	case !now.Before(k.Expires):
		return challenge.Expired
	case bond != k.bond:
		return challenge.Elsewhere
	case k.spent:
		return challenge.AlreadySpent
	case answer == k.PoW.Salt:
		return challenge.Right
	default:
		return challenge.Wrong
	}
}

func (k *known) note(t *rapid.T, reason challenge.Reason) {
	if reason == challenge.Right || reason == challenge.Wrong {
		k.spent = true
	}
	if reason == challenge.Right {
		k.solved++
	}
	if k.solved > 1 {
		t.Fatalf("a challenge was solved %d times", k.solved)
	}
}

func TestAnyHistorySolvesAChallengeAtMostOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		d := newDesk(t)
		var issued []*known
		of := rapid.Custom(func(rt *rapid.T) [16]byte { return [16]byte{rapid.ByteRange(1, 2).Draw(rt, "digest")} })
		bond := rapid.Custom(func(rt *rapid.T) challenge.Binding {
			return challenge.Binding{Address: of.Draw(rt, "address"), Purpose: of.Draw(rt, "purpose")}
		})
		pick := func(rt *rapid.T) *known {
			if len(issued) == 0 {
				rt.Skip("nothing issued yet")
			}
			return rapid.SampledFrom(issued).Draw(rt, "challenge")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"issue": func(rt *rapid.T) {
				at := bond.Draw(rt, "for")
				c, err := d.Issue(t.Context(), at, rapid.Bool().Draw(rt, "counted"))
				if err != nil {
					rt.Fatal(err)
				}
				issued = append(issued, &known{Challenge: c, bond: at})
			},
			"try": func(rt *rapid.T) {
				k, at := pick(rt), bond.Draw(rt, "for")
				answer := rapid.SampledFrom([]string{k.PoW.Salt, "wrong"}).Draw(rt, "answer")
				want := k.expected(d.clock.Now(), at, answer)
				got := d.check(t, at, k.ID, answer)
				if got.Reason != want || got.Solved != (want == challenge.Right) {
					rt.Fatalf("verdict %+v, want %v", got, want)
				}
				k.note(rt, got.Reason)
			},
			"look": func(rt *rapid.T) {
				k := pick(rt)
				_, err := d.Media(t.Context(), k.ID, "png")
				if shown := err == nil; shown != (!k.spent && d.clock.Now().Before(k.Expires)) {
					rt.Fatalf("picture: %v; spent %t", err, k.spent)
				}
			},
			"wait":   func(rt *rapid.T) { d.clock.Advance(time.Duration(rapid.Int64Range(0, 2e11).Draw(rt, "ns"))) },
			"reload": func(rt *rapid.T) { reload(rt, d) },
		})
	})
}

func reload(rt *rapid.T, d *desk) {
	kind := rapid.SampledFrom([]string{"image", "pow"}).Draw(rt, "kind")
	if err := d.Set(kind); err != nil {
		rt.Fatal(err)
	}
}

// Only what was issued opens: not a bit can be changed.
func FuzzChallengeID(f *testing.F) {
	d := newDesk(f)
	issued := map[string]bool{}
	for range 4 {
		c := d.issue(f)
		issued[c.ID] = true
		f.Add(c.ID)
		f.Add(c.ID[:len(c.ID)-1] + "A")
		f.Add("A" + c.ID[1:])
		f.Add(c.ID + "=")
	}
	f.Add("")
	f.Add(strings.Repeat("A", challenge.IDLen))
	f.Fuzz(func(t *testing.T, id string) {
		v := d.check(t, elsewhere, id, "1")
		if opened := v.Reason == challenge.Elsewhere; opened != issued[id] {
			t.Fatalf("%q: %v", id, v.Reason)
		}
	})
}

func TestEveryBitOfAnIDIsProtected(t *testing.T) {
	t.Parallel()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	d := newDesk(t)
	c := d.issue(t)
	for i := range c.ID {
		for _, other := range alphabet {
			id := c.ID[:i] + string(other) + c.ID[i+1:]
			if id != c.ID && d.check(t, here, id, c.PoW.Salt).Reason != challenge.Unknown {
				t.Fatalf("position %d can be %q", i, other)
			}
		}
	}
	expectReason(t, d.check(t, here, c.ID, c.PoW.Salt), challenge.Right)
}
