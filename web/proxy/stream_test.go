package proxy

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/web"
)

// Nothing of an answer is kept back until more of it comes, whether its length is
// known or not.
func TestAnswersArriveAsTheyAreSent(t *testing.T) {
	t.Parallel()
	next := make(chan struct{})
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/known" {
			w.Header().Set("Content-Length", "3")
		}
		for _, piece := range []string{"", "a", "b", "c"} {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
			<-next
		}
	}))
	defer app.Close()
	p, err := New(Config{Edge: new(web.Edge), Hold: new(atomic.Int64), Secret: make([]byte, 16), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	upstream, _ := url.Parse(app.URL)
	p.Set(App{Upstream: upstream, Timeout: time.Minute, Patience: time.Minute})
	front := httptest.NewServer(p)
	defer front.Close()
	for _, path := range []string{"/known", "/unknown"} {
		answer, err := http.Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		one := make([]byte, 1)
		for _, want := range []string{"a", "b", "c"} {
			next <- struct{}{}
			if _, err := io.ReadFull(answer.Body, one); err != nil || string(one) != want {
				t.Fatalf("%s: %q %v, want %q", path, one, err, want)
			}
		}
		next <- struct{}{}
		_ = answer.Body.Close()
	}
}

// A connection that notes its deadlines.
type timed struct {
	*httptest.ResponseRecorder
	read, write time.Time
	set         int
}

func (c *timed) SetReadDeadline(t time.Time) error  { c.read, c.set = t, c.set+1; return nil }
func (c *timed) SetWriteDeadline(t time.Time) error { c.write, c.set = t, c.set+1; return nil }

// A stream goes on as long as it moves, and a deadline is not set for each piece.
func TestStreamsHaveTimeAsLongAsTheyMove(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &timed{ResponseRecorder: httptest.NewRecorder()}
		control := http.NewResponseController(c)
		w, body := &patientWriter{c, control, time.Now()}, &patientBody{io.NopCloser(strings.NewReader(strings.Repeat("x", 1000))), control, time.Time{}}
		w.WriteHeader(http.StatusOK)
		for range 100 {
			_, _ = w.Write([]byte("x"))
		}
		if c.set != 0 {
			t.Errorf("in the first second the server's own deadline was set %d times more", c.set)
		}
		for range 5 {
			time.Sleep(idle - time.Second)
			for range 100 {
				_, _ = w.Write([]byte("x"))
				_, _ = body.Read(make([]byte, 1))
			}
			if want := time.Now().Add(idle); !c.write.Equal(want) || !c.read.Equal(want) {
				t.Errorf("deadlines in %v and %v, want %v", time.Until(c.write), time.Until(c.read), idle)
			}
		}
		if c.set != 10 {
			t.Errorf("%d deadlines were set for 1,100 pieces, want 10", c.set)
		}
		_, _ = io.Copy(io.Discard, body)
		if !c.read.IsZero() {
			t.Error("what comes after the body has a deadline")
		}
	})
}
