package web

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// served serves HTTP/1 and HTTP/2 behind a Listener until the test ends.
func served(t testing.TB, h http.HandlerFunc) *Listener {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Listener{Listener: socket, Log: slog.New(slog.DiscardHandler)}
	server := &http.Server{Handler: l.Handler(h), MaxHeaderBytes: 4 << 10, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	server.ConnState = func(c net.Conn, state http.ConnState) {
		if state == http.StateHijacked {
			c.(*Conn).Hijacked()
		}
	}
	AllowHTTP2(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return l
}

// A client2 sends frames of HTTP/2 as they are.
type client2 struct {
	t *testing.T
	net.Conn
	*http2.Framer
	next uint32
}

func (l *Listener) dial2(t *testing.T) *client2 {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err == nil {
		_, err = io.WriteString(c, http2.ClientPreface)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	f := http2.NewFramer(c, c)
	f.ReadMetaHeaders = hpack.NewDecoder(4<<10, nil)
	if err := f.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return &client2{t, c, f, 1}
}

// begin sends headers, pairs of name and value, and returns the stream's id.
func (c *client2) begin(end bool, fields ...string) uint32 {
	c.t.Helper()
	id := c.next
	c.next += 2
	if err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(fields...), EndStream: end, EndHeaders: true}); err != nil {
		c.t.Fatal(err)
	}
	return id
}

func block(fields ...string) []byte {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return b.Bytes()
}

// answer is the status of a stream, or that it was reset.
func (c *client2) answer(id uint32) string {
	c.t.Helper()
	for {
		frame, err := c.ReadFrame()
		if err != nil {
			return err.Error()
		}
		if frame.Header().StreamID != id {
			continue
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			return f.PseudoValue("status")
		case *http2.RSTStreamFrame:
			return "reset"
		}
	}
}

func TestHTTP2IsServed(t *testing.T) {
	t.Parallel()
	l := served(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.Proto, r.Method, r.URL, string(body), err)
	})
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	client := http.Client{Transport: transport}
	for _, c := range []struct {
		method string
		body   io.Reader
		want   string
	}{
		{http.MethodGet, nil, "HTTP/2.0GET/x?y<nil>"},
		{http.MethodPost, strings.NewReader("hello"), "HTTP/2.0POST/x?yhello<nil>"},
		{http.MethodPut, io.MultiReader(strings.NewReader("hel"), strings.NewReader("lo")), "HTTP/2.0PUT/x?yhello<nil>"},
	} {
		r, err := http.NewRequest(c.method, "http://"+l.Addr().String()+"/x?y", c.body)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(response.Body); string(got) != c.want || err != nil {
			t.Errorf("%s: %q, %v", c.method, got, err)
		}
		_ = response.Body.Close()
	}
	if l.Refused() != 0 {
		t.Errorf("%d refused", l.Refused())
	}
}

// What HTTP/1 could not say, or another parser of it would read otherwise.
func TestHTTP2IsHeldToTheSame(t *testing.T) {
	t.Parallel()
	var handed atomic.Int64
	l := served(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			handed.Add(1)
		}
	})
	request := func(method, path, host string, more ...string) []string {
		return append([]string{":method", method, ":scheme", "http", ":path", path, ":authority", host}, more...)
	}
	for _, c := range []struct {
		body   string
		fields []string
		want   string // "": refused by us; else by net/http
	}{
		{fields: request("post", "/", "a")}, {fields: request("GET /x", "/", "a")}, {fields: request("GET", "/a#b", "a")}, {fields: request("GET", "/\xc3\xa9", "a")}, {fields: request("GET", "http://b/", "a")},
		{fields: request("GET", "/", "a b")}, {fields: request("GET", "/", "a", "host", "b")}, {fields: request("GET", "/", "u@a"), want: "reset"},
		{fields: request("POST", "/", "a", "content-length", "5", "content-length", "5"), body: "hello"}, {fields: request("POST", "/", "a", "content-length", "05"), body: "hello"},
		{fields: request("POST", "/", "a", "content-length", "5")},
		{fields: request("GET", "/", "a"), body: "hello"}, {fields: request("HEAD", "/", "a", "content-length", "5"), body: "hello"},
		{fields: request("GET", "/", "a", "x", "a\x00b"), want: "reset"}, {fields: request("GET", "/", "a", "x", "a\r\nhost: b"), want: "reset"}, {fields: request("GET", "/a b", "a"), want: ""},
		{fields: request("GET", "/", "a", "x y", "z"), want: "reset"}, {fields: request("GET", "/", "a", "X", "z"), want: "reset"}, {fields: request("GET", "x", "a"), want: "reset"}, {fields: []string{":method", "CONNECT", ":authority", "a"}},
		{fields: request("GET", "/", "a", "connection", "remote-user"), want: "400"}, {fields: request("POST", "/", "a", "transfer-encoding", "chunked"), body: "5\r\nhello\r\n0\r\n\r\n", want: "400"}, {fields: request("GET", "/", "a", "upgrade", "h2c"), want: "400"},
	} {
		before := l.Refused()
		client := l.dial2(t)
		id := client.begin(c.body == "", c.fields...)
		if c.body != "" {
			_ = client.WriteData(id, true, []byte(c.body))
		}
		got, want, counted := client.answer(id), c.want, uint64(0)
		if want == "" {
			want, counted = "400", 1
		}
		if got != want && !(want == "reset" && got == "400") || l.Refused()-before != counted {
			t.Errorf("%q: %s, %d counted", c.fields, got, l.Refused()-before)
		}
	}
	if handed.Load() != 0 {
		t.Errorf("%d were handed on", handed.Load())
	}
	client := l.dial2(t)
	id := client.begin(false, request("GET", "/", "a", "host", "a")...) // as HAProxy ends some
	_ = client.WriteData(id, true, nil)
	if got := client.answer(id); got != "200" || handed.Load() != 1 {
		t.Errorf("a GET that ends in an empty frame: %s", got)
	}
}

// CVE-2023-44487: requests that are begun and cancelled at once do not pile up.
func TestARapidResetRunsNoMoreHandlersThanStreams(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int64
	release := make(chan struct{})
	l := served(t, func(http.ResponseWriter, *http.Request) {
		now := running.Add(1)
		for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
		}
		<-release // work that a cancelled request does not end
		running.Add(-1)
	})
	client := l.dial2(t)
	go func() {
		for range 5_000 {
			id := client.next
			client.next += 2
			if client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"), EndStream: true, EndHeaders: true}) != nil ||
				client.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
				return
			}
		}
	}()
	var code http2.ErrCode
	for code == 0 {
		frame, err := client.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if away, ok := frame.(*http2.GoAwayFrame); ok {
			code = away.ErrCode
		}
	}
	for running.Load() < 100 { // those that were begun get there
		runtime.Gosched()
	}
	if code != http2.ErrCodeEnhanceYourCalm || most.Load() != 100 {
		t.Errorf("ended with %v, %d handlers at a time, want 100", code, most.Load())
	}
	close(release)
}
