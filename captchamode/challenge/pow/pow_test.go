package pow_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/altcha-org/altcha-lib-go"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/pow"
)

var expires = time.Unix(2_000_000_000, 0)

func provider(t testing.TB, maxNumber int64) *pow.Provider {
	t.Helper()
	p, err := pow.New(maxNumber)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func issue(t testing.TB, p *pow.Provider, seed challenge.Seed) challenge.PoW {
	t.Helper()
	puzzle, err := p.Issue(t.Context(), seed, expires)
	if err != nil {
		t.Fatal(err)
	}
	return *puzzle.PoW
}

// solve does what a client does, with the protocol's own library.
func solve(t testing.TB, c challenge.PoW) altcha.Payload {
	t.Helper()
	found, err := altcha.SolveChallenge(c.Challenge, c.Salt, altcha.Algorithm(c.Algorithm), int(c.MaxNumber), 0, nil)
	if err != nil || found == nil {
		t.Fatalf("no number solves the challenge: %v", err)
	}
	return altcha.Payload{
		Algorithm: c.Algorithm, Challenge: c.Challenge, Number: int64(found.Number),
		Salt: c.Salt, Signature: c.Signature,
	}
}

func encode(t testing.TB, payload altcha.Payload) string {
	t.Helper()
	raw, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func check(t testing.TB, p *pow.Provider, seed challenge.Seed, answer string) bool {
	t.Helper()
	right, err := p.Check(t.Context(), seed, expires, answer)
	if err != nil {
		t.Fatal(err)
	}
	return right
}

func TestTheProtocolsOwnLibrarySolvesIt(t *testing.T) {
	t.Parallel()
	p := provider(t, 5000)
	for i := range 20 {
		seed := challenge.Seed{byte(i)}
		if !check(t, p, seed, encode(t, solve(t, issue(t, p, seed)))) {
			t.Errorf("seed %d: the solution was not accepted", i)
		}
	}
}

func TestTheChallengeFollowsFromTheSeed(t *testing.T) {
	t.Parallel()
	p := provider(t, 0)
	first, again := issue(t, p, challenge.Seed{1}), issue(t, p, challenge.Seed{1})
	if first != again {
		t.Errorf("one seed gave %v and %v", first, again)
	}
	other := issue(t, p, challenge.Seed{2})
	if first.Salt == other.Salt || first.Challenge == other.Challenge {
		t.Error("two seeds share a salt or a challenge")
	}
	if first.MaxNumber != pow.DefaultMaxNumber || first.Algorithm != "SHA-256" {
		t.Errorf("default parameters are %v", first)
	}
	if !strings.HasSuffix(first.Salt, "?expires=2000000000&") {
		t.Errorf("salt %q does not carry the expiry", first.Salt)
	}
}

func TestWhatTheClientChangesFails(t *testing.T) {
	t.Parallel()
	p := provider(t, 5000)
	seed := challenge.Seed{7}
	elsewhere := solve(t, issue(t, p, challenge.Seed{8}))
	for name, change := range map[string]func(*altcha.Payload){
		"number":           func(s *altcha.Payload) { s.Number++ },
		"negative number":  func(s *altcha.Payload) { s.Number = -s.Number },
		"algorithm":        func(s *altcha.Payload) { s.Algorithm = "SHA-1" },
		"no algorithm":     func(s *altcha.Payload) { s.Algorithm = "" },
		"unknown":          func(s *altcha.Payload) { s.Algorithm = "none" },
		"challenge":        func(s *altcha.Payload) { s.Challenge = strings.Repeat("0", 64) },
		"signature":        func(s *altcha.Payload) { s.Signature = elsewhere.Signature },
		"no signature":     func(s *altcha.Payload) { s.Signature = "" },
		"later expiry":     func(s *altcha.Payload) { s.Salt = strings.Replace(s.Salt, "=2", "=3", 1) },
		"another's":        func(s *altcha.Payload) { *s = elsewhere },
		"another's salt":   func(s *altcha.Payload) { s.Salt = elsewhere.Salt },
		"everything empty": func(s *altcha.Payload) { *s = altcha.Payload{} },
	} {
		solution := solve(t, issue(t, p, seed))
		change(&solution)
		if check(t, p, seed, encode(t, solution)) {
			t.Errorf("%s: accepted", name)
		}
	}
}

// The digits of the number must not be able to move into the salt
// (CVE-2025-68113 of ALTCHA's libraries).
func TestTheNumberCannotBeSplicedIntoTheSalt(t *testing.T) {
	t.Parallel()
	p := provider(t, 5000)
	seed := challenge.Seed{3}
	solution := solve(t, issue(t, p, seed))
	digits := strconv.FormatInt(solution.Number, 10)
	solution.Salt += digits[:1]
	solution.Number, _ = strconv.ParseInt(digits[1:], 10, 64)
	if check(t, p, seed, encode(t, solution)) {
		t.Error("a spliced salt was accepted")
	}
}

func TestChangingTheWorkLeavesIssuedChallengesAlone(t *testing.T) {
	t.Parallel()
	p := provider(t, 5000)
	seed := challenge.Seed{4}
	before := solve(t, issue(t, p, seed))
	if err := p.SetMaxNumber(50_000); err != nil {
		t.Fatal(err)
	}
	if !check(t, p, seed, encode(t, before)) {
		t.Error("a challenge solved before the change was refused")
	}
	if got := issue(t, p, seed).MaxNumber; got != 50_000 {
		t.Errorf("max number is %d after the change", got)
	}
}

func TestWorkOutOfBoundsIsAnError(t *testing.T) {
	t.Parallel()
	for _, n := range []int64{-1, 1, pow.MinMaxNumber - 1, pow.MaxMaxNumber + 1} {
		if _, err := pow.New(n); err == nil {
			t.Errorf("max number %d was accepted", n)
		}
	}
}

func TestWhatIsNoPayloadIsWrongAndNoError(t *testing.T) {
	t.Parallel()
	p := provider(t, 0)
	for _, answer := range []string{"", "123456", "{}", "e30=", "bnVsbA==", "W10=", "!!!", strings.Repeat("A", 4096)} {
		if check(t, p, challenge.Seed{}, answer) {
			t.Errorf("%.20q: accepted", answer)
		}
	}
}

// R11: what one parser takes for the number must not be another to the next.
func TestAFieldThatComesTwiceIsWrong(t *testing.T) {
	t.Parallel()
	p, seed := provider(t, 1000), challenge.Seed{7}
	right, err := json.Marshal(solve(t, issue(t, p, seed)))
	if err != nil {
		t.Fatal(err)
	}
	twice := `{"number":0,` + string(right[1:])
	if !check(t, p, seed, base64.StdEncoding.EncodeToString(right)) {
		t.Error("the solution was not accepted")
	}
	if check(t, p, seed, base64.StdEncoding.EncodeToString([]byte(twice))) {
		t.Errorf("accepted %s", twice)
	}
}

func FuzzAnswer(f *testing.F) {
	p := provider(f, 1000)
	seed := challenge.Seed{5}
	right := solve(f, issue(f, p, seed))
	f.Add(encode(f, right))
	f.Add("e30=")
	f.Fuzz(func(t *testing.T, answer string) {
		ok, err := p.Check(t.Context(), seed, expires, answer)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := base64.StdEncoding.DecodeString(answer)
		var said altcha.Payload
		if ok && (json.Unmarshal(raw, &said) != nil || said != right) {
			t.Fatalf("accepted %s", raw)
		}
	})
}

// BenchmarkSolve is what the protocol's library needs for a guess, on one core.
func BenchmarkSolve(b *testing.B) {
	p := provider(b, 0)
	hashes := 0
	for i := 0; b.Loop(); i++ {
		hashes += int(solve(b, issue(b, p, challenge.Seed{byte(i), byte(i >> 8)})).Number) + 1
	}
	b.ReportMetric(float64(hashes)/b.Elapsed().Seconds(), "hashes/s")
	b.ReportMetric(float64(hashes)/float64(b.N), "hashes/guess")
}

// BenchmarkHash is what a program written for it needs for one of the hashes.
func BenchmarkHash(b *testing.B) {
	text := []byte(issue(b, provider(b, 0), challenge.Seed{}).Salt)
	for n := int64(0); b.Loop(); n++ {
		sha256.Sum256(strconv.AppendInt(text, n, 10))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "hashes/s")
}

func BenchmarkCheck(b *testing.B) {
	p := provider(b, 0)
	answer := encode(b, solve(b, issue(b, p, challenge.Seed{})))
	for b.Loop() {
		check(b, p, challenge.Seed{}, answer)
	}
}
