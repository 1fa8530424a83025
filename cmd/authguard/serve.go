package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode"

	"github.com/alecthomas/kong"
	"github.com/labstack/echo/v4"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/doctor"
	"authguard/internal/route"
	"authguard/web"
	"authguard/web/admin"
	webclient "authguard/web/client"
	"authguard/web/pages"
	"authguard/web/proxy"
)

type serveCmd struct {
	Upstream  string     `help:"Protect the app at this base URL as its reverse proxy" placeholder:"URL"`
	Preset    presetName `help:"App behind --upstream: ${presets}" placeholder:"NAME"`
	BeginAnew bool       `name:"allow-data-loss" help:"Start with empty state: give up missing keys or data"`
}

type presetName string

// Decode implements kong.MapperValue: its error lists the presets.
func (p *presetName) Decode(c *kong.DecodeContext) error {
	value, err := c.Scan.PopValue("NAME")
	name, _ := value.Value.(string)
	if err != nil || name == "" {
		return fmt.Errorf("must be one of %s", presetNames())
	}
	*p = presetName(name)
	return nil
}

func presetNames() string { return strings.Join(config.Presets(), ", ") }

// Run serves until SIGINT or SIGTERM. SIGHUP reloads the configuration.
func (c serveCmd) Run(g *globals) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	return serve(ctx, g.configPath(), opening{anew: c.BeginAnew, flags: c.settings()}, hangup, os.Stdout, os.Stderr)
}

func (c serveCmd) settings() (all []string) {
	for name, value := range map[string]string{"AUTHGUARD_PROXY_UPSTREAM": c.Upstream,
		"AUTHGUARD_PROXY_PRESET": string(c.Preset)} {
		if value != "" {
			all = append(all, name+"="+value)
		}
	}
	return all
}

// serve runs a server until ctx ends. Messages go to out, the log to logTo.
func serve(ctx context.Context, path string, how opening, hangup <-chan os.Signal, out, logTo io.Writer) error {
	loaded, err := config.Load(path, how.environment())
	if err != nil {
		return fmt.Errorf("the configuration is invalid:\n%w", err)
	}
	level := new(slog.LevelVar)
	log := newLog(loaded.Config, level, logTo)
	slog.SetDefault(log)
	limitMemory(loaded.Config)
	if err := usableFiles(loaded); err != nil {
		return err
	}
	if err := doctor.Usable(ctx, loaded); err != nil {
		return err
	}
	s, err := openSite(ctx, loaded, level, log, how)
	if err != nil {
		return err
	}
	return s.serve(ctx, path, hangup, out)
}

// usableFiles returns why the socket or the files of the pages could not be used.
func usableFiles(loaded *config.Loaded) error {
	_, err := socketPath(loaded.Data)
	if err == nil {
		_, err = pages.CheckFiles(loaded.Config)
	}
	return err
}

// serve starts the parts, more ones last, and stops them when ctx ends or a listener fails.
func (s *site) serve(ctx context.Context, path string, hangup <-chan os.Signal, out io.Writer,
	more ...background.Part) error {
	s.parts.Add(
		s.listeners,
		background.Ready(func(ctx context.Context) error { return s.welcome(ctx, out, path, s.listeners.open) }),
		background.Ready(s.listeners.serve),
		background.Run(func(ctx context.Context) { s.reloadOn(ctx, path, hangup) }),
	)
	s.parts.Add(more...)
	err := s.parts.Start(ctx)
	if err == nil {
		select {
		case err = <-s.listeners.failed:
		case <-ctx.Done():
			s.linger(time.Duration(s.listeners.delay.Load()))
			s.log.Info("stopping")
		}
	}
	return errors.Join(err, s.parts.Stop())
}

