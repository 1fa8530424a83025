package metrics_test

import (
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"authguard/internal/metrics"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// A collected trace is what an OpenTelemetry collector was sent.
type collected struct {
	mu    sync.Mutex
	text  strings.Builder
	spans []*spans.Span
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var sent collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(body, &sent); err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.WriteString(sent.String())
	for _, resource := range sent.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			c.spans = append(c.spans, scope.Spans...)
		}
	}
}

func (c *collected) named(name string) (found []*spans.Span) {
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	return found
}

func TestTracesHoldTheStepsOfARequestAndNothingThatWasTyped(t *testing.T) {
	t.Parallel()
	var c collected
	at := httptest.NewServer(&c)
	defer at.Close()
	traces, err := metrics.NewTraces(at.URL, metrics.Build{Version: "v1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	m, passed := metrics.New(), ""
	m.Traces = traces
	believed := func(r *http.Request) bool { return r.RemoteAddr == "192.0.2.1:1" }
	h := traces.Request("public", believed, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		passed = r.Header.Get("Traceparent")
		m.Decided(r.Context(), 3*time.Millisecond, time.Millisecond)
		m.Redis(r.Context(), 2*time.Millisecond)
		m.Checked(r.Context(), 0, 70*time.Millisecond)
		m.Answered("public")(r, "/login", http.StatusServiceUnavailable, 80*time.Millisecond)
	}))
	const theirs = "0af7651916cd43dd8448eb211c80319c"
	for _, from := range []string{"192.0.2.1:1", "192.0.2.66:1"} { // a proxy of ours, and a stranger
		r := httptest.NewRequest("MALLORY", "/login?next=mallory", nil)
		if from == "192.0.2.1:1" {
			r.Method = http.MethodPost
		}
		r.RemoteAddr = from
		r.Header.Set("Traceparent", "00-"+theirs+"-b7ad6b7169203331-01")
		r.Header.Set("User-Agent", "mallory")
		h.ServeHTTP(httptest.NewRecorder(), r)
		if ours := strings.Contains(passed, theirs); ours != (from == "192.0.2.1:1") || len(passed) != 55 {
			t.Errorf("from %s the app is told %q", from, passed)
		}
	}
	traces.Close()
	request, stranger := c.named("POST /login"), c.named("_OTHER /login")
	if len(request) != 1 || len(stranger) != 1 {
		t.Fatalf("%v", c.spans)
	}
	if hex.EncodeToString(request[0].TraceId) != theirs || hex.EncodeToString(stranger[0].TraceId) == theirs {
		t.Error("a trace goes on for whom it should not, or not for whom it should")
	}
	if request[0].Status.GetCode() != spans.Status_STATUS_CODE_ERROR {
		t.Errorf("503 is no error: %v", request[0].Status)
	}
	for name, took := range map[string]time.Duration{"decide": 3 * time.Millisecond, "Redis": 2 * time.Millisecond, "check the password": 70 * time.Millisecond} {
		of := c.named(name)
		if len(of) != 2 || string(of[0].ParentSpanId) != string(request[0].SpanId) || time.Duration(of[0].EndTimeUnixNano-of[0].StartTimeUnixNano) != took {
			t.Errorf("%s: %v", name, of)
		}
	}
	if text := strings.ToLower(c.text.String()); strings.Contains(text, "mallory") || strings.Contains(text, "192.0.2") {
		t.Errorf("somebody's words are in the traces:\n%s", text)
	}
}

func TestWithoutACollectorNothingIsTraced(t *testing.T) {
	t.Parallel()
	traces, err := metrics.NewTraces("", metrics.Build{}, nil)
	if err != nil || traces != nil {
		t.Fatalf("%v %v", traces, err)
	}
	var header string
	h := traces.Request("public", nil, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { header = r.Header.Get("Traceparent") }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Traceparent", "as it came")
	h.ServeHTTP(httptest.NewRecorder(), r)
	if traces.Close(); header != "as it came" {
		t.Errorf("the app gets %q", header)
	}
}
