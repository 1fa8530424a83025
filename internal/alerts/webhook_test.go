package alerts

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"authguard/internal/background"
	"authguard/internal/events"
	"authguard/internal/outbox"
)

// hook is a real server on a port that was reserved and is down until start.
type hook struct {
	address string
	bodies  chan string
}

func newHook(t *testing.T) *hook {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return &hook{address: l.Addr().String(), bodies: make(chan string, 10)}
}

func (h *hook) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.bodies <- string(body)
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
}

// tried is a log that tells when a try to send failed.
type tried chan string

func (c tried) Write(line []byte) (int, error) {
	if strings.Contains(string(line), `msg="alert not sent"`) {
		select {
		case c <- string(line):
		default:
		}
	}
	return len(line), nil
}

func TestAnAlertRaisedWhileTheWebhookIsDownArrivesWhenItIsBack(t *testing.T) {
	t.Parallel()
	h, failed := newHook(t), make(tried, 1)
	cfg := Config{PerHour: 20, Private: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	cfg.To = []string{"generic+http://" + h.address + "/top-secret?template=json"}
	a, err := New(cfg, outbox.Store{Log: slog.New(slog.NewTextHandler(failed, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer background.Go(a.Run)()
	a.HandleSwitch(events.ModeSwitch{At: time.Now(), From: "off", To: "on", Attacked: true, Cause: "failure-rate"})
	if line := <-failed; strings.Contains(line, "top-secret") || !strings.Contains(line, "connection refused") {
		t.Errorf("the log says %s", line)
	}
	h.start(t)
	body := <-h.bodies
	for _, want := range []string{`"title":"authguard: CAPTCHA mode is on"`, `CAPTCHA mode is on\n- `} {
		if !strings.Contains(body, want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
}