// welcome prints the URLs. In an empty database it creates an administrator and prints the temporary password: once,
// and nowhere else.
func (s *site) welcome(ctx context.Context, out io.Writer, path string, listeners []listener) error {
	password, err := s.main().people.accounts.AddFirst(ctx, firstAdmin)
	if err != nil {
		return err
	}
	if s.main().config.Log.Format == config.FormatJSON { // log and messages may share one stream
		text := new(strings.Builder)
		defer func(to io.Writer) { slog.New(slog.NewJSONHandler(to, nil)).Info(text.String()) }(out)
		out = text
	}
	fmt.Fprintf(out, "authguard is ready\n")
	for _, l := range listeners {
		switch {
		case l.name == "listen" && s.main().app.Load() != nil:
			fmt.Fprintf(out, "  the app          http://%s/\n", l.socket.Addr())
			fmt.Fprintf(out, "                   (reverse proxy for %s; protected: %s)\n", s.main().config.Proxy.Upstream,
				s.main().config.Proxy.GuardedPaths())
		case l.name == "listen":
			fmt.Fprintf(out, "  login page       http://%s/login\n", l.socket.Addr())
		case l.name == "admin.listen":
			fmt.Fprintf(out, "  administration   http://%s/\n", l.socket.Addr())
		}
	}
	if password != "" {
		fmt.Fprintf(out, "  administrator    %s, temporary password %s\n", firstAdmin, password)
		fmt.Fprintf(out, "                   (shown once; to be changed at the first sign-in)\n")
	}
	fmt.Fprintf(out, "  data             %s\n", s.storage.folder)
	command := os.Args[0]
	if path != "" && path != defaultFile {
		command += " -c " + quoted(path) // commands find the server by its configuration
	}
	if s.main().people.users.Own() && s.main().app.Load() == nil {
		fmt.Fprintf(out, "Create an account:  %s user create alice\n", command)
	} else {
		fmt.Fprintf(out, "Show the status:  %s status\n", command)
	}
	return nil
}

func quoted(path string) string {
	if !strings.ContainsFunc(path, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+", r)
	}) {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// firstAdmin is the account created at the first start.
const firstAdmin = "admin"

func newLog(c config.Config, level *slog.LevelVar, to io.Writer) *slog.Logger {
	level.Set(c.Log.Level.Slog())
	options := &slog.HandlerOptions{Level: level}
	if c.Log.Format == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

// limitMemory makes the garbage collector run more often once tables grown by a flood, with their old copies, approach
// twice the bound.
func limitMemory(c config.Config) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(c))
	}
}

// memoryLimit includes the list of leaked passwords twice: the old one is in use until a new one is read.
func memoryLimit(c config.Config) int64 {
	limit := int64(c.Counters.Memory) + int64(c.Counters.Memory)/4 + 256<<20
	if list, err := os.Stat(c.Passwords.Leaked.File); err == nil {
		limit += 2 * list.Size()
	}
	return limit
}

// linger serves for shutdown.delay without being ready, so that load balancers switch to another node before the
// listeners close. Closing resets connections that the kernel has accepted but the server has not, and a proxy must not
// resend their logins.
func (s *site) linger(delay time.Duration) {
	s.stopping.Store(true)
	if delay == 0 {
		return
	}
	s.log.Info("shutting down: not ready, closing connections", "for", delay)
	select {
	case <-s.listeners.failed:
	case <-time.After(delay):
	}
}

// reloadOn reloads the configuration at each SIGHUP. An invalid file changes nothing.
func (s *site) reloadOn(ctx context.Context, path string, hangup <-chan os.Signal) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			loaded, err := config.Load(path, s.how.environment())
			if err != nil {
				s.log.Error("configuration not reloaded: the previous one stays in force", "error", err)
				continue
			}
			if err := s.reload(loaded); err != nil {
				s.log.Error("configuration reloaded in part", "error", err)
			}
		}
	}
}

// listeners are the listeners and their handlers: the public listener, the admin console, and the socket for commands.
type listeners struct {
	site   *site
	at     *config.Loaded // as started: listeners and cookies change at a restart only
	front  web.Listener   // the public listener
	edge   web.Edge
	inside web.Edge // the admin listener's
	rivals *proxy.Rivals
	realms atomic.Pointer[http.Handler]
	open   []listener
	failed chan error
	probes control.Probes
	live   admin.Streams // of the admin console
	// shutdown.delay and shutdown.timeout, in nanoseconds
	delay, within atomic.Int64
	// every administrator needs MFA
	secondRequired atomic.Bool
}

