package wire

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"
)

// inPieces is a connection that gives what it has in pieces of these sizes, again and again.
type inPieces struct {
	net.Conn
	data  *bytes.Reader
	sizes []int
	n     int
}

func (p *inPieces) Read(b []byte) (int, error) {
	size := min(len(b), p.sizes[p.n%len(p.sizes)])
	p.n++
	return p.data.Read(b[:size])
}

func (*inPieces) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)} }

// However requests come in, pipelined or in pieces, the order is that of the one that was
// handed on last, of the headers that were asked for, the first time that each came.
func TestTheOrderIsThatOfTheRequestThatIsAnswered(t *testing.T) {
	t.Parallel()
	wanted := []string{"User-Agent", "Accept", "X-Long-Name-Of-More-Than-Twenty-Letters"}
	names := append([]string{"Cookie", "X-Long-Name-Of-More-Than-Twenty-Numbers", "Accept-Language"}, wanted...)
	rapid.Check(t, func(t *rapid.T) {
		var ordered Listener
		ordered.SetOrdered(wanted)
		var all strings.Builder
		var want [][]string
		for i := range rapid.IntRange(1, 4).Draw(t, "requests") {
			var order []string
			body := rapid.StringN(0, 50, 50).Draw(t, "body")
			fmt.Fprintf(&all, "POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n", i, len(body))
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 8).Draw(t, "headers") {
				if slices.Contains(wanted, name) && !slices.Contains(order, name) {
					order = append(order, name)
				}
				if rapid.Bool().Draw(t, "small") {
					name = strings.ToLower(name)
				}
				fmt.Fprintf(&all, "%s: v\r\n", name)
			}
			all.WriteString("\r\n" + body)
			want = append(want, order)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 60), 1, 5).Draw(t, "sizes")
		ordered.MaxHead = 1 << 15
		c := &Conn{
			Conn: &inPieces{data: bytes.NewReader([]byte(all.String())), sizes: sizes}, from: &ordered,
			message: message{maxHead: ordered.MaxHead, ordered: &ordered.ordered},
		}
		for i, order := range want {
			got, b := []byte(nil), make([]byte, rapid.SampledFrom([]int{1, 7, 4096}).Draw(t, "reads")+1)
			for len(got) == 0 || c.message.part != over || c.good > 0 {
				n, err := c.Read(b)
				if err != nil && err != io.EOF {
					t.Fatal(err)
				}
				got = append(got, b[:n]...)
			}
			var came []string
			for _, at := range c.message.head.order {
				came = append(came, wanted[at])
			}
			if !slices.Equal(came, order) {
				t.Fatalf("request %d: %q, want %q", i, came, order)
			}
		}
	})
}

// Over a real server: keep-alive, a client that pipelines, and none where nobody asks.
func TestAHandlerIsToldTheOrder(t *testing.T) {
	t.Parallel()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	front := &Listener{Listener: socket, MaxHead: 32 << 10, Log: slog.New(slog.DiscardHandler)}
	var told atomic.Pointer[[]string]
	server := &http.Server{ConnContext: WithConn, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		order := Order(r)
		told.Store(&order)
		fmt.Fprint(w, strings.Join(order, " "))
	})}
	go func() { _ = server.Serve(front) }()
	t.Cleanup(func() { _ = server.Close() })
	ask := func(headers ...string) string {
		r, _ := http.NewRequest(http.MethodPost, "http://"+socket.Addr().String(), strings.NewReader("body"))
		for _, h := range headers {
			r.Header.Set(h, "x")
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return string(text)
	}
	if got := ask("Accept"); got != "" || *told.Load() != nil {
		t.Errorf("nobody asks, and told is %q", got)
	}
	front.SetOrdered([]string{"Accept", "User-Agent"})
	for _, want := range []string{"User-Agent Accept", "User-Agent Accept"} { // net/http sends User-Agent first
		if got := ask("Accept", "Cookie"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	front.SetOrdered(nil)
	if got := ask("Accept"); got != "" {
		t.Errorf("nobody asks any more, and told is %q", got)
	}
}
