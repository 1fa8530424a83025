package main

// A contender is something that counts failed attempts, at a size.
type contender struct {
	name string
	// keysPerAttempt is how many keys one attempt touches.
	keysPerAttempt int
	// open makes an empty store for attempts 0 to attempts-1, none of which
	// shares a key with another.
	open func(attempts int) (store, error)
}

// A store counts. Attempt is safe for concurrent use.
type store interface {
	// Attempt counts the i-th attempt as failed.
	Attempt(i int)
	// Size is how many keys the store holds and how many bytes it says that
	// they take; zero if it does not say.
	Size() (keys int, bytes int64)
}

// contenders are all of them, the floor first.
func contenders() []contender {
	return []contender{
		{"floor", 4, openFloor},
		{"authguard", 4, openGuard},
		{"sethvargo/go-limiter", 3, openGoLimiter},
		{"throttled/throttled", 3, openThrottled},
		{"ulule/limiter", 3, openUlule},
	}
}

// full opens a contender and makes every attempt once.
func (c contender) full(keys int) (s store, attempts int, err error) {
	attempts = keys / c.keysPerAttempt
	if s, err = c.open(attempts); err != nil {
		return nil, 0, err
	}
	inParallel(attempts, func(_, i int) { s.Attempt(i) })
	return s, attempts, nil
}
