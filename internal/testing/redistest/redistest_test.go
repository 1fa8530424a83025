package redistest_test

import (
	"context"
	"testing"

	"authguard/internal/testing/redistest"
)

func TestAServerHangsDiesAndComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Standalone(t)
	s.Do(t, "SET", "k", "v")
	s.Stop(t)
	s.Continue(t)
	if got := s.Do(t, "GET", "k"); got != "v" {
		t.Errorf("got %v", got)
	}
	s.Kill()
	s.Start(t)
	if got := s.Do(t, "GET", "k"); got != nil {
		t.Errorf("after a kill: %v", got)
	}
}

func TestASlotMovesWithItsKeys(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	client, ctx := c.Client(t), context.Background()
	if err := client.Set(ctx, "{a}1", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	slot := int(client.ClusterKeySlot(ctx, "{a}1").Val())
	for to := range 3 {
		c.Move(t, slot, to)
		if got := client.Get(ctx, "{a}1").Val(); got != "v" {
			t.Errorf("moved to %d: %q", to, got)
		}
	}
}

func TestSentinelsReplaceADeadMaster(t *testing.T) {
	t.Parallel()
	w := redistest.Sentinel(t)
	client, ctx := w.Client(t), context.Background()
	if err := client.Set(ctx, "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(ctx, 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	w.Master.Kill()
	w.Hasty(t)
	redistest.Until(t, "a new master", func() bool { return client.Set(ctx, "k2", "v", 0).Err() == nil })
	if got := client.Get(ctx, "k").Val(); got != "v" {
		t.Errorf("got %q", got)
	}
}
