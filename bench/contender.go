package main

// A contender counts failed attempts.
type contender struct {
	name string
	// keysPerAttempt is the number of keys that one attempt changes.
	keysPerAttempt int
	// open returns an empty store for attempts 0 to attempts-1. No two of them share a key.
	open func(attempts int) (store, error)
}

// A store counts attempts. Attempt is safe for concurrent use.
type store interface {
	// Attempt counts the i-th attempt as failed.
	Attempt(i int)
	// Size is the number of keys in the store and their bytes by the store's own count; zero if
	// the store does not count them.
	Size() (keys int, bytes int64)
}

const (
	lowest  = "floor"
	product = "authguard"
)

// contenders are all contenders, the floor first.
func contenders() []contender {
	return []contender{
		{lowest, 4, openFloor},
		{product, 4, openGuard},
		{"sethvargo/go-limiter", 3, openGoLimiter},
		{"throttled/throttled", 3, openThrottled},
		{"ulule/limiter", 3, openUlule},
	}
}

// full opens a contender and counts every attempt once.
func (c contender) full(keys int) (s store, attempts int, err error) {
	attempts = keys / c.keysPerAttempt
	if s, err = c.open(attempts); err != nil {
		return nil, 0, err
	}
	inParallel(attempts, func(_, i int) { s.Attempt(i) })
	return s, attempts, nil
}
