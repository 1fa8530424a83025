package web

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pires/go-proxyproto"
	"golang.org/x/net/http2"
)

// balanced serves behind a balancer at 127.0.0.1. Handlers are told whom it spoke for.
func balanced(t testing.TB, seen func(client string)) *Listener {
	t.Helper()
	l := served(t, func(_ http.ResponseWriter, r *http.Request) { seen(r.RemoteAddr) })
	l.SetBalancers([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})
	return l
}

// header is a PROXY header of version 2.
func header(command proxyproto.ProtocolVersionAndCommand, transport proxyproto.AddressFamilyAndProtocol, from net.Addr, tlvs ...proxyproto.TLV) string {
	h := proxyproto.Header{Version: 2, Command: command, TransportProtocol: transport, SourceAddr: from, DestinationAddr: from}
	var b bytes.Buffer
	if err := h.SetTLVs(tlvs); err != nil {
		panic(err)
	}
	if _, err := h.WriteTo(&b); err != nil {
		panic(err)
	}
	return b.String()
}

func tcp(address string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(address)) }

const request = get + "Connection: close\r\n\r\n"

func TestABalancerSaysWhomItSpeaksFor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sent, client string }{
		{"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n", "192.0.2.1:1234"},
		{"PROXY TCP6 2001:db8::1 2001:db8::2 1234 80\r\n", "[2001:db8::1]:1234"},
		{header(proxyproto.PROXY, proxyproto.TCPv4, tcp("192.0.2.1:1234")), "192.0.2.1:1234"},
		{header(proxyproto.PROXY, proxyproto.TCPv6, tcp("[2001:db8::1]:1234")), "[2001:db8::1]:1234"},
		// An NLB's own TLV, which says through which endpoint the client came.
		{header(proxyproto.PROXY, proxyproto.TCPv4, tcp("192.0.2.1:1234"), proxyproto.TLV{Type: 0xEA, Value: bytes.Repeat([]byte("v"), 600)}), "192.0.2.1:1234"},
		// Its own connections: it checks our health.
		{header(proxyproto.LOCAL, proxyproto.UNSPEC, nil), "127.0.0.1"},
		{header(proxyproto.LOCAL, proxyproto.TCPv4, tcp("192.0.2.1:1234")), "127.0.0.1"},
		{"PROXY UNKNOWN\r\n", "127.0.0.1"},
		{"PROXY UNKNOWN 192.0.2.1 192.0.2.2 1234 80\r\n", "127.0.0.1"},
	} {
		var got string
		l := balanced(t, func(client string) { got = client })
		answer := l.say(t, c.sent+request)
		host, _, _ := net.SplitHostPort(got)
		if got != c.client && host != c.client || !strings.HasPrefix(answer, "HTTP/1.1 200") || l.Unintroduced()+l.Refused() != 0 {
			t.Errorf("%q: client %q, answer %q", c.sent, got, answer)
		}
	}
}

