package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// memory is what the process has of it (VmRSS), or the most that it ever had (VmHWM), in
// bytes.
func (s *server) memory(t *testing.T, what string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	found := regexp.MustCompile(what + `:\s+(\d+) kB`).FindSubmatch(status)
	if err != nil || found == nil {
		t.Fatalf("%v in %s", err, status)
	}
	n, _ := strconv.ParseInt(string(found[1]), 10, 64)
	return n << 10
}

// What a realm has in memory while nobody logs in there: see docs/how-to/several-sites.md. Measured before:
// 259 MB, of which each realm's own copy of the built-in texts was 51.
func TestAHundredRealmsTakeLittleMemory(t *testing.T) {
	t.Parallel()
	yaml := quiet + "realms:\n"
	for i := range 100 {
		yaml += fmt.Sprintf("  - {name: r%d, hosts: [r%d.example.org]}\n", i, i)
	}
	s := newServer(t, yaml)
	from("127.0.0.1").get(t, s.base+"/login")
	if got := s.memory(t, "VmRSS"); got > 130e6 {
		t.Errorf("100 realms take %d MB, want 130 at most", got/1e6)
	}
}

// zeros are as many bytes as one likes.
type zeros struct{}

func (zeros) Read(into []byte) (int, error) { return len(into), nil }

// What streams through is nowhere kept: neither what is sent nor what is answered, be
// its length known or not.
func TestUploadsAndDownloadsTakeNoMemory(t *testing.T) {
	t.Parallel()
	streams(t, 64<<20)
}

// streams sends and gets so many bytes, and has the memory rise by 16 MiB at most.
func streams(t *testing.T, size int64) {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.CopyN(w, zeros{}, size)
			return
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	t.Cleanup(app.Close)
	s := newServer(t, quiet+"proxy: {preset: django, upstream: "+app.URL+"}\n")
	from("127.0.0.1").get(t, s.base+"/auth/verify")
	before := s.memory(t, "VmHWM")
	for _, length := range []int64{size, -1} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/upload", io.LimitReader(zeros{}, size))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		if got := from("127.0.0.1").do(t, r); got.body != fmt.Sprint(size, nil) {
			t.Errorf("an upload: %q", got.body)
		}
	}
	answer, err := http.Get(s.base + "/download")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if n, err := io.Copy(io.Discard, answer.Body); n != size || err != nil {
		t.Errorf("a download: %d bytes, %v", n, err)
	}
	if rise := s.memory(t, "VmHWM") - before; rise > 16<<20 {
		t.Errorf("memory rose by %d KiB for three times %d", rise>>10, size>>10)
	}
}

// A WebSocket that nothing is said on costs buffers and stacks.
func TestIdleWebSocketsAreCheap(t *testing.T) {
	t.Parallel()
	app := newSink(t)
	app.framed = make(chan int64, 500)
	s := newServer(t, quiet+"proxy: {preset: django, upstream: "+app.URL+"}\n")
	open := func() {
		_, answer := s.dial(t, "GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		if response, err := http.ReadResponse(answer, nil); err != nil || response.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("%v, %v", response, err)
		}
	}
	open()
	before := s.memory(t, "VmRSS")
	for range 499 {
		open()
	}
	each := (s.memory(t, "VmRSS") - before) / 499
	t.Logf("%d KiB each", each>>10) // bench/README.md says it
	if each > 160<<10 {
		t.Errorf("an idle WebSocket costs %d KiB", each>>10)
	}
}
