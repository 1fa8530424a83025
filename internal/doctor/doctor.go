package doctor

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"time"

	"authguard/internal/config"
)

// A Config says what to look at. Only Settings, or Invalid, is needed.
type Config struct {
	Settings config.Config
	// Invalid is why the settings cannot be used; little else is looked at then.
	Invalid error
	// RedisTLS makes the encryption that the settings ask for; nil: none.
	RedisTLS func(config.Redis) (*tls.Config, error)
	// Within is how long one thing may take. 0: 5 s.
	Within time.Duration

	// For tests: this machine's clock, its resolver, the free bytes of a
	// folder's file system, and how many files a process may have open. nil:
	// the real ones.
	Now         func() time.Time
	Lookup      func(ctx context.Context, host string) ([]netip.Addr, error)
	Free        func(folder string) (uint64, error)
	Descriptors func() (uint64, error)
}

const defaultWithin = 5 * time.Second

func (c Config) complete() Config {
	c.Within = cmp.Or(c.Within, defaultWithin)
	if c.RedisTLS == nil {
		c.RedisTLS = func(config.Redis) (*tls.Config, error) { return nil, nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Lookup == nil {
		c.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.Free == nil {
		c.Free = freeSpace
	}
	if c.Descriptors == nil {
		c.Descriptors = descriptors
	}
	return c
}

func (c Config) keysFile() string {
	return cmp.Or(c.Settings.KeysFile, filepath.Join(c.Settings.Data, "keys"))
}

func (c Config) sqliteFile() string { return filepath.Join(c.Settings.Data, "authguard.db") }

// Examine looks at everything, the parts at the same time, and tells what it
// found, always in the same order.
func Examine(ctx context.Context, c Config) []Check {
	c = c.complete()
	parts := []func(context.Context, Config) []Check{settings, machine}
	if c.Invalid == nil {
		parts = append(parts, files, databases, accountSource, redisServers)
	}
	return together(len(parts), func(i int) []Check { return parts[i](ctx, c) })
}

// together does several things at the same time and joins what they find.
func together(n int, do func(i int) []Check) []Check {
	found := make([][]Check, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { found[i] = do(i) })
	}
	all.Wait()
	joined := []Check{}
	for _, one := range found {
		joined = append(joined, one...)
	}
	return joined
}

// grace is how much longer somebody who was told to stop may take to say so.
const grace = 500 * time.Millisecond

// look does one thing that must end within a time. If it does not, that is a
// problem with it; whatever still hangs is left behind. The answer is the zero
// value then.
func look[T any](ctx context.Context, within time.Duration, name, about string, do func(context.Context, *notes) T) ([]Check, T) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	n, done := &notes{about: about}, make(chan T, 1)
	go func() { done <- do(ctx, n) }()
	timer := time.NewTimer(within + grace)
	defer timer.Stop()
	select {
	case answer := <-done:
		return n.checks(), answer
	case <-timer.C:
		n.problem(name, "Find out what hangs there: a disk, a mount, the network.", "could not be looked at within %v.", within)
		var none T
		return n.checks(), none
	}
}

// lookAt is look for what has no answer.
func lookAt(ctx context.Context, within time.Duration, name, about string, do func(context.Context, *notes)) []Check {
	checks, _ := look(ctx, within, name, about, func(ctx context.Context, n *notes) struct{} {
		do(ctx, n)
		return struct{}{}
	})
	return checks
}
