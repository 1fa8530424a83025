package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"authguard/captchamode/challenge"
)

const (
	token  = "a-token-as-long-as-real-ones-are"
	secret = "hunter2-the-secret"
)

// A fake is a siteverify that says what it is told to.
type fake struct {
	*httptest.Server
	say   atomic.Pointer[http.HandlerFunc]
	asked atomic.Int64
}

func newFake(t *testing.T, say func(w http.ResponseWriter, r *http.Request)) *fake {
	t.Helper()
	f := new(fake)
	f.says(say)
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.asked.Add(1)
		_ = r.ParseForm() // a server notices that a client has gone only once it has read all
		(*f.say.Load())(w, r)
	}))
	t.Cleanup(f.Close)
	return f
}

// says is what it answers from now on.
func (f *fake) says(say http.HandlerFunc) { f.say.Store(&say) }

// An edge is what was told.
type edges struct {
	mu   sync.Mutex
	told []string
}

func (e *edges) changed(up bool, why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told = append(e.told, fmt.Sprint(up, " ", why))
}

func (e *edges) all() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.told)
}

func (f *fake) provider(t *testing.T, service string) (*Provider, *edges) {
	t.Helper()
	e := new(edges)
	p := New(challenge.NewMemorySpent(0, nil), e.changed, nil)
	err := p.Set(Config{Service: service, SiteKey: "a-site-key", Secret: secret, Verify: f.URL, Hosts: []string{"login.example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	return p, e
}

var seed = challenge.Seed{1}

// success is what each service says of a good token.
func success(service string, change func(a map[string]any)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		a := map[string]any{"success": true, "hostname": "login.example.org", "challenge_ts": time.Now().UTC().Format(time.RFC3339Nano)}
		switch service {
		case "turnstile":
			a["action"], a["cdata"] = "login", bound(seed)
		case "friendly":
			a = map[string]any{"success": true, "data": map[string]any{"challenge": map[string]any{"timestamp": time.Now().Unix(), "origin": "https://login.example.org"}}}
		}
		if change != nil {
			change(a)
		}
		_ = json.NewEncoder(w).Encode(a)
	}
}

func each(t *testing.T, story func(t *testing.T, service string)) {
	t.Helper()
	for _, s := range services {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			story(t, s.Name)
		})
	}
}

func check(t *testing.T, p *Provider, token string) (bool, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // as the desk does
	defer cancel()
	return p.Check(ctx, challenge.Task{Seed: seed}, token)
}

func TestAGoodTokenSolvesAndTheSecretGoesWhereItBelongs(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, service string) {
		f := newFake(t, nil)
		f.says(func(w http.ResponseWriter, r *http.Request) {
			inForm, inHeader := r.PostFormValue("secret"), r.Header.Get("X-API-Key")
			if r.Method != http.MethodPost || r.PostFormValue("response") != token || r.URL.RawQuery != "" ||
				(service == "friendly") != (inHeader == secret && inForm == "") || (service != "friendly") != (inForm == secret && inHeader == "") {
				t.Errorf("asked %s %s %v %v", r.Method, r.URL, r.PostForm, r.Header)
			}
			success(service, nil)(w, r)
		})
		p, e := f.provider(t, service)
		if ok, err := check(t, p, token); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
		if len(e.all()) != 0 {
			t.Errorf("told %v", e.all())
		}
	})
}

// R17: a provider that calls a token good twice is not believed the second time.
func TestR17ATokenIsGoodOnceWhateverTheProviderSays(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, service string) {
		stamp := time.Now().UTC().Truncate(time.Second)
		p, _ := newFake(t, success(service, func(a map[string]any) {
			if service == "friendly" {
				a["data"] = map[string]any{"challenge": map[string]any{"timestamp": stamp.Unix()}}
			} else {
				a["challenge_ts"] = stamp.Format(time.RFC3339)
			}
		})).provider(t, service)
		var good atomic.Int64
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				if ok, err := p.Check(t.Context(), challenge.Task{Seed: seed}, token); err != nil {
					t.Error(err)
				} else if ok {
					good.Add(1)
				}
			})
		}
		all.Wait()
		if good.Load() != 1 {
			t.Errorf("one token was good %d times", good.Load())
		}
	})
}

// A provider that stamps a token anew each time is not believed either.
func TestR17ATokenIsGoodOnceWhateverItsTimeStamp(t *testing.T) {
	t.Parallel()
	now, good := time.Now().Truncate(time.Second), 0
	stamp, clock := now, func() time.Time { return now }
	f := newFake(t, success("hcaptcha", func(a map[string]any) { a["challenge_ts"] = stamp.Format(time.RFC3339) }))
	p := New(challenge.NewMemorySpent(0, clock), nil, clock)
	if err := p.Set(Config{Service: "hcaptcha", SiteKey: "k", Secret: secret, Verify: f.URL, Hosts: []string{"login.example.org"}}); err != nil {
		t.Fatal(err)
	}
	for range 23 * 6 {
		for _, age := range []time.Duration{0, time.Minute, fresh - time.Second, time.Minute - fresh} {
			stamp = now.Add(-age).UTC()
			if ok, err := p.Check(t.Context(), challenge.Task{Seed: seed}, token); err != nil {
				t.Fatal(err)
			} else if ok {
				good++
			}
		}
		now = now.Add(10 * time.Minute)
	}
	if good != 1 {
		t.Errorf("one token was good %d times in a day", good)
	}
}

