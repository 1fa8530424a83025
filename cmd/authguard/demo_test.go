package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"authguard/internal/attacks"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
)

// A stage is a demo in this process. Its clock stands at the story's time.
type stage struct {
	t       *testing.T
	clock   *clocktest.Clock
	began   time.Time
	out     logBuffer
	browser *http.Client // has opened the link
	console string       // the admin console's URL
	tab     *tab         // of pictures
	folder  string
	stop    func()
	ended   chan error
}

// play starts the demo. until, if set, is called before each attempt, when all earlier ones are over.
func play(t *testing.T, settings string, until func(s *stage, at time.Duration)) *stage {
	t.Helper()
	began := time.Now().Truncate(time.Minute)
	s := &stage{t: t, clock: clocktest.At(began), began: began, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	s.stop = stop
	go func() {
		err := playDemo(ctx, &s.out, demoSettings+settings, opening{clock: s.clock.Now},
			func(ctx context.Context, at time.Duration) bool {
				s.clock.Set(began.Add(at))
				if until != nil {
					s.open()
					until(s, at)
				}
				return ctx.Err() == nil
			})
		if ctx.Err() == nil {
			t.Errorf("the demo ended: %v", err)
		}
		s.ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-s.ended; err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(s.folder); s.folder == "" || !os.IsNotExist(err) {
			t.Errorf("the folder %q is still there: %v", s.folder, err)
		}
	})
	return s
}

var (
	demoLink   = regexp.MustCompile(`(http://127\.0\.0\.1:\d+)/demo/\w+`)
	demoFolder = regexp.MustCompile(`-c (\S+)/authguard\.yaml status`)
)

// open signs in by the printed link, once.
func (s *stage) open() {
	if s.browser != nil {
		return
	}
	text := s.out.String()
	link, folder := demoLink.FindStringSubmatch(text), demoFolder.FindStringSubmatch(text)
	if link == nil || folder == nil {
		s.t.Fatalf("no link or folder in\n%s", text)
	}
	s.console, s.folder = link[1], filepath.Dir(folder[1]+"/x")
	jar, _ := cookiejar.New(nil)
	s.browser = &http.Client{Jar: jar}
	answer, err := s.browser.Get(link[0])
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	page, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK || answer.Request.URL.Path != "/" || !strings.Contains(string(page), "Admin console") {
		s.t.Fatalf("the link leads to %s: %d", answer.Request.URL, answer.StatusCode)
	}
}

// ask is a GET of the API in the signed-in browser.
func (s *stage) ask(path string, answer any) {
	s.t.Helper()
	got, err := s.browser.Get(s.console + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	if err := json.NewDecoder(got.Body).Decode(answer); err != nil || got.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %d %v", path, got.StatusCode, err)
	}
}

// The demo plays its story, says what came of it, opens the admin console by its link, and leaves nothing behind.
func TestTheDemoPlaysItsStory(t *testing.T) {
	long(t)
	t.Parallel()
	s := play(t, "", nil)
	redistest.Until(t, "the end of the story", func() bool { return t.Failed() || s.out.has("Ctrl-C stops the server") })
	s.open()
	for _, want := range []string{
		"Users: 33 of 36 attempts signed in.",
		"Attackers: 14 attempts, 5 passwords checked, 0 signed in.",
		"Attackers: 14 attempts, 11 passwords checked, 1 signed in.",
		"Users: 11 of 11 attempts signed in. Attackers: 612 attempts,",
		"6 signed in.",
	} {
		if !s.out.has(want) {
			t.Errorf("no %q in\n%s", want, s.out.String())
		}
	}
	var all struct{ Attacks []attacks.Attack }
	redistest.Until(t, "the record of the attack", func() bool {
		s.ask("/api/attacks", &all)
		return len(all.Attacks) > 0 && all.Attacks[0].Kind == attacks.Site && all.Attacks[0].Open == len(enteredAccounts())
	})
	var now struct{ Mode struct{ On bool } }
	if s.ask("/api/overview", &now); !now.Mode.On {
		t.Error("CAPTCHA mode is off after the botnet")
	}
	redistest.Until(t, "the end of CAPTCHA mode", func() bool {
		s.clock.Advance(10 * time.Second)
		s.ask("/api/overview", &now)
		return !now.Mode.On
	})
}
