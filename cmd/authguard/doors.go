package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"time"

	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/web"
	"authguard/web/admin"
)

// open opens every listener, or none.
func (s *site) open(ctx context.Context) (all []listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range all {
				_ = l.socket.Close()
			}
		}
	}()
	var lc net.ListenConfig
	public, err := lc.Listen(ctx, "tcp", s.loaded.Listen)
	if err != nil {
		return all, fmt.Errorf("listen: %w; set listen: to another address, or stop what uses it", err)
	}
	all = append(all, listener{"listen", public, httpServer(s.public().Handler(), s.log)})
	if where := s.loaded.Admin.Listen; where != "" {
		administration, err := lc.Listen(ctx, "tcp", where)
		if err != nil {
			return all, fmt.Errorf("admin.listen: %w; set admin.listen: to another address, or stop what uses it", err)
		}
		all = append(all, listener{"admin.listen", administration, httpServer(s.administration(), s.log)})
	}
	path, err := socketPath(s.loaded.Data)
	if err != nil {
		return all, err
	}
	commands, err := admin.Listen(path)
	if err != nil {
		return all, err
	}
	return append(all, listener{"socket", commands, s.commands().SocketServer()}), nil
}

func (s *site) public() *web.Public {
	login := s.login("login", s.loaded.Session, s.source)
	// A one-time password of an administrator opens the administration only,
	// which asks for another one at once.
	login.Allowed = func(l accounts.Login) bool { return !(l.Role == accounts.Admin && l.MustChange) }
	return &web.Public{Login: login, API: s.api, Challenges: s.challenges, Origin: s.loaded.Config.Origin, Log: s.log}
}

func (s *site) commands() *admin.API {
	return &admin.API{Control: s.control, Audit: s.audit, Log: s.log}
}

// administration is the admin listener. Its login is guarded like the public
// one; only administrators of our own table may enter, and not by a session of
// the public door.
func (s *site) administration() http.Handler {
	login := s.login(admin.Door, s.loaded.Admin.Session, s.accounts)
	login.Admin, login.Directory = true, admin.Directory
	login.Allowed = func(l accounts.Login) bool { return l.Role == accounts.Admin }
	e := web.NewEcho("", s.log)
	e.Use(s.edge.Local)
	e.GET("/captcha/:file", web.Media(s.challenges))
	pages := admin.Site{API: s.commands(), Login: login, Metrics: s.metrics.Handler(), Ready: s.db.PingContext}
	pages.Routes(e)
	return e
}

// login is the login door of one listener.
func (s *site) login(door string, session time.Duration, source accounts.Source) *web.Login {
	return &web.Login{
		Guard: s.guard, Edge: s.edge, Door: door, Log: s.log,
		Passwords: &web.Passwords{Source: source, Gate: s.gate, Checker: s.checker, Log: s.log},
		Sessions: web.NewSessions(web.SessionConfig{
			Store: s.sessions, Source: source, Door: door, Lifetime: session, Secure: s.secure, Changed: s.passwordChanged(source),
		}),
		Hold:   func() time.Duration { return time.Duration(s.hold.Load()) },
		Secure: s.secure,
	}
}

// passwordChanged forgets the places of an account whose password somebody else
// has changed (R14). Our own table and the htpasswd file say so themselves.
func (s *site) passwordChanged(source accounts.Source) func(context.Context, string) {
	if _, query := source.(*accounts.SQLSource); !query {
		return nil
	}
	return func(ctx context.Context, account string) {
		if err := s.guard.ForgetPlaces(ctx, account, netip.Addr{}); err != nil {
			s.log.Error("places of an account with a new password could not be forgotten", "error", err)
		}
	}
}

// secure reports whether a client's cookies are for TLS only.
func (s *site) secure(c web.Client) bool {
	switch s.loaded.SecureCookies {
	case config.SecureAlways:
		return true
	case config.SecureNever:
		return false
	}
	return c.Secure || strings.HasPrefix(s.loaded.Config.Origin, "https://")
}

// welcome says where to click. In an empty folder it makes an administrator
// and prints the one-time password: once, and nowhere else.
func (s *site) welcome(ctx context.Context, out io.Writer, listeners []listener) error {
	password, err := s.firstAdministrator(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "authguard is ready\n")
	for _, l := range listeners {
		switch l.name {
		case "listen":
			fmt.Fprintf(out, "  login page       http://%s/login\n", l.socket.Addr())
		case "admin.listen":
			fmt.Fprintf(out, "  administration   http://%s/\n", l.socket.Addr())
		}
	}
	if password != "" {
		fmt.Fprintf(out, "  administrator    %s, one-time password %s\n", firstAdmin, password)
		fmt.Fprintf(out, "                   (shown this once; the administration asks for a new one)\n")
	}
	fmt.Fprintf(out, "  data             %s\n", s.loaded.Data)
	fmt.Fprintf(out, "Add somebody who may log in:  %s user add alice\n", os.Args[0])
	return nil
}

// firstAdmin is the account that the first start makes.
const firstAdmin = "admin"

func (s *site) firstAdministrator(ctx context.Context) (password string, err error) {
	some, err := s.accounts.List(ctx, "", 1)
	if err != nil || len(some) > 0 {
		return "", err
	}
	password = strings.ToLower(rand.Text())[:16]
	_, err = s.accounts.Add(ctx, accounts.Addition{
		Username: firstAdmin, Password: password, Role: accounts.Admin, MustChange: true,
	})
	if errors.Is(err, accounts.ErrTaken) { // by a node that started at the same time
		return "", nil
	}
	return password, err
}
