package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"regexp"
	"sync"
	"testing"
	"time"
)

var pictureOf = regexp.MustCompile(`/captcha/[\w-]+\.png`)

// Measured before: while one address asked for its own picture over 2,000
// connections, 20 of 24 strangers' pictures were 503, and they could not log in.
func TestR26OneAddressAskingForItsPicturesLeavesOthersTheirs(t *testing.T) {
	if os.Getenv("FULL_SIZE") == "" {
		t.Skip("in the long form: it compares times; gallery_test.go holds the rule")
	}
	s := newServer(t, "challenge: {kind: image}\n")
	if out, err := s.command("captcha", "enable", "--for", "1h", "--reason", "test").CombinedOutput(); err != nil {
		t.Fatalf("captcha enable: %v\n%s", err, out)
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
	// The attack is so many requests for each picture of a stranger, however fast the machine.
	turns := make(chan struct{}, 500*24)
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
				select {
				case <-turns:
				case <-ctx.Done():
					return
				}
				r, _ := http.NewRequestWithContext(ctx, http.MethodGet, own[i%len(own)], nil)
				if answer, err := greedy.http.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, answer.Body)
					_ = answer.Body.Close()
				}
			}
		})
	}
	attacks := func(requests int) {
		for range requests {
			turns <- struct{}{}
		}
	}
	sent := func() {
		for len(turns) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
	attacks(4000)
	sent()
	got := tally(24, 24, func(i int) int {
		own := picture(loopback(77, i))
		attacks(250)
		sent()
		attacks(250) // and it goes on while the stranger waits
		return from(loopback(77, i)).get(t, own).status
	})
	if got[http.StatusOK] != 24 {
		t.Errorf("strangers' pictures: %v, want 24 of 24", got)
	}
}
