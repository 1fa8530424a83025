package challenge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// TTL is a challenge's lifetime, and MaxTTL that of one with much work.
const (
	TTL    = 5 * time.Minute
	MaxTTL = time.Hour
)

// Config configures an [Issuer].
type Config struct {
	// Secret is at least 32 bytes, the same on every node. With it, an attacker can solve every challenge.
	Secret []byte
	// Spent stores which challenges are spent.
	Spent Spent
	// BuiltIn replaces every other provider that fails. If it is [Illustrated], other kinds also use its images and
	// audio; see [Issuer.Illustrate].
	BuiltIn Provider
	// Others are further providers, each of a different kind.
	Others []Provider
	// Preferred is the kind to issue; default BuiltIn's.
	Preferred string
	// Renders is the number of concurrent renders of images, and of audio; default 2. Audio takes about 10 ms of a core.
	Renders int
	// Kept is the cache size for images, and for audio, in bytes; default 16 MiB.
	Kept int
	// OnFallback is called when a provider could not issue a challenge, in the caller's goroutine. It must not block;
	// may be nil.
	OnFallback func(kind string, err error)
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (c *Config) setDefaults() {
	c.Renders = cmp.Or(c.Renders, 2)
	c.Kept = cmp.Or(c.Kept, 16<<20)
	if c.Preferred == "" && c.BuiltIn != nil {
		c.Preferred = c.BuiltIn.Kind()
	}
	if c.OnFallback == nil {
		c.OnFallback = func(string, error) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

func (c *Config) validate() error {
	var problems []error
	if len(c.Secret) < 32 || !slices.ContainsFunc(c.Secret, func(b byte) bool { return b != 0 }) {
		problems = append(problems, errors.New("challenge: secret: must be 32 random bytes or more"))
	}
	if c.Spent == nil {
		problems = append(problems, errors.New("challenge: spent: must be set"))
	}
	if c.BuiltIn == nil {
		problems = append(problems, errors.New("challenge: built-in provider: must be set"))
	}
	if c.Renders < 1 {
		problems = append(problems, errors.New("challenge: renders: must be at least 1"))
	}
	if c.Kept < 0 {
		problems = append(problems, errors.New("challenge: kept: must not be negative"))
	}
	return errors.Join(problems...)
}

func (c *Config) byKind() (map[string]Provider, error) {
	providers := map[string]Provider{}
	for _, p := range append([]Provider{c.BuiltIn}, c.Others...) {
		kind := p.Kind()
		if kind == "" || len(kind) > kindLen {
			return nil, fmt.Errorf("challenge: provider %q: a kind has 1 to %d bytes", kind, kindLen)
		}
		if providers[kind] != nil {
			return nil, fmt.Errorf("challenge: provider %q: there are two of that kind", kind)
		}
		providers[kind] = p
	}
	return providers, nil
}
