package accounts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/config"
	"authguard/internal/database"
	"authguard/internal/passwords"
)

// PublicConfig configures a Public. All fields are required.
type PublicConfig struct {
	Settings  config.Accounts
	Own       *Table // authguard's own
	Normalise func(string) (string, error)
	Learn     func(hash string) // gets a sample of the hashes in a file
	// Changed gets the error when another program's source fails, and nil when it works again.
	Changed func(failed error)
	Log     *slog.Logger
}

// Public is the accounts of a realm's public login, wherever they are kept. Administrators are always in the Table.
type Public struct {
	Source
	config PublicConfig
	health *database.Health // of another program's source; nil for files and authguard's own table

	lookUps lookUps
}

// lookUps are the concurrent look-ups of each client. They come before all limits, so a flood of one client, which it
// stops later, would take all connections of the source (R26).
type lookUps struct {
	mu sync.Mutex
	of map[netip.Prefix]*clientLookUps
}

type clientLookUps struct {
	turns chan struct{}
	users int // running and waiting
}

// fewOfClient leaves three quarters of the connections to others.
const fewOfClient = atOnce / 4

// do waits for one of the client's turns, and runs the look-up, for queryTime in all.
func (l *lookUps) do(ctx context.Context, client netip.Prefix, look func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, queryTime)
	defer cancel()
	own := l.enter(client)
	defer l.leave(client, own)
	select {
	case own.turns <- struct{}{}:
		defer func() { <-own.turns }()
		return look(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *lookUps) enter(client netip.Prefix) *clientLookUps {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.of[client]
	if own == nil {
		if l.of == nil {
			l.of = map[netip.Prefix]*clientLookUps{}
		}
		own = &clientLookUps{turns: make(chan struct{}, fewOfClient)}
		l.of[client] = own
	}
	own.users++
	return own
}

func (l *lookUps) leave(client netip.Prefix, own *clientLookUps) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.users--; own.users == 0 {
		delete(l.of, client)
	}
}

// OpenPublic opens the source of the settings.
func OpenPublic(ctx context.Context, c PublicConfig) (*Public, error) {
	p := &Public{config: c, Source: c.Own}
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	if source, ok := p.Source.(interface{ Try(context.Context) error }); ok {
		p.health = database.NewHealth(nil, source.Try, p.changed)
	}
	return p, nil
}

func (p *Public) open(ctx context.Context) (err error) {
	switch c := p.config.Settings; c.Source {
	case config.SourceHtpasswd:
		source, err := NewHtpasswdSource(c.Htpasswd, p.config.Normalise, p.config.Log)
		if err != nil {
			return err
		}
		hashes := source.Hashes()
		for _, hash := range hashes[:min(len(hashes), passwords.Sample)] {
			p.config.Learn(hash)
		}
		p.Source = source
	case config.SourceQuery:
		db, err := database.OpenReadOnly(ctx, c.Database.Reveal())
		if err != nil {
			return fmt.Errorf("accounts.database: %w", err)
		}
		p.Source, err = NewSQLSource(SQLSourceConfig{DB: db, Query: c.Query, Canonical: c.CanonicalQuery})
		return err
	case config.SourceLDAP:
		p.Source, err = OpenLDAP(c.LDAP, p.config.Normalise)
	}
	return err
}

func (p *Public) changed(failed error) {
	if failed == nil {
		p.config.Log.Info("accounts can be looked up again")
	} else {
		p.config.Log.Error("accounts cannot be looked up: every login gets 503", "source", p.config.Settings.Source,
			"error", failed)
	}
	p.config.Changed(failed)
}

// Run monitors another program's source until ctx ends (R27).
func (p *Public) Run(ctx context.Context) {
	if p.health != nil {
		p.health.Run(ctx)
	}
}

// Failed returns why and since when the source is unavailable, as far as known; nil if it is available.
func (p *Public) Failed() (why error, since time.Time) {
	if p.health != nil {
		return p.health.Failed()
	}
	return nil, since
}

// Away is Failed without the time.
func (p *Public) Away() error {
	why, _ := p.Failed()
	return why
}

