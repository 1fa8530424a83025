package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/web/pages"
)

const (
	// maxStreams is how many pages are live at once; any more stand still.
	maxStreams = 32
	// liveEvery is how often a live page is drawn by default.
	liveEvery = 2 * time.Second
	// writeWithin is how long a browser may take to read what it is sent.
	writeWithin = 10 * time.Second
)

// Streams are the pages that are live. The zero Streams are ready; safe for
// concurrent use.
type Streams struct {
	Every time.Duration // how often each is drawn; default 2 s

	mu      sync.Mutex
	running int
	ended   bool
	end     chan struct{}
}

// enter lets one more in, until leave; end is closed when all are to go.
func (s *Streams) enter() (end <-chan struct{}, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.running >= maxStreams {
		return nil, false
	}
	if s.end == nil {
		s.end = make(chan struct{})
	}
	s.running++
	return s.end, true
}

func (s *Streams) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
}

// End ends all streams and lets no more begin: a server that stops does not wait for
// them.
func (s *Streams) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && s.end != nil {
		close(s.end)
	}
	s.ended = true
}

// live is GET /live?span=: the parts of the page Now as they change, as Server-Sent
// Events. A stream is no use of its session, and ends with it.
func (s *Site) live(c echo.Context) error {
	end, ok := s.Streams.enter()
	if !ok {
		c.Response().Header().Set("Retry-After", "30")
		return echo.NewHTTPError(http.StatusServiceUnavailable, "Too many live pages are open, or the server is stopping. Reload the page for current data.")
	}
	defer s.Streams.leave()
	c.Response().Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(c.Response())
	_ = control.SetReadDeadline(time.Time{}) // the request was read
	tick := time.NewTicker(cmp.Or(s.Streams.Every, liveEvery))
	defer tick.Stop()
	for sent := [][]byte(nil); ; {
		message, parts, goOn := s.liveMessage(c, sent)
		sent = parts
		_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := c.Response().Write(message); err != nil || control.Flush() != nil || !goOn {
			return nil
		}
		select {
		case <-end:
			return nil
		case <-c.Request().Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

// liveMessage is what the page is told next: those of its parts that are others than
// those that were sent. It does not go on when the session has ended.
func (s *Site) liveMessage(c echo.Context, sent [][]byte) (message []byte, parts [][]byte, goOn bool) {
	session, err := s.Login.Sessions.Peek(c)
	if err != nil {
		return []byte(": the session cannot be read right now\n\n"), sent, true
	}
	if session == nil || session.Account.Role != accounts.Admin || session.Account.MustChange || s.lacks(session) || s.choose(c) != nil {
		return []byte("event: ended\ndata:\n\n"), nil, false
	}
	parts, err = pages.RenderLive(s.now(c, s.around(c, session, "/"), s.of(c).Glance))
	if err != nil {
		s.Log.Error("the live page cannot be drawn", "error", err)
		return nil, nil, false
	}
	changed := []string{} // nothing is told too: we are here
	for i, part := range parts {
		if i >= len(sent) || !bytes.Equal(part, sent[i]) {
			changed = append(changed, string(part))
		}
	}
	text, err := json.Marshal(changed) // one line, whatever strangers typed
	return []byte("event: parts\ndata: " + string(text) + "\n\n"), parts, err == nil
}