func openListeners(s *site) *listeners {
	d := &listeners{site: s, at: s.loaded, rivals: proxy.NewRivals(), failed: make(chan error, 3)}
	d.reload(s.loaded)
	return d
}

func (d *listeners) reload(loaded *config.Loaded) {
	header := webclient.XForwardedFor
	if loaded.Forwarded == config.Forwarded {
		header = webclient.Forwarded
	}
	d.front.SetBalancers(loaded.ProxyProtocolFrom)
	d.edge.Set(loaded.TrustedProxies, header)
	d.inside.Set(loaded.Admin.TrustedProxies, header)
	d.inside.SetHosts(loaded.Admin.Hosts())
	d.secondRequired.Store(loaded.Admin.MFA == config.MFARequired)
	d.delay.Store(int64(loaded.Shutdown.Delay))
	d.within.Store(int64(loaded.Shutdown.Timeout))
}

const (
	cookiesEvery = 2 * time.Second
	cookieMark   = "cookie of an app "
)

// learn exchanges the names of the apps' cookies with other nodes and the next process.
func (d *listeners) learn(ctx context.Context) error {
	names, err := database.Marks(ctx, d.site.storage.db, cookieMark)
	if err != nil {
		return err
	}
	for _, name := range d.rivals.Learn(names) {
		err = errors.Join(err, database.Mark(ctx, d.site.storage.db, cookieMark+name))
	}
	return err
}

type listener struct {
	name   string
	socket net.Listener
	server *http.Server
}

// Start opens the listeners. They accept no requests before serve.
func (d *listeners) Start(ctx context.Context) error {
	tcp := func(name, at string, front *web.Listener, h http.Handler) error {
		socket, err := new(net.ListenConfig).Listen(ctx, "tcp", at)
		if err != nil {
			return fmt.Errorf("%s: %w; set %s: to another address, or stop what uses it", name, err, name)
		}
		server := httpServer(front.Handler(web.Closing(&d.site.stopping, h)), d.site.log)
		front.Listener, front.Log = socket, d.site.log
		server.ConnState = func(c net.Conn, state http.ConnState) {
			if state == http.StateHijacked {
				c.(*web.Conn).Hijacked()
			}
		}
		d.open = append(d.open, listener{name, front, server})
		return nil
	}
	if err := tcp("listen", d.at.Listen, &d.front, d.site.watch.traces.Request("public", d.edge.Believes,
		d.public())); err != nil {
		return err
	}
	web.AllowHTTP2(d.open[0].server)
	if d.at.Admin.Listen != "" {
		if err := tcp("admin.listen", d.at.Admin.Listen, new(web.Listener), d.site.watch.traces.Request(admin.Integration,
			d.inside.Believes, d.administration())); err != nil {
			return err
		}
	}
	path, err := socketPath(d.at.Data)
	if err != nil {
		return err
	}
	commands, err := admin.Listen(path)
	if err != nil {
		return err
	}
	d.open = append(d.open, listener{"socket", commands, d.commands().SocketServer()})
	return nil
}

// serve accepts requests. A listener that fails sends its error to failed.
func (d *listeners) serve(context.Context) error {
	for _, l := range d.open {
		go func() {
			if err := l.server.Serve(l.socket); !errors.Is(err, http.ErrServerClosed) {
				d.failed <- fmt.Errorf("%s: %w", l.name, err)
			}
		}()
	}
	return nil
}

// closingWithin is how long both ends of a WebSocket may take to close it.
const closingWithin = 2 * time.Second

// Stop stops accepting, answers the requests in progress, and aborts those that exceed shutdown.timeout. It closes idle
// connections.
func (d *listeners) Stop() (err error) {
	stopping, cancel := context.WithTimeout(context.Background(), time.Duration(d.within.Load()))
	defer cancel()
	d.live.End()
	for _, l := range d.open {
		ended := l.server.Shutdown(stopping)
		if errors.Is(ended, context.DeadlineExceeded) {
			d.site.log.Warn("stopped while requests took longer than shutdown.timeout", "listener", l.name)
			ended = l.server.Close()
		}
		_ = l.socket.Close() // if it does not serve yet
		err = errors.Join(err, ended)
	}
	ending, cancel := context.WithTimeout(context.Background(), closingWithin)
	defer cancel()
	d.front.End(ending)
	return err
}

