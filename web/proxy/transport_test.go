package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A rawApp answers each connection with what say writes to it.
func rawApp(t *testing.T, say func(net.Conn)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				say(c)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// The app is not troubled before a small body has come.
func TestASmallBodyIsWholeBeforeTheAppHearsOfIt(t *testing.T) {
	t.Parallel()
	var sent atomic.Bool
	front := httptest.NewServer(before(t, rawApp(t, func(c net.Conn) {
		whole := sent.Load()
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		body, _ := io.ReadAll(r.Body)
		text := fmt.Sprint(whole, " ", string(body), " ", r.Close)
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
	})))
	t.Cleanup(front.Close)
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n")
	from := bufio.NewReader(c)
	if line, err := from.ReadString('\n'); err != nil || !strings.Contains(line, "100") { // now it is being read
		t.Fatal(line, err)
	}
	_, _ = from.ReadString('\n')
	fmt.Fprint(c, "half")
	sent.Store(true)
	fmt.Fprint(c, "half")
	answer, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(answer.Body); string(body) != "true halfhalf true" || err != nil {
		t.Errorf("the app got %q, %v", body, err)
	}
}

// Whatever an app may answer arrives.
func TestAnswersToASmallBody(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		say, want string
		early     bool // it does not read the body
	}{
		"a length":          {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more", "200 ok", false},
		"until it closes":   {"HTTP/1.0 200 OK\r\n\r\nok", "200 ok", false},
		"chunks, a trailer": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nok\r\n0\r\nX-T: yes\r\n\r\n", "200 ok yes", false},
		"hints first":       {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "103 200 ok", false},
		"before it reads":   {"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno", "413 no", true},
		"nothing to say":    {"HTTP/1.1 204 No Content\r\n\r\n", "204 ", false},
		"another protocol":  {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n", "502", false},
		"no HTTP":           {"hello\r\n\r\n", "502", false},
		"nothing":           {"", "502", false},
		"no end of a head":  {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\nContent-Length: 2\r\n\r\nok", "502", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front := httptest.NewServer(before(t, rawApp(t, func(c net.Conn) {
				if !one.early {
					r, err := http.ReadRequest(bufio.NewReader(c))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, r.Body)
				}
				_, _ = io.WriteString(c, one.say)
				if one.early {
					_, _ = io.Copy(io.Discard, c)
				}
			})))
			t.Cleanup(front.Close)
			var got []string
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, _ textproto.MIMEHeader) error {
				if len(got) == 0 {
					got = append(got, fmt.Sprint(code))
				}
				return nil
			}})
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, front.URL, strings.NewReader(strings.Repeat("x", smallBody)))
			client := new(http.Transport)
			defer client.CloseIdleConnections()
			answer, err := client.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprint(answer.StatusCode))
			if answer.StatusCode < http.StatusInternalServerError {
				got = append(got, string(body))
			} else {
				got = got[len(got)-1:]
			}
			if trailer := answer.Trailer.Get("X-T"); trailer != "" {
				got = append(got, trailer)
			}
			if strings.Join(got, " ") != one.want {
				t.Errorf("%q, want %q", strings.Join(got, " "), one.want)
			}
		})
	}
}

// An app that does not answer has the time that it has, and is told when its client has
// gone.
func TestASmallBodyEndsWithItsTimeOrItsClient(t *testing.T) {
	t.Parallel()
	got, gone := make(chan struct{}, 2), make(chan struct{}, 2)
	p := before(t, rawApp(t, func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		got <- struct{}{}
		_, _ = c.Read(make([]byte, 1))
		gone <- struct{}{}
	}))
	front := httptest.NewServer(p)
	t.Cleanup(front.Close)
	post := func(ctx context.Context) (*http.Response, error) {
		r, _ := http.NewRequestWithContext(ctx, http.MethodPost, front.URL, strings.NewReader("a body"))
		return new(http.Transport).RoundTrip(r)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-got
		cancel()
	}()
	if _, err := post(ctx); err == nil {
		t.Error("an answer")
	}
	<-gone
	upstream, _ := url.Parse(p.app.Load().Upstream.String())
	p.Set(App{Upstream: upstream, Patience: 20 * time.Millisecond})
	answer, err := post(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusGatewayTimeout {
		t.Error(answer.Status)
	}
	<-gone
}

