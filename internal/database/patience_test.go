package database

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long is waited for a connection, and for a statement and the way there and
// back.
func TestTheTimeoutsAreTheURLsOrOurs(t *testing.T) {
	t.Parallel()
	const url = "postgres://u:p@127.0.0.1:1/db?sslmode=disable"
	for dsn, want := range map[string][2]time.Duration{
		url: {5 * time.Second, 10 * time.Second},
		url + "&connect_timeout=1&statement_timeout=300": {time.Second, 2300 * time.Millisecond},
	} {
		config, err := parsePostgres(dsn)
		if err != nil {
			t.Fatal(err)
		}
		if config.ConnectTimeout != want[0] {
			t.Errorf("%s: %v for a connection, want %v", dsn, config.ConnectTimeout, want[0])
		}
		synctest.Test(t, func(t *testing.T) {
			tracer := config.Tracer
			ctx := tracer.TraceQueryStart(t.Context(), nil, pgx.TraceQueryStartData{})
			began := time.Now()
			<-ctx.Done()
			if took := time.Since(began); took != want[1] || ctx.Err() != context.DeadlineExceeded {
				t.Errorf("%s: %v for a statement, want %v", dsn, took, want[1])
			}
			tracer.TraceQueryEnd(ctx, nil, pgx.TraceQueryEndData{})
		})
	}
}
