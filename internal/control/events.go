package control

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"authguard/guard"
	"authguard/internal/operation"
)

// An EventExplanation is the state of an event's limits.
type EventExplanation struct {
	Event  string       `json:"event"`
	Limits []guard.Line `json:"limits"`
	Words  []string     `json:"words"`
}

// ExplainEvent returns the state of an event's limits for the given subjects. It changes nothing. The error is ErrAsked
// for an event without limits.
func (c *Control) ExplainEvent(ctx context.Context, event string, s guard.Subjects) (EventExplanation, error) {
	lines, err := c.config.Guard.ExplainEvent(ctx, event, s)
	e := EventExplanation{Event: event, Limits: append([]guard.Line{}, lines...), Words: []string{}}
	for _, l := range lines {
		e.Words = append(e.Words, l.String())
	}
	if len(lines) == 0 {
		e.Words = append(e.Words, "None of its limits counts by the given fields; use --account, --address or --subject.")
	}
	return e, c.noEvent(event, err)
}

func (c *Control) noEvent(event string, err error) error {
	if !errors.Is(err, guard.ErrNoEvent) {
		return err
	}
	there := "none"
	if names := c.config.Guard.Policy().EventNames(); len(names) > 0 {
		there = strings.Join(names, ", ")
	}
	return fmt.Errorf("%w: the event %.40q has no limits; events with limits: %s", operation.ErrAsked, event, there)
}