// headersWithin is how long a client may take to send a request header, also on a new connection. Clients with spare
// connections lose a POST that they send just when one is closed. So this must differ from limits.check_timeout, after
// which all waiting clients get their answers.
const headersWithin = 10 * time.Second

func httpServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headersWithin, ReadTimeout: 15 * time.Second,
		WriteTimeout: 90 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

func (d *listeners) public() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*d.realms.Load()).ServeHTTP(w, r) })
}

func (r *realm) public(d *listeners) http.Handler {
	login := r.login(d, "login", &d.edge, r.config.Session.Lifetime, r.people.users.Source)
	login.Look = r.look
	if r.people.users.Own() {
		login.Passkeys = web.PasskeysAt(r.config.Origin, r.passkeys("user:"))
	}
	public := &web.Public{
		Login: login, API: &r.api,
		Challenges: r.mode.challenges, Origin: r.config.Origin, Probes: &d.probes, Look: r.look, Log: r.log,
		Timed: d.site.watch.metrics.Answered("public"),
	}
	return r.before(public.Handler())
}

func (d *listeners) commands() *admin.API {
	return &admin.API{Control: d.site.main().control, Realms: d.site.controls, Audit: d.site.watch.audit,
		Probes: &d.probes, Log: d.site.log}
}

// administration returns the admin listener's handler. Its login is guarded like the public one. Only administrators in
// authguard's own table can sign in, and sessions of the public login are not valid.
func (d *listeners) administration() http.Handler {
	r := d.site.main()
	login := r.login(d, admin.Integration, &d.inside, d.at.Admin.Session, r.people.accounts)
	login.Guard, login.Admin = r.administration.guard, true
	login.Second = d.second(r)
	login.Passkeys = &login.Second.Passkeys
	e := web.NewEcho("", nil, d.site.log)
	e.Use(web.Timed(d.site.watch.metrics.Answered(admin.Integration)), d.inside.Local)
	web.Media(e, r.mode.challenges)
	pages := admin.Site{
		API: d.commands(), Login: login, Metrics: d.site.watch.metrics.Handler(), Ready: d.site.ready, Streams: &d.live,
		SecondRequired: d.secondRequired.Load,
	}
	pages.Routes(e)
	if link := d.site.how.link; link != "" {
		e.GET(link, func(c echo.Context) error { return login.SignIn(c, firstAdmin) })
	}
	return e
}

// second returns the MFA step of the administrators' login.
func (d *listeners) second(r *realm) *web.Second {
	return &web.Second{
		Passkeys: r.passkeys("admin:"),
		Waiting: web.NewSessions(web.SessionConfig{
			Store: r.people.sessions, Source: r.people.accounts, Integration: admin.Integration + "_second",
			Lifetime: web.SecondLifetime,
			Secure:   r.secure(d),
		}),
	}
}

// passkeys returns those of administrators ("admin:") or users ("user:").
func (r *realm) passkeys(of string) web.Passkeys {
	return web.Passkeys{MFA: r.site.mfa, Notify: func(ctx context.Context, account, what string) {
		if err := r.control.Accounts.FactorUsed(ctx, of+account, account, what); err != nil {
			r.log.Error("an MFA operation is not in the audit log", "account", account, "what", what, "error", err)
		}
	}}
}

