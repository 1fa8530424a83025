package captchamode

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"time"
)

// Challenges issues challenges, and checks each at most once (R17). Nothing
// is kept of a challenge until it is spent: a flood of issued ones costs no
// memory and pushes out nobody's. Safe for concurrent use; nothing to close.
type Challenges struct {
	sealer     *sealer
	spent      Spent
	builtIn    Illustrated
	providers  map[string]Provider
	policy     atomic.Pointer[challengePolicy]
	onFallback func(kind string, err error)
	now        func() time.Time
	renders    map[string]chan struct{}
}

type challengePolicy struct {
	preferred string
	ttl       time.Duration
}

// providerWait is how long a provider other than the built-in one may take
// before it counts as broken.
const providerWait = 2 * time.Second

// NewChallenges returns challenges, or every problem with the config.
func NewChallenges(config ChallengeConfig) (*Challenges, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	providers, err := config.byKind()
	if err != nil {
		return nil, err
	}
	sealer, err := newSealer(config.Secret, epochOf(config.Spent))
	if err != nil {
		return nil, err
	}
	c := &Challenges{
		sealer: sealer, spent: config.Spent, builtIn: config.BuiltIn,
		providers: providers, onFallback: config.OnFallback, now: config.Now,
		renders: map[string]chan struct{}{
			"png": make(chan struct{}, config.Renders),
			"wav": make(chan struct{}, config.Renders),
		},
	}
	if err := c.Set(config.Preferred, config.TTL); err != nil {
		return nil, err
	}
	return c, nil
}

// Set changes the preferred kind and the life of the challenges issued from
// now on. Those issued before keep what was sealed in them, for as long as
// they live. An error changes nothing.
func (c *Challenges) Set(preferred string, ttl time.Duration) error {
	if c.providers[preferred] == nil {
		return fmt.Errorf("captchamode: preferred kind: there is no provider of kind %q", preferred)
	}
	if ttl < MinChallengeTTL || ttl > MaxChallengeTTL {
		return fmt.Errorf("captchamode: ttl: must be from %s to %s", MinChallengeTTL, MaxChallengeTTL)
	}
	c.policy.Store(&challengePolicy{preferred, ttl})
	return nil
}

// Issue makes a challenge that only this place can solve. counted is sealed
// in it and handed back by [Challenges.Check]: whether the caller has charged
// it to anything. A broken provider is replaced by the built-in one (R18); an
// error means that even that one could not.
func (c *Challenges) Issue(ctx context.Context, place [16]byte, counted bool) (Challenge, error) {
	policy := c.policy.Load()
	expires := time.UnixMilli(c.now().Add(policy.ttl).UnixMilli()).UTC()
	s := sealed{kind: policy.preferred, expires: expires, place: place, counted: counted}
	rand.Read(s.nonce[:]) // never fails: it ends the program instead
	puzzle, err := c.pose(ctx, &s)
	if err != nil {
		return Challenge{}, err
	}
	s.orImage = puzzle.OrImage
	return c.present(s, puzzle), nil
}

// pose asks the preferred provider, then the built-in one, and notes in s
// which of them answered.
func (c *Challenges) pose(ctx context.Context, s *sealed) (Puzzle, error) {
	puzzle, err := c.poseAs(ctx, *s)
	if err != nil && ctx.Err() == nil && s.kind != c.builtIn.Kind() {
		c.onFallback(s.kind, err)
		s.kind = c.builtIn.Kind()
		puzzle, err = c.poseAs(ctx, *s)
	}
	if err != nil {
		return Puzzle{}, fmt.Errorf("captchamode: issuing a challenge of kind %q: %w", s.kind, err)
	}
	return puzzle, nil
}

func (c *Challenges) poseAs(ctx context.Context, s sealed) (Puzzle, error) {
	if s.kind != c.builtIn.Kind() { // which asks nobody
		limited, cancel := context.WithTimeout(ctx, providerWait)
		defer cancel()
		ctx = limited
	}
	return c.providers[s.kind].Issue(ctx, c.sealer.seed(s, s.kind), s.expires)
}

func (c *Challenges) present(s sealed, puzzle Puzzle) Challenge {
	challenge := Challenge{ID: c.sealer.seal(s), Kind: s.kind, Expires: s.expires, PoW: puzzle.PoW}
	if c.illustrated(s) {
		challenge.Image = "/captcha/" + challenge.ID + ".png"
		challenge.Audio = "/captcha/" + challenge.ID + ".wav"
	}
	return challenge
}

// illustrated tells whether the built-in image solves this challenge.
func (c *Challenges) illustrated(s sealed) bool {
	return s.orImage || s.kind == c.builtIn.Kind()
}
