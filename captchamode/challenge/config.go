package challenge

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// How long a challenge can be solved: by default, at least and at most.
const (
	DefaultTTL = 5 * time.Minute
	MinTTL     = 10 * time.Second
	MaxTTL     = time.Hour
)

// Config is what [New] needs.
type Config struct {
	// Secret is at least 32 bytes, the same on every node. It solves every
	// challenge.
	Secret []byte
	// Spent remembers which challenges were used up.
	Spent Spent
	// BuiltIn is what every other provider falls back to. If it is [Illustrated], its
	// pictures and sounds are those of other kinds, too; see [Desk.Illustrate].
	BuiltIn Provider
	// Others are further providers, no two of one kind.
	Others []Provider
	// Preferred is the kind to issue; default the built-in's.
	Preferred string
	// TTL is how long a challenge can be solved, from [MinTTL] to
	// [MaxTTL]; default [DefaultTTL].
	TTL time.Duration
	// Renders is how many pictures, and how many sounds, are made at once;
	// default 2. A sound takes some 10 ms of a core.
	Renders int
	// Kept is how many bytes of pictures, and of sounds, are kept once made;
	// default 16 MiB.
	Kept int
	// OnFallback is called when a provider could not issue a challenge, from
	// the goroutine that asked; may be nil. It must not block.
	OnFallback func(kind string, err error)
	// Now is the clock; default time.Now.
	Now func() time.Time
}

func (c *Config) setDefaults() {
	c.TTL, c.Renders = cmp.Or(c.TTL, DefaultTTL), cmp.Or(c.Renders, 2)
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

// byKind indexes the providers by the kind that is sealed in an ID.
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
