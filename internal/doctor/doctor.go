// Package doctor checks everything that a configuration names: Redis, the database, files, listeners, and the apps
// behind the proxy. It reports what is wrong or may go wrong later, and how to fix it.
//
// It changes nothing, here or on servers, and reveals no secret. It tests writes to PostgreSQL in a transaction that it
// rolls back, and asks the running server for what only that knows. Each check has its own timeout, so a hanging
// subject is a finding, too. authguard may be running or not.
package doctor

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/counters"
)

// Config says what to check. Only Settings or Invalid is required.
type Config struct {
	Settings config.Config
	// Invalid is the error of unusable settings; then few checks run.
	Invalid error
	// Ask returns the warnings of the server that runs from the data folder, or ErrNotRunning. nil: no request is sent.
	Ask func(ctx context.Context) ([]alerts.Warning, error)
	// Starts returns why serve would not start with the stored data, and which data it would start without. nil: not
	// checked.
	Starts func(context.Context) ([]counters.Lack, error)
	// Unscripted returns why a page of the app with these headers gets no script for challenges; empty if it gets one, or
	// needs none. nil: not checked.
	Unscripted func(p config.Proxy, page http.Header, host string) string
	// Alerts sends a test message to every alert channel.
	Alerts bool
	// Within is the timeout of one check. 0: 5 s.
	Within time.Duration

	// The environment, for tests: this machine's clock, its resolver, free bytes of a folder's file system, the limit on
	// open files, and IP addresses other than loopback. nil: the real ones.
	Now         func() time.Time
	Lookup      func(ctx context.Context, host string) ([]netip.Addr, error)
	Free        func(folder string) (uint64, error)
	Descriptors func() (uint64, error)
	Addresses   func() ([]netip.Addr, error)
}