func TestABalancerPassesHTTP2On(t *testing.T) {
	t.Parallel()
	clients := make(chan string, 1)
	l := served(t, func(_ http.ResponseWriter, r *http.Request) { clients <- r.Proto + " " + r.RemoteAddr })
	l.SetBalancers([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var b bytes.Buffer
	b.WriteString("PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n" + http2.ClientPreface)
	f := http2.NewFramer(&b, nil)
	_ = f.WriteSettings()
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"), EndStream: true, EndHeaders: true})
	if _, err := c.Write(b.Bytes()); err != nil {
		t.Fatal(err)
	}
	if got := <-clients; got != "HTTP/2.0 192.0.2.1:1234" || l.Unintroduced()+l.Refused() != 0 {
		t.Errorf("it spoke for %s", got)
	}
}

func TestABalancerThatDoesNotSayItIsClosed(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{
		"", "PROXY TCP4 192.0.2.1 192.0.2.2 1234\r\n", "PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\n", "PROXY TCP4 192.0.2.999 192.0.2.2 1234 80\r\n", "PROXY TCP4 0.0.0.0 192.0.2.2 1234 80\r\n", "PROXY TCP6 :: ::1 1 2\r\n",
		"PROXY UDP4 192.0.2.1 192.0.2.2 1234 80\r\n", "proxy TCP4 192.0.2.1 192.0.2.2 1234 80\r\n", "PROXY  TCP4 192.0.2.1 192.0.2.2 1234 80\r\n", " PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n",
		header(proxyproto.PROXY, proxyproto.UDPv4, &net.UDPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}), header(proxyproto.PROXY, proxyproto.UnixStream, &net.UnixAddr{Net: "unix", Name: "/x"}),
		strings.Replace(header(proxyproto.PROXY, proxyproto.TCPv4, tcp("192.0.2.1:1")), "\x21\x11", "\x31\x11", 1), strings.Replace(header(proxyproto.PROXY, proxyproto.TCPv4, tcp("192.0.2.1:1")), "\x21\x11\x00\x0c", "\x21\x11\x00\x04", 1),
	} {
		l := balanced(t, func(client string) { t.Errorf("%q: a request of %s was handed on", sent, client) })
		if got := l.say(t, sent+request); got != "" || l.Unintroduced() != 1 || l.Refused() != 0 {
			t.Errorf("%q: answered %q, %d counted", sent, got, l.Unintroduced())
		}
	}
}

func TestNobodyElseSpeaksForOthers(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n", header(proxyproto.PROXY, proxyproto.TCPv4, tcp("192.0.2.1:1234"))} {
		l := balanced(t, func(client string) { t.Errorf("a request of %s was handed on", client) })
		l.refuses(t, "PROXY TCP4 192.0.2.7 192.0.2.2 1234 80\r\n"+sent+request) // the client of a balancer
		l = balanced(t, func(client string) { t.Errorf("a request of %s was handed on", client) })
		l.SetBalancers([]netip.Prefix{netip.MustParsePrefix("127.0.0.2/31")})
		l.refuses(t, sent+request)
	}
}

// A balancer that connects and says nothing checks whether somebody listens.
func TestASilentBalancerIsClosedAfterFiveSecondsAndNotCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &Listener{Log: slog.New(slog.DiscardHandler)}
		ours, its := net.Pipe()
		c, began := &Conn{Conn: ours, from: l, balanced: true}, time.Now()
		_, err := c.Read(make([]byte, 10))
		if took := time.Since(began); took != 5*time.Second || !errors.Is(err, proxyproto.ErrNoProxyProtocol) && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("after %v: %v", took, err)
		}
		_, _ = ours.Close(), its.Close()
		ours, its = net.Pipe()
		_ = its.Close()
		if _, err := (&Conn{Conn: ours, from: l, balanced: true}).Read(make([]byte, 10)); err == nil || l.Unintroduced() != 0 {
			t.Errorf("%v, %d counted", err, l.Unintroduced())
		}
	})
}

func TestAMissingPROXYHeaderIsToldOnceAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &Listener{Log: slog.New(slog.NewTextHandler(&log, nil))}
		for range 90 {
			l.unintroducedBy(tcp("192.0.2.1:1"), errNoClient)
			time.Sleep(time.Second)
		}
		if told := strings.Count(log.String(), "sent no valid PROXY header"); told != 2 || l.Unintroduced() != 90 {
			t.Errorf("told %d times, %d counted", told, l.Unintroduced())
		}
	})
}

func FuzzPROXYHeader(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 192.0.2.2 1234 80\r\n" + request))
	f.Add([]byte(header(proxyproto.PROXY, proxyproto.TCPv6, tcp("[2001:db8::1]:1234")) + request))
	f.Add([]byte(header(proxyproto.LOCAL, proxyproto.UNSPEC, nil)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		l := &Listener{Log: slog.New(slog.DiscardHandler)}
		c := &Conn{Conn: &piped{Reader: bytes.NewReader(sent)}, from: l, balanced: true}
		client, ok := c.RemoteAddr().(*net.TCPAddr)
		if !ok || !client.AddrPort().IsValid() || client.IP.IsUnspecified() {
			t.Errorf("the client is %v", c.RemoteAddr())
		}
		if rest, _ := io.ReadAll(c); !bytes.HasSuffix(sent, rest) {
			t.Errorf("%q became %q", sent, rest)
		}
	})
}

// piped reads from a Reader.
type piped struct {
	net.Conn
	io.Reader
}

func (p *piped) Read(b []byte) (int, error)      { return p.Reader.Read(b) }
func (p *piped) RemoteAddr() net.Addr            { return tcp("127.0.0.1:1") }
func (p *piped) SetReadDeadline(time.Time) error { return nil }
