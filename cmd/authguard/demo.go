package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	neturl "net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/bcrypt"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/background"
	"authguard/internal/config"
)

type demoCmd struct{}

// Run plays an attack against a server in a temporary folder, and serves until SIGINT or SIGTERM.
func (demoCmd) Run(g *globals) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return playDemo(ctx, g.out, demoSettings, opening{}, fromNow())
}

// demoSettings differ from the defaults where the story would take longer. The demo says so.
const demoSettings = `listen: 127.0.0.1:0
admin: {listen: "127.0.0.1:0"}
captcha_mode: {cool_down: 1m}
passwords: {cost: 10}
log: {level: error}
shutdown: {delay: 0s}
`

// playDemo serves the demo until ctx ends, and deletes all its data. until is a demo's.
func playDemo(ctx context.Context, out io.Writer, settings string, how opening,
	until func(context.Context, time.Duration) bool) (err error) {
	folder, err := os.MkdirTemp("", "authguard-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	file := filepath.Join(folder, defaultFile)
	text := fmt.Appendf(nil, "%sdata: %s\n", settings, filepath.Join(folder, "data"))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	loaded, err := config.Parse(file, text, nil)
	if err != nil {
		return err
	}
	level := new(slog.LevelVar)
	how.link = "/demo/" + rand.Text()
	s, err := openSite(ctx, loaded, level, newLog(loaded.Config, level, os.Stderr), how)
	if err != nil {
		return err
	}
	if err := addDemoAccounts(ctx, s); err != nil {
		return errors.Join(err, s.parts.Stop())
	}
	return s.serve(ctx, file, nil, io.Discard, background.Run(func(ctx context.Context) {
		d := demo{out, until, s, map[netip.Addr]*http.Client{}}
		d.introduce(file)
		if err := d.play(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintf(out, "The story stopped: %v\n", err)
		}
	}))
}

// addDemoAccounts adds the story's accounts with cheap hashes, and an administrator.
func addDemoAccounts(ctx context.Context, s *site) error {
	table, err := accounts.New(ctx, accounts.Config{DB: s.storage.db, Realm: guard.DefaultRealm,
		Normalise: guard.NormaliseAccount, Hash: func(password string) (string, error) {
			hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
			return string(hash), err
		}})
	if err != nil {
		return err
	}
	admin := accounts.Addition{Username: firstAdmin, Password: rand.Text(), Role: accounts.Admin}
	for _, a := range append(storyAccounts(), admin) {
		if _, err := table.Add(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a.Username, err)
		}
	}
	return nil
}

// A demo plays the story against a site.
type demo struct {
	out io.Writer
	// until waits for a time of the story, and returns false if ctx ends before.
	until   func(context.Context, time.Duration) bool
	site    *site
	clients map[netip.Addr]*http.Client // of users
}

// fromNow returns a demo's until for a story that begins now.
func fromNow() func(context.Context, time.Duration) bool {
	began := time.Now()
	return func(ctx context.Context, at time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(time.Until(began.Add(at))):
			return true
		}
	}
}

func (d *demo) at(name string) string {
	i := slices.IndexFunc(d.site.listeners.open, func(l listener) bool { return l.name == name })
	return "http://" + d.site.listeners.open[i].socket.Addr().String()
}

func (d *demo) introduce(file string) {
	fmt.Fprintf(d.out, `An attack on a login with %d accounts begins now.

  overview     %s
               (this link signs in as an administrator)
  login page   %s/login
               (alice, password: correct horse alice)
  commands     %s -c %s status

CAPTCHA mode turns off one minute after the attack, not ten, and password hashes are cheap. All other settings are the
defaults.

`, storyAccountCount, d.at("admin.listen")+d.site.how.link, d.at("listen"), os.Args[0], quoted(file))
}

