package admin_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/internal/accounts"
)

// A listener reads a live page.
type listener struct {
	*http.Response
	lines *bufio.Scanner
}

func (c *counter) listen(t *testing.T) *listener {
	t.Helper()
	ctx, goAway := context.WithCancel(t.Context())
	t.Cleanup(goAway)
	response, err := c.browser.Do(c.request(t, http.MethodGet, "/live", "", "").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 10<<20)
	return &listener{response, lines}
}

// next is the next event; empty at the stream's end.
func (l *listener) next() (name string, data string) {
	for l.lines.Scan() {
		switch line := l.lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			name = line[len("event: "):]
		case strings.HasPrefix(line, "data:"):
			data = strings.TrimPrefix(line[len("data:"):], " ")
		case line == "":
			return name, data
		}
	}
	return "", ""
}

// change is the next event that tells of parts that have changed.
func (l *listener) change(t *testing.T) (parts []string) {
	t.Helper()
	for len(parts) == 0 {
		name, data := l.next()
		if name != "parts" || json.Unmarshal([]byte(data), &parts) != nil {
			t.Fatalf("event %q: %.200s", name, data)
		}
	}
	return parts
}

func TestALivePageIsToldWhatChangesAndNothingElse(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	l := c.listen(t)
	if got := l.Header.Get("Content-Type"); l.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%d %s", l.StatusCode, got)
	}
	if all := l.change(t); len(all) != 9 || !strings.Contains(strings.Join(all, ""), "No attack") {
		t.Fatalf("at first %d parts", len(all))
	}
	c.Wrong(t, `vic"><b>`, "192.0.2.66")
	c.tops.Handle(c.Events())
	c.Clock.Advance(10 * time.Second)
	told := "" // in one message or, if the page was drawn in between, in two
	for _, part := range []string{`id="live-account"`, `id="live-address"`, "192.0.2.0/24"} {
		for !strings.Contains(told, part) {
			told += strings.Join(l.change(t), "")
		}
	}
	if strings.Contains(told, `id="live-switches"`) || strings.Contains(told, `vic"><b>`) {
		t.Error("more than what has changed is told")
	}
	for i := range 31 {
		c.Mode.Observe(captchamode.Failure, [16]byte{byte(i)})
	}
	c.Clock.Advance(1e9)
	for told = ""; !strings.Contains(told, "Under attack"); {
		told += strings.Join(l.change(t), "")
	}
	if strings.Contains(told, `id="live-reason"`) {
		t.Errorf("the attack is told as\n%s", told)
	}
}

func TestALivePageIsCompressed(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.admit(t, "ann", accounts.Admin, false)
	r := c.request(t, http.MethodGet, "/live", "", "")
	r.Header.Set("Accept-Encoding", "br, gzip")
	ctx, goAway := context.WithCancel(t.Context())
	t.Cleanup(goAway)
	response, err := c.browser.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.Header.Get("Content-Encoding") != "gzip" || response.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%v", response.Header)
	}
	plain, err := gzip.NewReader(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(plain)
	lines.Buffer(nil, 10<<20)
	l := &listener{response, lines}
	if all := l.change(t); len(all) != 9 { // before the stream ends: every message is flushed
		t.Errorf("%d parts", len(all))
	}
}

func TestALivePageEndsWithItsSession(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	if name, _ := c.listen(t).next(); name != "ended" {
		t.Errorf("without a session: %q", name)
	}
	c.admit(t, "ann", accounts.Admin, false)
	l := c.listen(t)
	l.change(t)
	c.post(t, "/logout", nil)
	for name := "parts"; name != "ended"; {
		if name, _ = l.next(); name == "" {
			t.Fatal("it ended without a word")
		}
	}
	if l.lines.Scan() {
		t.Errorf("it goes on: %s", l.lines.Text())
	}
	c.admit(t, "ann", accounts.Admin, false)
	l = c.listen(t)
	l.change(t)
	if _, err := c.db.ExecContext(t.Context(), `UPDATE accounts SET role = 'user'`); err != nil {
		t.Fatal(err)
	}
	for name := "parts"; name != "ended"; {
		if name, _ = l.next(); name == "" {
			t.Fatal("it ended without a word")
		}
	}
}

func TestLivePagesAreBoundedAndEndWithTheServer(t *testing.T) {
	t.Parallel()
	c := newCounter(t)
	c.streams.Every = time.Hour
	c.admit(t, "ann", accounts.Admin, false)
	all := make([]*listener, 32)
	for i := range all {
		all[i] = c.listen(t)
		all[i].change(t)
	}
	if status, _, body := c.get(t, "/live"); status != http.StatusServiceUnavailable || !strings.Contains(body, "Reload the page") {
		t.Errorf("the 33rd: %d %s", status, body)
	}
	all[0].Body.Close()
	for all[0] = c.listen(t); all[0].StatusCode != http.StatusOK; all[0] = c.listen(t) { // the server hears of it a moment later
		all[0].Body.Close()
	}
	c.streams.End()
	c.streams.End()
	for _, l := range all {
		for name := "parts"; name != ""; {
			name, _ = l.next()
		}
	}
	if status, _, _ := c.get(t, "/live"); status != http.StatusServiceUnavailable {
		t.Errorf("after the end: %d", status)
	}
}