// Elsewhere returns the name of the source if it is not authguard's own table.
func (p *Public) Elsewhere() string {
	if p.Own() {
		return ""
	}
	return string(p.config.Settings.Source)
}

// Own reports whether the accounts are in authguard's own table.
func (p *Public) Own() bool { return p.Source == Source(p.config.Own) }

// Email returns the email address of an account's owner; empty if there is none.
func (p *Public) Email(ctx context.Context, directory, account string) (email string, err error) {
	if directory == Directory || p.Own() {
		_, email, err = p.Mailbox(ctx, directory, account)
		return email, err
	}
	login, found, err := p.FindForLogin(ctx, account)
	if err != nil || !found || !login.Password.Usable {
		return "", err
	}
	return login.Email, nil
}

// Mailbox returns the account of a name in a directory of authguard's own table, and its owner's email address. The
// address is empty if no such account exists.
func (p *Public) Mailbox(ctx context.Context, directory, name string) (account, email string, err error) {
	own, err := p.config.Own.Get(ctx, name)
	switch {
	case errors.Is(err, ErrUnknown):
		return "", "", nil
	case err != nil:
		return "", "", err
	case own.Disabled, (own.Role == Admin) != (directory == Directory):
		return "", "", nil
	case own.Email == "" && strings.Contains(own.Username, "@"):
		return own.Username, own.Username, nil
	}
	return own.Username, own.Email, nil
}

// Version returns the version of an enabled user's account, or ErrUnknown.
func (p *Public) Version(ctx context.Context, name string) (int64, error) {
	a, err := p.config.Own.Get(ctx, name)
	if err == nil && (a.Disabled || a.Role == Admin) {
		err = ErrUnknown
	}
	return a.Version, err
}

// DirectoryOf returns where an account logs in: Directory if only an administrator has the name. Another program's
// account takes precedence over an administrator of the same name, who can be unlocked.
func (p *Public) DirectoryOf(ctx context.Context, name string) (string, error) {
	login, found, err := p.FindForLogin(ctx, name)
	if err != nil || found && login.Role != Admin {
		return "", err
	}
	own, err := p.config.Own.Get(ctx, name)
	if err == nil && own.Role != Admin {
		err = ErrUnknown // such a user cannot log in while another program keeps the accounts
	}
	return Directory, err
}

// Canonical returns a function that looks up an account's canonical name. An error means that the look-up failed.
// Each client's address has a few look-ups at a time.
func (p *Public) Canonical(ctx context.Context) func(name string, from netip.Addr) (string, error) {
	if p.Own() {
		return func(name string, _ netip.Addr) (string, error) { return p.config.Own.Canonical(name), nil }
	}
	source, asks := p.Source.(interface {
		CanonicalOf(ctx context.Context, name string) (string, error)
	})
	if table, is := p.Source.(*SQLSource); is && table.canonical == "" {
		asks = false
	}
	return func(name string, from netip.Addr) (string, error) {
		if !asks {
			return name, nil
		}
		if err := p.Away(); err != nil {
			return "", err
		}
		canonical := ""
		err := p.lookUps.do(ctx, guard.OneAddress(from), func(ctx context.Context) (err error) {
			canonical, err = source.CanonicalOf(ctx, name)
			return err
		})
		if err == nil {
			canonical, err = p.config.Normalise(canonical) // like a typed name
		}
		if err != nil {
			p.config.Log.Error("the canonical account name could not be read", "error", err)
		}
		return canonical, err
	}
}

// OnNewPassword calls forget for an account whose password was changed outside of authguard (R14). The function that it
// returns, nil for other sources, is for the caller to call when it notices that. Changes in authguard's own table are
// handled where they are made.
func (p *Public) OnNewPassword(forget func(ctx context.Context, account string)) (changed func(context.Context,
	string)) {
	switch source := p.Source.(type) {
	case *HtpasswdSource:
		source.OnChange(func(names []string) {
			for _, name := range names {
				forget(context.Background(), name)
			}
		})
	case *SQLSource, *LDAP:
		return forget
	}
	return nil
}
