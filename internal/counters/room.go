package counters

import (
	"context"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/internal/alerts"
	"authguard/internal/background"
)

// lookEvery is the interval of Look.
const lookEvery = 10 * time.Second

// Room watches how full the stores of used challenges and settled tickets are.
type Room struct {
	Stores  []challenge.Spent
	Alerts  *alerts.Alerter
	filling atomic.Bool
}

// Run calls Look until ctx ends.
func (r *Room) Run(ctx context.Context) {
	background.Every(ctx, lookEvery, func(context.Context) { r.Look() })
}

// Look alerts once when a store is almost full, and once when it has room again.
func (r *Room) Look() {
	full := 0.0
	for _, one := range r.Stores {
		full = max(full, one.Full())
	}
	if full >= 0.8 && !r.filling.Swap(true) || full < 0.5 && r.filling.Swap(false) {
		r.Alerts.ChallengesFilling(full)
	}
}

// Warnings returns a warning after Look found a store almost full.
func (r *Room) Warnings() []alerts.Warning {
	if !r.filling.Load() {
		return nil
	}
	return []alerts.Warning{alerts.ChallengesWarning()}
}
