package proxy

import (
	"context"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	t.Chdir("..")
	rows, err := Run(context.Background(), Plan{Rounds: 1, Takes: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		for i, rate := range r.Rate {
			if rate <= 0 {
				t.Errorf("%s, %s: %v", r.Scene, Ways[i], rate)
			}
		}
		t.Logf("%s: %.0f a second, %.1f µs", r.Scene, r.Rate, r.CPU)
	}
}