func (r *realm) login(
	d *listeners,
	door string,
	edge *web.Edge,
	session time.Duration,
	source accounts.Source,
) *web.Login {
	p, entrance := r.people, door
	if r.name != guard.DefaultRealm {
		entrance += "_" + r.name // a realm at a path shares its host, and so the cookies
	}
	sessions := web.SessionConfig{Store: p.sessions, Source: source, Integration: entrance, Lifetime: session,
		Secure: r.secure(d), Now: r.site.storage.clock.Now}
	var away func() error // for authguard's own table, Storage reports this
	var normalise func(string) (string, error)
	checker := p.checker
	if source != accounts.Source(p.accounts) {
		sessions.Changed, away, checker, normalise = p.forget, p.users.Away, p.sourceChecker, p.normalise
	}
	origin := ""
	if door == admin.Integration {
		sessions.Idle, sessions.Used = d.at.Admin.Idle, p.sessions.Touch
	} else {
		sessions.Domain, origin = r.config.Session.Domain, r.config.Origin
	}
	directory := map[bool]string{true: admin.Directory}[door == admin.Integration]
	emails := p.LoginEmails
	if door == admin.Integration {
		emails = web.LoginEmails{Notices: p.Notices, NotifyNewClient: p.NotifyNewClient}
	}
	if p.mailer != nil && (door == admin.Integration || p.users.Own()) {
		emails.AskCode = func(asked guard.Code) { p.mailer.Ask(directory, asked) }
	}
	return &web.Login{
		Guard: r.guard, Edge: edge, Integration: door, Origin: origin, Access: &r.access, Widget: &r.mode.widget,
		Identity: &r.clients, Hold: &r.hold, Secure: sessions.Secure, Log: r.log,
		LoginUsers: web.LoginUsers{
			Directory: directory, Control: r.control, Sessions: web.NewSessions(sessions), Storage: r.site.health,
			Passwords: &web.Passwords{Source: source, Gate: p.gate, Checker: checker, Away: away, Normalise: normalise,
				Unusable: r.unusable, Log: r.log},
		},
		LoginEmails: emails,
	}
}

// secure returns Secure cookies if browsers reach the realm over TLS.
func (r *realm) secure(d *listeners) web.CookieSecurity {
	switch {
	case d.at.SecureCookies == config.SecureNever:
		return web.SecureNever
	case d.at.SecureCookies == config.SecureAlways || strings.HasPrefix(r.config.Origin, "https://"):
		return web.SecureAlways
	}
	return web.SecureLikeRequest
}

// dispatch routes requests to the realms. A realm that failed to open keeps its hosts, paths and tokens, so no other
// realm gets its requests.
func (s *site) dispatch(loaded *config.Loaded) {
	t := &web.Realms{Edge: &s.listeners.edge, Tokens: &s.tokens, Otherwise: web.Claim{Realm: guard.DefaultRealm,
		Handler: s.main().handler}}
	tokens := tokensOf(guard.DefaultRealm, loaded.Config)
	for _, r := range s.leaving {
		tokens = append(tokens, tokensOf(r.name, r.config)...)
		t.Claims = append(t.Claims, web.Claim{Realm: r.name, Handler: r.handler, Leaving: true})
	}
	for _, c := range loaded.Realms {
		written := c.Paths
		if len(written) > 0 {
			written = append(slices.Clone(written), proxy.BaseOf(c.Name)+"/*")
		}
		paths, _ := route.ParsePaths(written) // validated by the configuration
		tokens = append(tokens, tokensOf(c.Name, loaded.In(c))...)
		claim := web.Claim{Realm: c.Name, Hosts: c.Hosts, Paths: paths, Handler: http.HandlerFunc(unopened)}
		if r := s.realm(c.Name); r != nil {
			claim.Handler = r.handler
		}
		t.Claims = append(t.Claims, claim)
	}
	s.tokens.SetConfigured(tokens)
	h := t.Handler()
	s.listeners.realms.Store(&h)
}

func unopened(w http.ResponseWriter, r *http.Request) {
	if web.WantsJSON(r) {
		w.Header().Set("Retry-After", "10")
		_ = web.Problem{
			Type: web.OverloadedProblem, Title: "This site could not be started", Status: http.StatusServiceUnavailable,
			Detail: "See the server's log.", RetryAfter: 10,
		}.Write(w)
		return
	}
	http.Error(w, "This site could not be started. See the server's log.", http.StatusServiceUnavailable)
}
