package alerts

import (
	"errors"
	"fmt"
	"time"
)

// Config says what to tell whom. Start from [DefaultConfig].
type Config struct {
	// To are shoutrrr addresses, one for each channel. They hold secrets and
	// are never printed. None: alerts go to the log only.
	To []string
	// Name begins every title; default "authguard". Say which site it is.
	Name string
	// Bundle is how long the first alert of a message waits for others;
	// default 30 s, 0 for not at all. CAPTCHA mode going on never waits.
	Bundle time.Duration
	// PerHour is the most messages to one channel in any hour; default 20.
	PerHour int
	// FailuresBefore is how many wrong passwords of strangers make a success
	// from a new place worth an alert; default 5.
	FailuresBefore int
}

// DefaultConfig tells nobody; add To.
func DefaultConfig() Config {
	return Config{Name: "authguard", Bundle: 30 * time.Second, PerHour: 20, FailuresBefore: 5}
}

// Validate joins all problems, each with its path.
func (c Config) Validate() error {
	var errs []error
	if c.Bundle < 0 {
		errs = append(errs, errors.New("alerts.bundle: must not be negative"))
	}
	if c.PerHour < 1 {
		errs = append(errs, errors.New("alerts.per_hour: must be at least 1"))
	}
	if c.FailuresBefore < 1 {
		errs = append(errs, errors.New("alerts.failures_before: must be at least 1"))
	}
	for i, address := range c.To {
		if err := Check(address); err != nil {
			errs = append(errs, fmt.Errorf("alerts.to[%d]: %w", i, err))
		}
	}
	return errors.Join(errs...)
}
