package captchamode

import (
	"sync"
	"time"
)

const tickEvery = 250 * time.Millisecond

type ticker struct {
	once sync.Once
	stop chan struct{}
	done chan struct{}
}

// Start ticks until Stop. It must be called at most once.
func (m *Mode) Start() {
	m.ticker.stop, m.ticker.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(m.ticker.done)
		tick := time.NewTicker(tickEvery)
		defer tick.Stop()
		for {
			select {
			case <-m.ticker.stop:
				return
			case <-tick.C:
				m.Tick()
			}
		}
	}()
}

// Stop ends what Start started; it may be called twice, or without a Start.
func (m *Mode) Stop() {
	if m.ticker.stop == nil {
		return
	}
	m.ticker.once.Do(func() { close(m.ticker.stop) })
	<-m.ticker.done
}
