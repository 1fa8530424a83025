package alerts

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config says whom to tell and how often.
type Config struct {
	// To are shoutrrr addresses, one for each channel. They hold secrets and
	// are never printed. None: alerts go to the log only.
	To []string
	// Bundle is how long the first alert of a message waits for others; 0: not at
	// all. CAPTCHA mode going on never waits.
	Bundle time.Duration
	// PerHour is the most messages to one channel in any hour; at least 1.
	PerHour int
}

// Reconfigure adopts a new configuration as a whole or, with an error, not at
// all. Channels that stay keep what waits in them and what they sent; what
// waits in a channel that goes passes to the new ones, since a changed address
// is often a corrected one.
func (a *Alerter) Reconfigure(cfg Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	channels, err := a.build(cfg)
	if err != nil {
		return err
	}
	var rest digest
	for _, c := range a.channels {
		if !slices.Contains(channels, c) {
			rest.merge(c.close())
		}
	}
	heirs := 0
	for _, c := range channels {
		c.configure(cfg)
		if !slices.Contains(a.channels, c) {
			c.digest = rest.snapshot()
			heirs++
		}
	}
	if n := rest.len(); n > 0 && heirs == 0 {
		a.logger.Warn("alerts dropped with their channel", "count", n)
	}
	a.channels = channels
	poke(a.changed)
	return nil
}

// build returns the channels of a configuration, the present ones where they
// stay. It changes nothing.
func (a *Alerter) build(cfg Config) (channels []*channel, err error) {
	if cfg.Bundle < 0 || cfg.PerHour < 1 {
		return nil, errors.New("alerts: bundle must not be negative, and per_hour must be at least 1")
	}
	for i, address := range cfg.To {
		for _, url := range expand(address) {
			same := func(c *channel) bool { return c.url == url }
			if slices.ContainsFunc(channels, same) {
				continue
			}
			if at := slices.IndexFunc(a.channels, same); at >= 0 {
				channels = append(channels, a.channels[at])
				continue
			}
			s, err := a.dial(url)
			if err != nil {
				return nil, fmt.Errorf("alerts.to[%d]: %w", i, err)
			}
			channels = append(channels, newChannel(url, label(i, url), s, a.logger))
		}
	}
	return channels, nil
}
