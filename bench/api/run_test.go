package api

import (
	"context"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	t.Chdir("..")
	results, err := Run(context.Background(), Plan{Rounds: 1, Takes: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		t.Logf("%+v", r)
		if r.Ours <= 0 || r.Bare <= 0 {
			t.Errorf("%+v", r)
		}
	}
}
