package main

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var pictureOf = regexp.MustCompile(`/captcha/[\w-]+\.png`)

// Measured before: while one address asked for its own picture over 2,000
// connections, 20 of 24 strangers' pictures were 503, and they could not log in.
func TestR26OneAddressAskingForItsPicturesLeavesOthersTheirs(t *testing.T) {
	t.Parallel()
	s := newServer(t, "challenge: {kind: image}\n")
	if out, err := s.command("captcha", "enable", "--for", "1h", "--reason", "test").CombinedOutput(); err != nil {
		t.Fatalf("captcha on: %v\n%s", err, out)
	}
	picture := func(address string) string {
		t.Helper()
		page := from(address).get(t, s.base+"/login")
		path := pictureOf.FindString(page.body)
		if path == "" {
			t.Fatalf("no picture on the page: %d\n%s", page.status, page.body)
		}
		return s.base + path
	}
	ctx, enough := context.WithCancel(t.Context())
	var attack sync.WaitGroup
	defer attack.Wait()
	defer enough()
	var asked atomic.Int64
	greedy := from("127.0.0.2")
	greedy.http.Transport.(*http.Transport).DisableKeepAlives = false
	greedy.http.Transport.(*http.Transport).MaxIdleConnsPerHost = 2000
	own := make([]string, 200)
	for i := range own {
		own[i] = picture("127.0.0.2")
	}
	for i := range 2000 {
		attack.Go(func() {
			for ctx.Err() == nil {
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, own[i%len(own)], nil)
				if answer, err := greedy.http.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
					asked.Add(1)
				}
			}
		})
	}
	for asked.Load() < 4000 {
		time.Sleep(10 * time.Millisecond) // until the attack is under way
	}
	got := tally(24, 24, func(i int) int { return from(loopback(77, i)).get(t, picture(loopback(77, i))).status })
	t.Logf("strangers' pictures: %v, while one address asked %d times", got, asked.Load())
	if got[http.StatusOK] != 24 {
		t.Errorf("strangers' pictures: %v, want 24 of 24", got)
	}
}
