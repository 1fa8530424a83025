package pow_test

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/pow"
)

func provider(t testing.TB, work int64) *pow.Provider {
	t.Helper()
	p, err := pow.New(work)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func issue(t testing.TB, p *pow.Provider, task challenge.Task) (*challenge.PoW, challenge.Task) {
	t.Helper()
	puzzle, err := p.Issue(t.Context(), task)
	if err != nil {
		t.Fatal(err)
	}
	task.Work = puzzle.Work
	return puzzle.PoW, task
}

// derive is the documented arithmetic, written down again.
func derive(t testing.TB, c *challenge.PoW, part, n int) uint32 {
	key, err := pbkdf2.Key(sha256.New, fmt.Sprintf("%s:%d:%d", c.Salt, part, n), []byte(c.Salt), c.Iterations, 4)
	if err != nil {
		t.Fatal(err)
	}
	return binary.BigEndian.Uint32(key)
}

// solve returns a number for each part, and how many keys it derived.
func solve(t testing.TB, c *challenge.PoW) (numbers []string, tried int) {
	for part := range c.Parts {
		n := 0
		for derive(t, c, part, n) >= c.Below {
			n++
		}
		tried += n + 1
		numbers = append(numbers, fmt.Sprint(n))
	}
	return numbers, tried
}

func check(t testing.TB, p *pow.Provider, task challenge.Task, answer string) bool {
	t.Helper()
	right, err := p.Check(t.Context(), task, answer)
	if err != nil {
		t.Fatal(err)
	}
	return right
}

func TestWorkIsSolvedByTheDocumentedArithmetic(t *testing.T) {
	t.Parallel()
	p := provider(t, 100)
	c, task := issue(t, p, challenge.Task{Seed: challenge.Seed{1}})
	numbers, tried := solve(t, c)
	if !check(t, p, task, strings.Join(numbers, ".")) {
		t.Error("a solution was not accepted")
	}
	if tried > 400 { // the seed is fixed
		t.Errorf("it took %d derivations, on average 100", tried)
	}
	for name, answer := range map[string]string{
		"nothing": "", "one part too few": strings.Join(numbers[1:], "."), "one too many": strings.Join(numbers, ".") + ".1",
		"a wrong one":    strings.Join(append([]string{numbers[0] + "1"}, numbers[1:]...), "."),
		"leading zero":   "0" + strings.Join(numbers, "."),
		"sign":           "+" + strings.Join(numbers, "."),
		"other order":    strings.Join(append([]string{numbers[1], numbers[0]}, numbers[2:]...), "."),
		"digits alone":   "123456",
		"a huge number":  "99999999999999999999." + strings.Join(numbers[1:], "."),
		"commas":         strings.Join(numbers, ","),
		"no number":      "x." + strings.Join(numbers[1:], "."),
		"a broken float": "1e3." + strings.Join(numbers[1:], "."),
	} {
		if check(t, p, task, answer) {
			t.Errorf("%s was accepted", name)
		}
	}
	for n := 1; n < c.Parts; n++ {
		if check(t, p, task, strings.Join(numbers[:n], ".")) {
			t.Errorf("the first %d parts were accepted", n)
		}
	}
	nearly := 0
	for key := derive(t, c, 0, nearly); key < c.Below || key >= 2*c.Below; key = derive(t, c, 0, nearly) {
		nearly++
	}
	if check(t, p, task, strings.Join(append([]string{fmt.Sprint(nearly)}, numbers[1:]...), ".")) {
		t.Error("half the work was accepted")
	}
	other, _ := issue(t, p, challenge.Task{Seed: challenge.Seed{2}})
	if other.Salt == c.Salt {
		t.Error("two challenges have one salt: work for the one is work for the other")
	}
	task.Seed = challenge.Seed{2}
	if check(t, p, task, strings.Join(numbers, ".")) {
		t.Error("a solution was good for another challenge")
	}
}

// What is sealed in the challenge is checked, not what is asked for today.
func TestMoreWorkLeavesIssuedChallengesAlone(t *testing.T) {
	t.Parallel()
	p := provider(t, 100)
	c, task := issue(t, p, challenge.Task{})
	numbers, _ := solve(t, c)
	if err := p.SetWork(20_000); err != nil {
		t.Fatal(err)
	}
	if !check(t, p, task, strings.Join(numbers, ".")) {
		t.Error("a solution was refused because the work was raised since")
	}
	task.Work = 20_000
	if check(t, p, task, strings.Join(numbers, ".")) {
		t.Error("cheap work passed for dear work")
	}
}

func TestWorkDoublesByTheLevelUpToItsMost(t *testing.T) {
	t.Parallel()
	p := provider(t, 1000)
	for level, want := range []int64{1000, 2000, 4000, 8000, 16_000, 32_000, 64_000, 128_000, pow.MaxWork, pow.MaxWork} {
		c, task := issue(t, p, challenge.Task{Level: uint8(level)})
		if c.Work != want || int64(task.Work) != want || p.At(uint8(level)) != want {
			t.Errorf("level %d asks for %d, want %d", level, c.Work, want)
		}
		if average := float64(c.Parts) * (1 << 32) / float64(c.Below); average < 0.99*float64(want) || average > 1.01*float64(want) {
			t.Errorf("level %d takes %.0f derivations, want %d", level, average, want)
		}
	}
	if p.At(255) != pow.MaxWork {
		t.Errorf("the highest level asks for %d", p.At(255))
	}
}

// A loaded core did 106 keys a second: at 86 failures its owner could never finish.
func TestAChallengeLivesLongerThanASlowCoreNeeds(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	p := provider(t, pow.DefaultWork)
	desk, err := challenge.New(challenge.Config{
		Secret: []byte("a secret of thirty-two bytes, at least"), Spent: challenge.NewMemorySpent(0, clock),
		BuiltIn: p, Now: clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	for level := range uint8(9) {
		c, err := desk.Issue(t.Context(), challenge.Binding{Level: level}, false)
		if err != nil {
			t.Fatal(err)
		}
		lives, needs := c.Expires.Sub(now), time.Duration(float64(c.PoW.Work)*1.6/106*float64(time.Second))
		if lives < needs || lives < 5*time.Minute || lives > challenge.MaxTTL || needs < 3*time.Minute && lives != 5*time.Minute {
			t.Errorf("%d keys: it lives %v, and a slow core needs %v", c.PoW.Work, lives, needs)
		}
	}
}

func TestWorkOutOfBoundsIsAnError(t *testing.T) {
	t.Parallel()
	for _, work := range []int64{-1, 1, pow.MinWork - 1, pow.MostWork + 1} {
		if _, err := pow.New(work); err == nil {
			t.Errorf("work of %d is allowed", work)
		}
	}
}

func FuzzWork(f *testing.F) {
	p := provider(f, 100)
	_, task := issue(f, p, challenge.Task{Work: 1 << 31})
	task.Work = 1 << 31 // nothing is small enough
	f.Add("0.0.0.0.0.0.0.0")
	f.Add("........")
	f.Fuzz(func(t *testing.T, answer string) {
		if check(t, p, task, answer) && strings.Count(answer, ".") != 7 {
			t.Fatalf("%q was accepted", answer)
		}
	})
}

func BenchmarkDerive(b *testing.B) {
	c, _ := issue(b, provider(b, 0), challenge.Task{})
	for n := 0; b.Loop(); n++ {
		derive(b, c, 0, n)
	}
}

func BenchmarkCheck(b *testing.B) {
	p := provider(b, 100)
	c, task := issue(b, p, challenge.Task{Expires: time.Time{}})
	numbers, _ := solve(b, c)
	for b.Loop() {
		check(b, p, task, strings.Join(numbers, "."))
	}
}
