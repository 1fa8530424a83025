package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"authguard/internal/database"
	"authguard/internal/testing/redistest"
)

// kill -9 between commit and bundling, and again while the receiver has the message and
// has not answered: what arrives at last is the same message, signed.
func TestR24AKilledServerLosesNoAlertThatWasCommitted(t *testing.T) {
	long(t)
	t.Parallel()
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
	type arrived struct {
		header http.Header
		body   string
	}
	got, hang := make(chan arrived, 10), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- arrived{r.Header, string(body)}
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer receiver.Close()
	s := newServer(t, fmt.Sprintf("%slimits: {pair_delay: off}\nalerts: {group_wait: 1h, private_networks: [127.0.0.0/8], to: ['webhook+%s/hook#secret=%s']}\n", quiet, receiver.URL, secret), "alice")
	for i := range 6 {
		from(loopback(61, i)).login(t, s, "alice", fmt.Sprint("wrong", i))
	}
	db, err := database.OpenReadOnly(t.Context(), filepath.Join(s.dir, "data", "authguard.db"))
	if err != nil {
		t.Fatal(err)
	}
	redistest.Until(t, "the alert to be committed", func() bool {
		var n int
		err := db.QueryRow(`SELECT COUNT(*) FROM outbox WHERE body LIKE '%account-attacked%'`).Scan(&n)
		return err == nil && n == 1
	})
	_ = db.Close()
	s.kill()
	if len(got) != 0 {
		t.Fatal("it was sent before its time")
	}
	s.configure(t, "group_wait: 1h", "group_wait: 0s")
	first := <-got
	s.kill()
	close(hang)
	s.start()
	second := <-got
	reader, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range []arrived{first, second} {
		if err := reader.Verify([]byte(one.body), one.header); err != nil || !strings.Contains(one.body, `"kind":"account-attacked"`) || !strings.Contains(one.body, "alice") {
			t.Errorf("%v: %+v", err, one)
		}
	}
	if first.body != second.body || first.header.Get("Webhook-Id") != second.header.Get("Webhook-Id") {
		t.Errorf("they differ:\n%+v\n%+v", first, second)
	}
	redistest.Until(t, "it to be noted", func() bool {
		text := s.adminAPI(t, "/api/alerts")
		return strings.Contains(text, `"delivered":1`) && strings.Contains(text, `"waiting":0`)
	})
	if len(got) != 0 {
		t.Error("it was sent again")
	}
}