func (c Config) complete() Config {
	c.Within = cmp.Or(c.Within, 5*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Lookup == nil {
		c.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if c.Free == nil {
		c.Free = func(folder string) (uint64, error) {
			var s syscall.Statfs_t
			err := syscall.Statfs(folder, &s)
			return uint64(s.Bavail) * uint64(s.Bsize), err
		}
	}
	if c.Addresses == nil {
		c.Addresses = ownAddresses
	}
	if c.Descriptors == nil {
		c.Descriptors = func() (uint64, error) {
			var limit syscall.Rlimit
			err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
			return uint64(limit.Cur), err
		}
	}
	return c
}

type subject struct {
	name   string // name of the finding if it hangs
	about  string // prefix of every text
	look   func(context.Context, Config, *notes)
	within time.Duration
}

// ErrNotRunning means that no server runs from the data folder.
var ErrNotRunning = errors.New("doctor: no server is running")

func starts(ctx context.Context, c Config, n *notes) {
	lacks, err := c.Starts(ctx)
	for _, one := range lacks {
		n.check("start.counters", "", problem(true, "Restore the whole data folder from a backup if these failures matter. "+
			"Otherwise start the server: its next save is complete.", "%s", one))
	}
	n.check("start", "authguard serve can start from the stored data.",
		problem(err != nil, "Do this before the next restart.", "authguard serve would not start: %v.", err))
}

func running(ctx context.Context, c Config, n *notes) {
	warnings, err := c.Ask(ctx)
	well := n.check("server", "", advice(errors.Is(err, ErrNotRunning),
		"If it should run: systemctl start authguard, or authguard serve.",
		"No server is running from %s: logins fail, and current warnings are not checked.", c.Settings.Data), problem(err != nil, "Check its log, and restart it if it hangs.",
		"The running server does not answer: %s.", why(err)))
	for _, w := range warnings {
		n.check("server."+w.Code, "", problem(true, cmp.Or(w.Setting, w.Text), "Warning of the running server: %s.", w.Title))
	}
	if well && len(warnings) == 0 {
		n.ok("server", "The running server has no warnings.")
	}
}

func alertChannels(ctx context.Context, c Config, n *notes) {
	to := c.Settings.Alerts.To
	n.check("alerts", "", advice(len(to) == 0, "Set alerts.to to be notified of attacks.",
		"No alert channel is configured: alerts go to the log only."))
	var addresses []string
	for _, one := range to {
		addresses = append(addresses, one.Reveal())
	}
	found, err := alerts.Try(ctx, addresses, c.Settings.Alerts.PrivateNetworks)
	n.check("alerts", "", problem(err != nil, "Correct alerts.to.", "%s.", why(err)))
	for _, one := range found {
		n.check("alerts", "A test message was sent to the channel "+one.Channel+": check that it arrived.",
			problem(one.Problem != "", "Check the address, its password and the network; docs/how-to/alerts.md has the form of "+
				"each kind of channel.",
				"A test message to the channel %s was not delivered: %s.", one.Channel, clean(one.Problem)))
	}
}

// subjects lists everything that the settings name.
func (c Config) subjects() []subject {
	all := []subject{{"config", "", settings, c.Within}, {"machine.files", "", machine, c.Within}}
	if c.Invalid != nil {
		return all
	}
	all = append(all, subject{"data", "", dataFolder, c.Within}, subject{"keys", "", keysFile, c.Within},
		subject{"tls", "", certificates, c.Within})
	if c.Starts != nil {
		all = append(all, subject{"start", "", starts, 6 * c.Within}) // reads the database and the counters
	}
	if c.Ask != nil {
		all = append(all, subject{"server", "", running, c.Within})
	}
	if c.Alerts {
		all = append(all, subject{"alerts", "", alertChannels, 4 * c.Within})
	}
	if c.Settings.Database != "" {
		all = append(all, subject{"postgres", "PostgreSQL", postgres, c.Within})
	} else {
		all = append(all, subject{"sqlite", "The database", sqlite, 6 * c.Within}) // reads every page
	}
	if len(c.Settings.Sources()) > 0 {
		all = append(all, subject{"lists", "", listFiles, 4 * c.Within})
	}
	if c.Settings.Passwords.Leaked.File != "" {
		all = append(all, subject{"leaked", "", leakedPasswords, 4 * c.Within})
	}
	all = append(all, c.accountSubjects("")...)
	for _, r := range c.Settings.Realms {
		if r.Accounts == c.Settings.Accounts {
			continue
		}
		in := c
		in.Settings = c.Settings.In(r)
		all = append(all, in.accountSubjects(" of the realm "+r.Name)...)
	}
	all = append(all, c.upstreamSubjects()...)
	if r := c.Settings.Redis; r.On() {
		all = append(all, subject{"redis", "Redis " + strings.Join(r.Addresses, ", "), redisServer, c.Within})
	}
	return all
}

// accountSubjects lists sources of accounts outside authguard's own table.
func (c Config) accountSubjects(whose string) []subject {
	here := func(look func(context.Context, Config, *notes)) func(context.Context, Config, *notes) {
		return func(ctx context.Context, _ Config, n *notes) { look(ctx, c, n) }
	}
	switch c.Settings.Accounts.Source {
	case config.SourceHtpasswd:
		return []subject{{"accounts.htpasswd", "", here(htpasswd), c.Within}}
	case config.SourceLDAP:
		return []subject{{"accounts.ldap", "The directory " + c.Settings.Accounts.LDAP.URL + whose, here(directory),
			c.Within}}
	case config.SourceQuery:
		return []subject{{"accounts.database", "accounts.database" + whose, here(queries), c.Within}}
	}
	return nil
}

// Examine runs all checks concurrently and returns the findings in a fixed order.
func Examine(ctx context.Context, c Config) []Check {
	c = c.complete()
	subjects := c.subjects()
	return together(len(subjects), func(i int) []Check { return subjects[i].check(ctx, c) })
}

func together(n int, do func(i int) []Check) []Check {
	found := make([][]Check, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { found[i] = do(i) })
	}
	all.Wait()
	return append([]Check{}, slices.Concat(found...)...)
}

// grace is how long a call may continue after the end of its context.
const grace = 500 * time.Millisecond

// check has a timeout. A check that exceeds it is a problem; its goroutine is abandoned.
func (s subject) check(ctx context.Context, c Config) []Check {
	ctx, cancel := context.WithTimeout(ctx, s.within)
	defer cancel()
	n, done := &notes{about: s.about}, make(chan struct{})
	go func() {
		defer close(done)
		s.look(ctx, c, n)
	}()
	select {
	case <-done:
	case <-time.After(s.within + grace):
		n.check(s.name, "", problem(true, "Find what hangs: a disk, a mount or the network.",
			"could not be checked within %v.", s.within))
	}
	return n.checks()
}
