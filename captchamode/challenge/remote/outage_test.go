package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode/challenge"
)

func TestR18AProviderThatDoesNotAnswerIsReplacedUntilItDoes(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, service string) {
		for name, say := range map[string]func(http.ResponseWriter, *http.Request){
			"hangs": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			"stops in the middle": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "1000")
				fmt.Fprint(w, `{"success":true,`)
			},
			"500": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500); success(service, nil)(w, r) },
			"401": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(401); success(service, nil)(w, r) },
			"sends away": func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusTemporaryRedirect)
			},
			"garbage": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>success") },
			"empty":   func(http.ResponseWriter, *http.Request) {},
			"no word": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"hostname":"login.example.org"}`) },
			"text for true": func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"success":"true","hostname":"login.example.org"}`)
			},
			"a huge body": func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"success":true,"x":"`+strings.Repeat("x", 1<<20)+`"}`)
			},
			"a huge rest": func(w http.ResponseWriter, r *http.Request) {
				success(service, nil)(w, r)
				fmt.Fprint(w, strings.Repeat(" ", mostBody))
			},
			"a wrong secret": func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, `{"success":false,"error-codes":["invalid-input-secret"]}`)
			},
		} {
			f := newFake(t, say)
			p, e := f.provider(t, service)
			began := time.Now()
			ok, err := check(t, p, token)
			if ok || err == nil || strings.Contains(fmt.Sprint(err), secret) || strings.Contains(fmt.Sprint(e.all()), secret) {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("%s: it took %v", name, took)
			}
			if _, err := p.Issue(t.Context(), challenge.Task{Seed: seed}); !errors.Is(err, errDown) || len(e.all()) != 1 {
				t.Errorf("%s: issued all the same: %v; told %v", name, err, e.all())
			}
			f.says(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"success":false}`) })
			p.probe(t.Context(), p.using.Load())
			if puzzle, err := p.Issue(t.Context(), challenge.Task{Seed: seed}); err != nil || puzzle.Remote == nil || !puzzle.OrImage || len(e.all()) != 2 {
				t.Errorf("%s: not issued once it answers again: %v; told %v", name, err, e.all())
			}
		}
	})
}

func TestAClientThatHangsUpDoesNotBreakTheProvider(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p, e := f.provider(t, "turnstile")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := p.Check(ctx, challenge.Task{Seed: seed}, token); ok || err == nil || len(e.all()) != 0 || p.down.Load() {
		t.Errorf("%v, %v, told %v", ok, err, e.all())
	}
}

// A provider that says to ask elsewhere is broken: the secret goes nowhere else.
func TestTheSecretFollowsNoRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := newFake(t, success("recaptcha", nil))
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		p, e := newFake(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, status) }).provider(t, "recaptcha")
		if ok, err := check(t, p, token); ok || err == nil || len(e.all()) != 1 {
			t.Errorf("%d: %v, %v, told %v", status, ok, err, e.all())
		}
	}
	if n := elsewhere.asked.Load(); n != 0 {
		t.Errorf("asked elsewhere %d times", n)
	}
}

// Whoever sends many tokens at once is told to come back, and makes the provider no
// broken one: nobody else is shown the picture in its place.
func TestManyTokensAtOnceBreakNoProvider(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var asked, busy atomic.Int64
	known := func(n *atomic.Int64) {
		if n.Add(1); asked.Load()+busy.Load() == atOnce+20 {
			close(release)
		}
	}
	p, e := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		known(&asked)
		<-release
		success("recaptcha", nil)(w, r)
	}).provider(t, "recaptcha")
	var all sync.WaitGroup
	for range atOnce + 20 {
		all.Go(func() {
			if _, err := p.Check(t.Context(), challenge.Task{Seed: seed}, token); errors.Is(err, errBusy) {
				known(&busy)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if asked.Load() != atOnce || busy.Load() != 20 {
		t.Errorf("%d were asked about at once and %d told to come back, want %d and 20", asked.Load(), busy.Load(), atOnce)
	}
	if _, err := p.Issue(t.Context(), challenge.Task{Seed: seed}); err != nil || len(e.all()) != 0 {
		t.Errorf("afterwards: %v, told %v", err, e.all())
	}
	asked.Store(0)
	if ok, err := check(t, p, "another-token-as-long-as-real-ones"); !ok || err != nil {
		t.Errorf("a token afterwards: %v, %v", ok, err)
	}
}

// An outage is told once, however many meet it, and a changed configuration is tried
// at once.
func TestR18AnOutageIsToldOnceAndEndsWithAnotherConfiguration(t *testing.T) {
	t.Parallel()
	p, e := newFake(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }).provider(t, "recaptcha")
	for range 3 {
		if ok, err := check(t, p, token); ok || err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%v, %v", ok, err)
		}
	}
	p.probe(t.Context(), p.using.Load())
	if told := e.all(); len(told) != 1 || !p.down.Load() {
		t.Errorf("told %v; down is %v", told, p.down.Load())
	}
	good := newFake(t, success("recaptcha", nil))
	if err := p.Set(Config{Service: "recaptcha", SiteKey: "k", Secret: secret, Verify: good.URL, Hosts: []string{"login.example.org"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Issue(context.Background(), challenge.Task{Seed: seed}); err != nil {
		t.Errorf("with the mended configuration: %v", err)
	}
}