// play plays all chapters, and prints the outcome of each.
func (d *demo) play(ctx context.Context) error {
	chapters, attempts := storyChapters(), storyAttempts()
	for i, chapter := range chapters[:len(chapters)-1] {
		fmt.Fprintf(d.out, "%s  %s\n      %s\n", clockOf(chapter.At), chapter.Title, chapter.Text)
		n := slices.IndexFunc(attempts, func(a storyAttempt) bool { return a.At >= chapters[i+1].At })
		if n < 0 {
			n = len(attempts)
		}
		of, goOn := d.chapter(ctx, attempts[:n])
		switch {
		case of.failed != nil:
			return of.failed
		case !goOn:
			return nil
		}
		attempts = attempts[n:]
		fmt.Fprintf(d.out, "      %s\n", of)
	}
	end := chapters[len(chapters)-1]
	if d.until(ctx, end.At) {
		fmt.Fprintf(d.out, "%s  %s\n      %s\n\nCtrl-C stops the server and deletes its data.\n", clockOf(end.At), end.Title, end.Text)
	}
	return nil
}

const (
	// together is how close attempts are that may overlap. An answer takes as long as a password check.
	together     = 100 * time.Millisecond
	mostTogether = 16
)

// chapter plays attempts, and returns false if ctx has ended.
func (d *demo) chapter(ctx context.Context, attempts []storyAttempt) (of *outcomes, goOn bool) {
	of = new(outcomes)
	var running sync.WaitGroup
	defer running.Wait()
	places, last := make(chan struct{}, mostTogether), time.Duration(0)
	for _, one := range attempts {
		if one.At-last >= together {
			running.Wait()
		}
		if last = one.At; !d.until(ctx, one.At) {
			return of, false
		}
		client := d.client(one)
		places <- struct{}{}
		running.Go(func() {
			status, err := try(ctx, client, d.at("listen")+"/login", one)
			of.add(one, status, err)
			<-places
		})
	}
	return of, true
}

func clockOf(d time.Duration) string {
	return fmt.Sprintf("%d:%02d", d/time.Minute, d%time.Minute/time.Second)
}

// outcomes count the attempts of a chapter.
type outcomes struct {
	mu                                              sync.Mutex
	users, usersIn, attackers, checked, attackersIn int
	failed                                          error
}

// String sums up the attempts.
func (o *outcomes) String() string {
	var parts []string
	if o.users > 0 {
		parts = append(parts, fmt.Sprintf("Users: %d of %d attempts signed in.", o.usersIn, o.users))
	}
	if o.attackers > 0 {
		parts = append(parts, fmt.Sprintf("Attackers: %d attempts, %d passwords checked, %d signed in.", o.attackers, o.checked,
			o.attackersIn))
	}
	return strings.Join(parts, " ")
}

func (o *outcomes) add(one storyAttempt, status int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	in, checked := 0, 0
	switch status {
	case http.StatusOK:
		in, checked = 1, 1
	case http.StatusUnauthorized:
		checked = 1
	}
	if o.failed = cmp.Or(o.failed, err); one.Browser {
		o.users, o.usersIn = o.users+1, o.usersIn+in
	} else {
		o.attackers, o.attackersIn, o.checked = o.attackers+1, o.attackersIn+in, o.checked+checked
	}
}

// client returns the client of an attempt: users keep theirs.
func (d *demo) client(one storyAttempt) *http.Client {
	if client := d.clients[one.Address]; client != nil {
		return client
	}
	local := &net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(one.Address, 0))}
	client := &http.Client{Transport: &http.Transport{DialContext: local.DialContext, DisableKeepAlives: true}}
	if one.Browser {
		client.Jar, _ = cookiejar.New(nil) // it never fails
		d.clients[one.Address] = client
	}
	return client
}

// try posts the login form and returns the status of the response.
func try(ctx context.Context, client *http.Client, url string, one storyAttempt) (status int, err error) {
	form := neturl.Values{"username": {one.Account}, "password": {one.Password}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	answer, err := client.Do(request)
	if err != nil {
		return 0, fmt.Errorf("from %s (the demo needs a system on which all of 127.0.0.0/8 is local, such as Linux): %w",
			one.Address, err)
	}
	return answer.StatusCode, answer.Body.Close()
}
