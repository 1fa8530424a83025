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
