package alerts

import (
	"errors"
	"slices"
)

// Reconfigure takes a new configuration over, wholly or, with an error, not at
// all. Channels that stay keep what waits in them and what they sent; what
// waits for a channel that goes is told by those that are new, since a changed
// address is often the mended one.
func (a *Alerter) Reconfigure(cfg Config) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return errors.New("alerts: stopped")
	}
	urls, channels, err := a.build(cfg)
	if err != nil {
		return err
	}
	gone := without(a.channels, channels)
	added := without(channels, a.channels)
	a.urls, a.channels = urls, channels
	a.watcher.failuresBefore = cfg.FailuresBefore
	for _, c := range channels {
		c.configure(cfg)
	}
	if a.running {
		abort(gone)
		startAll(added)
	}
	a.hand(gone, added)
	return nil
}

// abort ends channels without waiting for what they are sending.
func abort(channels []*channel) {
	for _, c := range channels {
		c.cancel()
		c.stop(c.ctx)
	}
}

// hand gives what waits in some channels to others.
func (a *Alerter) hand(from, to []*channel) {
	var rest digest
	for _, c := range from {
		rest.merge(c.rest())
	}
	for _, c := range to {
		c.take(rest)
	}
	if len(to) == 0 && rest.len() > 0 {
		a.logger.Warn("alerts dropped with their channel", "count", rest.len())
	}
}

// build returns the channels of a configuration, the present ones where they
// stay. It changes nothing.
func (a *Alerter) build(cfg Config) (urls []string, channels []*channel, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, nil, err
	}
	for i, one := range cfg.To {
		for _, url := range expand(one) {
			if slices.Contains(urls, url) {
				continue
			}
			c := a.channel(url)
			if c == nil {
				s, err := a.dial(url)
				if err != nil {
					return nil, nil, err
				}
				c = newChannel(label(i, url), s, cfg, a.logger)
			}
			urls, channels = append(urls, url), append(channels, c)
		}
	}
	return urls, channels, nil
}

func (a *Alerter) channel(url string) *channel {
	if i := slices.Index(a.urls, url); i >= 0 {
		return a.channels[i]
	}
	return nil
}

func without(list, others []*channel) (rest []*channel) {
	for _, c := range list {
		if !slices.Contains(others, c) {
			rest = append(rest, c)
		}
	}
	return rest
}
