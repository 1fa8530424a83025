package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"authguard/internal/learn"
	"authguard/internal/route"
)

type proxyCmd struct {
	Detect detectCmd `cmd:"" help:"Watch two logins and print the routes to protect" example:"--upstream http://127.0.0.1:8000"`
}

type detectCmd struct {
	Upstream string `required:"" help:"Base URL of the app" placeholder:"URL"`
	Listen   string `default:"127.0.0.1:8088" help:"Address to open in a browser" placeholder:"ADDRESS"`
}

// Run proxies the app until it has detected the login.
func (c detectCmd) Run(g *globals) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	upstream, err := url.Parse(c.Upstream)
	if err != nil || upstream.Host == "" || upstream.Scheme != "http" && upstream.Scheme != "https" {
		return fmt.Errorf("--upstream must be the app's base URL, such as http://127.0.0.1:8000, not %.60q", c.Upstream)
	}
	l := newLearner(upstream, os.Stderr)
	spec, err := l.run(ctx, c.Listen)
	if err != nil {
		return err
	}
	if g.JSON {
		return json.NewEncoder(g.out).Encode(map[string]any{"name": spec.Name, "path": spec.Path, "methods": spec.Methods,
			"account": spec.Account, "password": spec.Password, "success": spec.Success, "signed_in": spec.SignedIn,
			"folder": spec.Folder, "script": spec.Script})
	}
	_, err = io.WriteString(g.out, configured(c.Upstream, spec))
	return err
}

func configured(upstream string, p learn.Proposal) string {
	script := ""
	if p.Script {
		script = "  script: always # a script sends the login\n"
	}
	return fmt.Sprintf("# Review this, and add it to authguard.yaml.\nproxy:\n  upstream: %s\n%s  routes:\n%s", upstream, script,
		learn.YAML(p))
}

type learner struct {
	watcher  *learn.Watcher
	upstream *url.URL
	forward  *httputil.ReverseProxy
	say      io.Writer
	found    chan [2]*learn.Login // a failed and a successful one
	followed chan struct{}        // closed when the browser has got the page after the login

	mu     sync.Mutex
	failed *learn.Login
	alike  int    // second logins with the first one's answer
	next   string // the page after the login
}

// maxLearned is the number of bytes that are read of a request or response.
const maxLearned = 1 << 20

func newLearner(upstream *url.URL, say io.Writer) *learner {
	l := &learner{watcher: learn.New(), upstream: upstream, say: say, found: make(chan [2]*learn.Login, 1),
		followed: make(chan struct{})}
	l.forward = &httputil.ReverseProxy{
		Rewrite:       l.rewrite,
		FlushInterval: -1, ModifyResponse: l.answered,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			fmt.Fprintf(say, "The app at %s does not answer: %v\n", upstream.Redacted(), err)
			http.Error(w, "The app does not respond.", http.StatusBadGateway)
		},
	}
	return l
}

func (l *learner) rewrite(r *httputil.ProxyRequest) {
	r.SetURL(l.upstream)
	r.Out.Host = r.In.Host // as behind authguard: apps build links from it
	r.Out.Header.Del("Accept-Encoding")
	r.SetXForwarded()
}

func (l *learner) send(r *http.Request) (*http.Response, error) {
	p := httputil.ProxyRequest{In: r, Out: r.Clone(r.Context())}
	l.rewrite(&p)
	return http.DefaultTransport.RoundTrip(p.Out)
}

// checked proposes the route of the two logins, and tests it on the app.
func (l *learner) checked(ctx context.Context, two [2]*learn.Login) (learn.Proposal, error) {
	fmt.Fprintf(l.say, "   Detected. Sending up to sixteen test logins with a random password "+
		"and with the right one: the app may log them.\n")
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return learn.Check(ctx, l.send, two[0], two[1])
}

// run serves until it has detected the login or ctx ends.
func (l *learner) run(ctx context.Context, address string) (p learn.Proposal, err error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return p, fmt.Errorf("--listen: %w", err)
	}
	fmt.Fprintf(l.say, "Open http://%s/ in a browser, with the path of the app's login page, such as /login.\n1. Log in "+
		"with your name and a WRONG password.\n", socket.Addr())
	unseen := time.AfterFunc(unseenFor, l.unseen)
	defer unseen.Stop()
	server := &http.Server{Handler: l, ReadHeaderTimeout: time.Minute}
	gone := make(chan error, 1)
	go func() { gone <- server.Serve(socket) }()
	select {
	case err = <-gone:
	case <-ctx.Done():
		err = errors.New("stopped before a failed and a successful login were seen")
	case two := <-l.found:
		if p, err = l.checked(ctx, two); err == nil {
			fmt.Fprintf(l.say, "   A wrong password was sent to %s, and the proposal counts it.\n",
				strings.Join(p.Counted, ", "))
			l.wait(ctx)
			fmt.Fprintln(l.say, "Done. You can close the browser.")
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx) // the browser still gets its response
	return p, err
}

