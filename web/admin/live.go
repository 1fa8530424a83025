package admin

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"authguard/internal/accounts"
	"authguard/web"
	"authguard/web/pages"
)

const (
	// maxStreams limits the live pages; further pages do not update themselves.
	maxStreams = 32
	liveEvery  = 5 * time.Second
	// writeWithin limits how long a browser may take to read a message.
	writeWithin = 10 * time.Second
)

// Streams are the open live pages. The zero value is ready to use and safe for concurrent use.
type Streams struct {
	Every time.Duration // interval between updates; default 5 s

	mu      sync.Mutex
	running int
	ended   bool
	end     chan struct{}
}

// enter registers a stream until leave. end is closed when all streams must end.
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

// End ends all streams and rejects new ones, so that the server's shutdown does not wait for them.
func (s *Streams) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && s.end != nil {
		close(s.end)
	}
	s.ended = true
}

// live is GET /live?span=: the changed parts of the overview as Server-Sent Events. A stream does not keep its session
// alive, and ends with it.
func (s *Site) live(c echo.Context) error {
	end, ok := s.Streams.enter()
	if !ok {
		c.Response().Header().Set("Retry-After", "30")
		return echo.NewHTTPError(http.StatusServiceUnavailable,
			"Too many live pages are open, or the server is stopping. Reload the page for current data.")
	}
	defer s.Streams.leave()
	c.Response().Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(c.Response())
	_ = control.SetReadDeadline(time.Time{}) // the request has been read
	out, flush := compressed(c)
	tick := time.NewTicker(cmp.Or(s.Streams.Every, liveEvery))
	defer tick.Stop()
	for sent := new(pages.Live); ; {
		message, goOn := s.liveMessage(c, sent)
		_ = control.SetWriteDeadline(time.Now().Add(writeWithin))
		if _, err := out.Write(message); err != nil || flush() != nil || control.Flush() != nil || !goOn {
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

// compressed returns a writer for the response that compresses if the client accepts it, across messages: rows repeat.
func compressed(c echo.Context) (out io.Writer, flush func() error) {
	c.Response().Header().Add("Vary", "Accept-Encoding")
	if !web.AcceptsGzip(c.Request()) {
		return c.Response(), func() error { return nil }
	}
	c.Response().Header().Set("Content-Encoding", "gzip")
	g := gzip.NewWriter(c.Response())
	return g, g.Flush
}

// liveMessage returns the parts that have changed. goOn is false after the session has ended.
func (s *Site) liveMessage(c echo.Context, sent *pages.Live) (message []byte, goOn bool) {
	session, err := s.Login.Sessions.Peek(c)
	if err != nil {
		return []byte(": the session cannot be read right now\n\n"), true
	}
	if session == nil || session.Account.Role != accounts.Admin || session.Account.MustChange || s.lacks(session) ||
		s.choose(c) != nil {
		return []byte("event: ended\ndata:\n\n"), false
	}
	parts, err := sent.Draw(s.now(c, s.around(c, session, "/"), s.of(c).Glance))
	if err != nil {
		s.Log.Error("the live page cannot be drawn", "error", err)
		return nil, false
	}
	changed := []string{} // an empty message is sent too, as a keep-alive
	for _, part := range parts {
		changed = append(changed, string(part))
	}
	text, err := json.Marshal(changed) // one line, whatever the user input
	return []byte("event: parts\ndata: " + string(text) + "\n\n"), err == nil
}