// Most services bind a token to nothing: one that was good for one challenge is good
// for no other, as long as it is fresh.
func TestR17ATokenThatWasUsedIsGoodForNoOtherChallenge(t *testing.T) {
	t.Parallel()
	stamp, now := time.Now().UTC().Truncate(time.Second), time.Now()
	f := newFake(t, success("hcaptcha", func(a map[string]any) { a["challenge_ts"] = stamp.Format(time.RFC3339) }))
	clock := func() time.Time { return now }
	p := New(challenge.NewMemorySpent(0, clock), nil, clock)
	if err := p.Set(Config{Service: "hcaptcha", SiteKey: "k", Secret: secret, Verify: f.URL, Hosts: []string{"login.example.org"}}); err != nil {
		t.Fatal(err)
	}
	for i, after := range []time.Duration{0, time.Second, time.Minute, 8 * time.Minute, fresh} {
		now = stamp.Add(after)
		task := challenge.Task{Seed: challenge.Seed{byte(i)}, Expires: now.Add(time.Minute)}
		if ok, err := p.Check(t.Context(), task, token); err != nil || ok != (i == 0) {
			t.Errorf("after %v: %v, %v", after, ok, err)
		}
	}
	now = stamp.Add(fresh - time.Second)
	if ok, err := p.Check(t.Context(), challenge.Task{Seed: seed}, "another-token-as-long-as-real-ones"); !ok || err != nil {
		t.Errorf("a token that waited for almost as long as it is fresh: %v, %v", ok, err)
	}
}

func TestR18AProviderThatLiesIsNotBelieved(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, service string) {
		old, new := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
		lies := map[string]func(a map[string]any){
			"no success":     func(a map[string]any) { a["success"] = false },
			"another host":   func(a map[string]any) { a["hostname"] = "evil.example" },
			"a longer host":  func(a map[string]any) { a["hostname"] = "login.example.org.evil.example" },
			"an old token":   func(a map[string]any) { a["challenge_ts"] = old.UTC().Format(time.RFC3339) },
			"a future token": func(a map[string]any) { a["challenge_ts"] = new.UTC().Format(time.RFC3339) },
			"a token of no time": func(a map[string]any) {
				delete(a, "challenge_ts")
				delete(a, "data")
			},
		}
		if service == "friendly" {
			lies["another origin"] = func(a map[string]any) {
				a["data"] = map[string]any{"challenge": map[string]any{"timestamp": time.Now().Unix(), "origin": "https://evil.example"}}
			}
		} else {
			lies["no host"] = func(a map[string]any) { delete(a, "hostname") }
		}
		if service == "turnstile" {
			lies["another action"] = func(a map[string]any) { a["action"] = "comment" }
			lies["another challenge"] = func(a map[string]any) { a["cdata"] = bound(challenge.Seed{2}) }
			lies["no challenge"] = func(a map[string]any) { delete(a, "cdata") }
		}
		for name, lie := range lies {
			p, e := newFake(t, success(service, lie)).provider(t, service)
			if ok, err := check(t, p, token); ok || err != nil {
				t.Errorf("%s: %v, %v", name, ok, err)
			}
			if len(e.all()) != 0 {
				t.Errorf("%s: %v", name, e.all())
			}
		}
	})
}

func TestAHostsNameIsTheSameInCapitals(t *testing.T) {
	t.Parallel()
	p, _ := newFake(t, success("recaptcha", func(a map[string]any) { a["hostname"] = "LOGIN.Example.ORG" })).provider(t, "recaptcha")
	if ok, err := check(t, p, token); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestDigitsAreNotSentToTheProvider(t *testing.T) {
	t.Parallel()
	f := newFake(t, success("hcaptcha", nil))
	p, _ := f.provider(t, "hcaptcha")
	if ok, err := check(t, p, "123456"); ok || err != nil || f.asked.Load() != 0 {
		t.Errorf("%v, %v, asked %d times", ok, err, f.asked.Load())
	}
}

func TestTheSecretIsSentOverTLSOnly(t *testing.T) {
	t.Parallel()
	for text, good := range map[string]bool{
		"https://eu.frcapi.com/api/v2/captcha/siteverify": true, "http://127.0.0.1:1/": true, "http://eu.frcapi.com/": false,
		"https://user:password@host/": false, "ftp://host/": false, "eu.frcapi.com": false, "": false,
	} {
		if err := CheckVerify(text); (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, s := range services {
		if CheckVerify(s.Verify) != nil || !strings.HasPrefix(s.Script, "https://") {
			t.Errorf("%+v", s)
		}
	}
}
