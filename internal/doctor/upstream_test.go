package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"authguard/internal/config"
	"authguard/internal/doctor"
	"authguard/internal/route"
	"authguard/web/proxy"
)

// behind is a configuration whose proxy stands before an app.
func behind(t *testing.T, base string) doctor.Config {
	t.Helper()
	c := served(t, nil)
	c.Settings.Proxy.Upstream = base
	c.Addresses = func() ([]netip.Addr, error) { return nil, nil }
	return c
}

func answering(t *testing.T, status int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "/again")
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// refusing is a base URL at which nothing listens.
func refusing(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

func TestAnAppThatIsDownIsAProblemAndAnyAnswerIsGood(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 302, 400, 404, 500, 503} {
		r := examine(t, behind(t, answering(t, status)))
		r.wants(map[string]doctor.State{"proxy.upstream": good, "proxy.around": good, "proxy.plain": ""})
		r.nothingWrong("redis.persistence")
	}
	r := examine(t, behind(t, refusing(t)))
	r.wants(map[string]doctor.State{"proxy.upstream": problem})
	if doctor.Well(r.all) || !strings.Contains(r.String(), "nothing listens there") || !strings.Contains(r.String(), "Start it, or correct proxy.upstream") {
		t.Errorf("%s", r)
	}
	examine(t, served(t, nil)).wants(map[string]doctor.State{"proxy.upstream": "", "proxy.around": ""})
}

// Users of a page without the script see no challenge in it.
func TestAPageThatCannotGetTheScriptIsAdvice(t *testing.T) {
	t.Parallel()
	for policy, state := range map[string]doctor.State{"script-src 'none'": advice, "script-src 'self'": ""} {
		app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Security-Policy", policy)
			w.Header().Set("Content-Type", "text/html")
		}))
		defer app.Close()
		c := behind(t, app.URL)
		one, err := route.Compile(route.Spec{Name: "login", Path: "/api/login", Account: "json:/user", Password: "json:/password",
			Success: []string{"status 200"}})
		if err != nil {
			t.Fatal(err)
		}
		c.Unscripted = func(_ config.Proxy, page http.Header, host string) string {
			return proxy.App{Script: "auto", Routes: route.Table{one}}.Unscripted(page, host)
		}
		r := examine(t, c)
		r.wants(map[string]doctor.State{"proxy.script": state, "proxy.upstream": good})
		if state == advice && !strings.Contains(r.String(), "/.authguard/solve") {
			t.Errorf("no way on: %s", r)
		}
	}
	form := proxy.App{Script: "auto"}
	if why := form.Unscripted(http.Header{"Content-Security-Policy": {"script-src 'none'"}}, "app.example"); why != "" {
		t.Errorf("a form needs no script: %s", why)
	}
}

// What is no HTTP server is none to a visitor either; one that is slow may recover.
func TestAnAppThatSpeaksAnotherProtocolOrHangsIsTold(t *testing.T) {
	t.Parallel()
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	defer tls.Close()
	examine(t, behind(t, tls.URL)).wants(map[string]doctor.State{"proxy.upstream": problem}) // its certificate is nobody's
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := behind(t, "http://"+silent.Addr().String())
	c.Within = time.Second
	examine(t, c).wants(map[string]doctor.State{"proxy.upstream": advice})
}

func TestTheAppOfEveryRealmIsLookedAtOnce(t *testing.T) {
	t.Parallel()
	up, down := answering(t, 200), refusing(t)
	c := behind(t, up)
	for i, base := range []string{up, down, "", down} {
		c.Settings.Realms = append(c.Settings.Realms, config.Realm{Name: fmt.Sprint("shop", i), Accounts: c.Settings.Accounts, Proxy: config.Proxy{Upstream: base}})
	}
	states := map[doctor.State]int{}
	r := examine(t, c)
	for _, one := range r.all {
		if one.Name == "proxy.upstream" {
			states[one.State]++
			if one.State == problem && !strings.Contains(one.Text, "of the realm shop1") {
				t.Errorf("%+v", one)
			}
		}
	}
	if states[good] != 1 || states[problem] != 1 {
		t.Errorf("%v in %s", states, r)
	}
}

func TestPasswordsToAnAppCrossNoPublicNetworkReadably(t *testing.T) {
	t.Parallel()
	for base, state := range map[string]doctor.State{
		"http://app.example:1": advice, "https://app.example:1": "", "http://private.example:1": "", "http://localhost:1": "",
	} {
		c := behind(t, base)
		c.Within = time.Second // nobody answers there
		c.Lookup = func(_ context.Context, host string) ([]netip.Addr, error) {
			return map[string][]netip.Addr{
				"app.example": {netip.MustParseAddr("203.0.113.1")}, "private.example": {netip.MustParseAddr("10.0.0.1")}, "localhost": {netip.MustParseAddr("127.0.0.1")},
			}[host], nil
		}
		examine(t, c).wants(map[string]doctor.State{"proxy.plain": state})
	}
}

func TestAnAppThatIsOpenBesideTheProxyIsTold(t *testing.T) {
	t.Parallel()
	base := answering(t, 200)
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	other := "127.0.0.2:" + u.Port() // stands for this machine's address in its network
	own := func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("127.0.0.2")}, nil }
	c := behind(t, base)
	c.Addresses = own
	examine(t, c).wants(map[string]doctor.State{"proxy.around": good})
	second, err := net.Listen("tcp", other)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	r := examine(t, c)
	r.wants(map[string]doctor.State{"proxy.around": advice})
	if !strings.Contains(r.String(), other) {
		t.Errorf("%s", r)
	}
	for _, listen := range []string{other, ":" + u.Port(), "0.0.0.0:" + u.Port()} { // that is us
		c.Settings.Listen = listen
		examine(t, c).wants(map[string]doctor.State{"proxy.around": good})
	}
	c.Settings.Listen = "127.0.0.1:8080"
	c.Addresses = func() ([]netip.Addr, error) { return nil, errors.New("no list") }
	examine(t, c).wants(map[string]doctor.State{"proxy.around": advice})
	c.Settings.Proxy.Upstream, c.Within = "http://192.0.2.1:1", time.Second
	examine(t, c).wants(map[string]doctor.State{"proxy.around": ""})
}