// unseenFor is the time after which the user is asked what is wrong.
const unseenFor = 30 * time.Second

func (l *learner) unseen() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		fmt.Fprintln(l.say, "   No login seen yet. Is the browser at the address above? A login by another host, such as a "+
			"single sign-on, cannot be detected: protect that host.")
	}
}

// wait returns when the browser has followed the redirect of the login, or after 20 seconds.
func (l *learner) wait(ctx context.Context) {
	l.mu.Lock()
	next := l.next
	l.mu.Unlock()
	if next == "" {
		return
	}
	select {
	case <-l.followed:
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
	}
}

// arrived notes that the browser has got the page after the login.
func (l *learner) arrived(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next != "" && path == l.next {
		l.next = ""
		close(l.followed)
	}
}

type loginKey struct{}

// ServeHTTP forwards a request and checks whether it is a login.
func (l *learner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil && r.ContentLength != 0 {
		begin, err := io.ReadAll(io.LimitReader(r.Body, maxLearned+1))
		if err != nil {
			return
		}
		r.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(begin), r.Body), r.Body}
		if len(begin) <= maxLearned {
			body = begin
		}
	}
	login := l.watcher.Login(r, body)
	if login != nil && login.Account == "" {
		l.nameless(login)
	} else if login != nil {
		r = r.WithContext(context.WithValue(r.Context(), loginKey{}, login))
	}
	l.forward.ServeHTTP(w, r)
	if login == nil {
		l.arrived(r.URL.Path)
	}
}

// nameless reports a login that has no account name.
func (l *learner) nameless(login *learn.Login) {
	form := "a form with only a password"
	if l.watcher.InSteps() {
		form = "the second step of a login that asks for the name first"
	}
	fmt.Fprintf(l.say, "   %s %s has a password in %s and no name: it is %s, which no route can protect. Put the whole "+
		"app behind the login endpoint or forward auth. If the app has another form with both, use that.\n",
		login.Method, login.Path, login.Password, form)
}

// home rewrites redirects to the app's own URL, so that the browser stays on the proxy.
func (l *learner) home(h http.Header) {
	to, err := url.Parse(h.Get("Location"))
	if err == nil && to.Scheme == l.upstream.Scheme && to.Host == l.upstream.Host {
		to.Scheme, to.Host, to.Path = "", "", "/"+strings.TrimLeft(to.Path, "/")
		h.Set("Location", to.String())
	}
}

// answered inspects a response: a page's forms, or a login's result.
func (l *learner) answered(answer *http.Response) error {
	l.home(answer.Header)
	login, _ := answer.Request.Context().Value(loginKey{}).(*learn.Login)
	page := strings.Contains(answer.Header.Get("Content-Type"), "html")
	if login == nil && !page {
		return nil
	}
	begin, err := io.ReadAll(io.LimitReader(answer.Body, maxLearned+1))
	if err != nil {
		return err
	}
	answer.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(begin), answer.Body), answer.Body}
	if page {
		l.watcher.Page(begin)
	}
	if login != nil {
		login.Answered(route.Answer{Status: answer.StatusCode, Header: answer.Header, Body: begin,
			Whole: len(begin) <= maxLearned})
		next := ""
		to, err := answer.Location()
		if err == nil && answer.StatusCode/100 == 3 && (to.Host == answer.Request.Host || to.Host == l.upstream.Host) {
			next = to.Path
		}
		l.logged(login, next)
	}
	return nil
}

// logged compares a login with the one before. next is the path that the app redirects it to, if any.
func (l *learner) logged(login *learn.Login, next string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		login.Forget()
		l.failed = login
		fmt.Fprintf(l.say, "   Detected: %s %s, with the account in %s. The app answered %d.\n2. Now log in with the same "+
			"name and the RIGHT password.\n",
			login.Method, login.Path, login.Account, login.Answer.Status)
		return
	}
	_, err := learn.Propose(l.failed, login)
	alike := errors.Is(err, learn.ErrAlike)
	if alike {
		l.alike++
	}
	switch {
	case errors.Is(err, learn.ErrOther), errors.Is(err, learn.ErrName):
		login.Forget()
		l.failed, l.alike = login, 0
		fmt.Fprintf(l.say, "   %v. This login counts as the one with the wrong password.\n", err)
	case err != nil && (!alike || l.alike < 2):
		fmt.Fprintf(l.say, "   %v.\n", err)
	default:
		if l.next == "" {
			l.next = next
		}
		select {
		case l.found <- [2]*learn.Login{l.failed, login}:
		default:
		}
	}
}