// What ends the connection of a small body, on a clock and a wire of the test's own: one
// that nothing ends is a deadlock, and seen at once.
func TestAConnectionOfASmallBodyEndsWhenItMust(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	open := context.Background()
	for name, one := range map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		say  []string // a minute apart
		want string   // the status, the body, an error's words and how long it took
	}{
		"a silent app has its time":      {want: "i/o timeout 2m0s"},
		"an app has no more in pieces":   {say: []string{"HTTP/1.1 200 OK\r\n", "A: b\r\n", "C: d\r\n", "\r\n"}, want: "i/o timeout 2m0s"},
		"what begins in time goes on":    {say: []string{"HTTP/1.1 200 OK\r\n\r\n", "a", "b", "c", "d"}, want: "200 abcd 5m0s"},
		"a long body is whole":           {say: []string{"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", maxHead+1)}, want: fmt.Sprint("200 ", maxHead+1, " bytes 1m0s")},
		"nobody switches unasked":        {say: []string{"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n" + ok}, want: errSwitched.Error() + " 0s"},
		"a head has its bounds":          {say: []string{"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", maxHead) + "\r\n\r\n"}, want: "unexpected EOF 0s"},
		"hints have the same":            {say: []string{strings.Repeat("HTTP/1.1 103 Early Hints\r\nX: "+strings.Repeat("x", 1<<20)+"\r\n\r\n", 11) + ok}, want: "unexpected EOF 0s"},
		"a client that goes ends it":     {ctx: func() (context.Context, context.CancelFunc) { return context.WithTimeout(open, time.Second) }, want: "context deadline exceeded 1s"},
		"a client that goes ends a body": {ctx: func() (context.Context, context.CancelFunc) { return context.WithTimeout(open, 90*time.Second) }, say: []string{"HTTP/1.1 200 OK\r\n\r\na", "b", "c"}, want: "200 ab: io: read/write on closed pipe 1m30s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := open, context.CancelFunc(func() {})
			if one.ctx != nil {
				ctx, cancel = one.ctx()
			}
			defer cancel()
			ours, app := net.Pipe()
			closed := make(chan struct{})
			go func() {
				defer close(closed)
				if r, err := http.ReadRequest(bufio.NewReader(app)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				for _, piece := range one.say {
					if _, err := io.WriteString(app, piece); err != nil {
						return
					}
					time.Sleep(time.Minute)
				}
				if strings.HasSuffix(one.want, "5m0s") || strings.Contains(one.want, "bytes") {
					_ = app.Close() // the end of such a body
				}
				_, _ = io.Copy(io.Discard, app)
			}()
			transport := newTransport(2 * time.Minute)
			transport.dial = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://app.example/", strings.NewReader("a body"))
			r.Close = true
			begun, got := time.Now(), ""
			answer, err := transport.RoundTrip(r)
			if err != nil {
				got = err.Error()
			} else {
				body, err := io.ReadAll(answer.Body)
				if got = fmt.Sprint(answer.StatusCode, " ", string(body)); len(body) > 100 {
					got = fmt.Sprint(answer.StatusCode, " ", len(body), " bytes")
				}
				if err != nil {
					got += ": " + err.Error()
				}
				_ = answer.Body.Close()
			}
			if got += fmt.Sprint(" ", time.Since(begun)); !strings.HasSuffix(got, one.want) {
				t.Errorf("%s: %q, want %q", name, got, one.want)
			}
			<-closed // and the app is told
		})
	}
}

// The app whose answer's length is known keeps its own end open.
func TestNoConnectionOfASmallBodyIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, app := net.Pipe()
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			if r, err := http.ReadRequest(bufio.NewReader(app)); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
			_, _ = io.WriteString(app, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			_, _ = io.Copy(io.Discard, app)
		}()
		transport := newTransport(0)
		transport.dial = func(context.Context, string, string) (net.Conn, error) { return ours, nil }
		r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://app.example/", strings.NewReader("a body"))
		r.Close = true
		answer, err := transport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(answer.Body); string(body) != "ok" || err != nil {
			t.Errorf("%q %v", body, err)
		}
		_ = answer.Body.Close()
		<-closed
	})
}
