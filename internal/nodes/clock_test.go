package nodes_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"authguard/internal/nodes"
)

func TestAClockFollowsTheSharedOneWhateverItsMachineShows(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	ours, theirs := begin.Add(-5*time.Minute), begin
	var edges []bool
	var fails error
	c := &nodes.Clock{Local: func() time.Time { return ours }, Log: slog.New(slog.DiscardHandler),
		OnWrong: func(wrong bool) { edges = append(edges, wrong) }}
	if got := c.Now(); !got.Equal(ours) || c.Counting() == nil || new(nodes.Clock).Counting() != nil {
		t.Errorf("with nobody to ask: %v", got)
	}
	c.Sources = []nodes.TimeSource{
		{Name: "Redis", Ask: func(context.Context) (time.Time, error) { return theirs, fails }},
		{Name: "PostgreSQL", Ask: func(context.Context) (time.Time, error) { return theirs.Add(time.Hour), errors.New("gone") }},
	}
	is := func(what string, want time.Time, off bool) {
		t.Helper()
		if got := c.Now(); !got.Equal(want) || (c.Off() != "") != off {
			t.Errorf("%s: %v, %q; want %v, off: %v", what, got, c.Off(), want, off)
		}
	}
	c.Look(t.Context())
	is("five minutes behind", theirs, true)
	ours, theirs = ours.Add(time.Minute), theirs.Add(time.Minute)
	is("a minute later", theirs, true)
	theirs = theirs.Add(50 * time.Millisecond) // the way there and back
	c.Look(t.Context())
	is("a little off", theirs.Add(-50*time.Millisecond), true)
	fails = errors.New("away")
	ours = ours.Add(time.Minute)
	c.Look(t.Context())
	is("nobody answers", theirs.Add(time.Minute-50*time.Millisecond), true)
	fails, theirs = nil, theirs.Add(time.Minute)
	ours = theirs.Add(time.Second) // somebody has set it, and it has no monotonic part here
	c.Look(t.Context())
	is("mended", theirs, false)
	if len(edges) != 2 || !edges[0] || edges[1] {
		t.Errorf("told %v", edges)
	}
}
