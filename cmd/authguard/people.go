package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/config"
	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/passwords"
	"authguard/internal/sessions"
	"authguard/web/admin"
)

// people are the accounts, the check of their passwords, and their sessions.
type people struct {
	normalise func(string) (string, error)
	accounts  *accounts.Table // our own; administrators are always here
	source    accounts.Source // where the public door looks accounts up
	checker   *passwords.Checker
	gate      *passwords.Gate
	sessions  *sessions.Store
	storage   *database.Health // whether sessions can be written
	log       *slog.Logger
}

func openPeople(ctx context.Context, loaded *config.Loaded, on *storage, told *alerts.Alerter, log *slog.Logger) (p *people, err error) {
	p = &people{normalise: guard.NormaliseAccount, log: log}
	if loaded.Accounts.CaseSensitive {
		p.normalise = guard.NormaliseExact
	}
	if p.checker, err = passwords.NewChecker(loaded.Passwords.Cost, nil); err != nil {
		return nil, err
	}
	p.gate, err = passwords.NewGate(passwords.GateConfig{
		AtOnce: loaded.Passwords.AtOnce, Queue: loaded.Passwords.Queue, MaxWait: loaded.Passwords.Wait, Crowded: crowded(told),
	})
	if err != nil {
		return nil, err
	}
	p.accounts, err = accounts.New(ctx, accounts.Config{DB: on.db, Normalise: p.normalise, Hash: p.checker.Hash, Saw: p.checker.Saw})
	if err != nil {
		return nil, err
	}
	if p.sessions, err = sessions.New(sessions.Config{DB: on.db}); err != nil {
		return nil, err
	}
	p.storage = database.NewHealth(p.sessions.Prove, storageChanged(told, log))
	p.source, err = p.open(ctx, loaded.Accounts)
	return p, err
}

// checksCrowded is an alert about whoever fills the queue for password checks.
const checksCrowded alerts.Kind = "checks-crowded"

func crowded(told *alerts.Alerter) func(passwords.Crowd) {
	return func(c passwords.Crowd) {
		who := "many accounts of the address " + events.AddressText(c.Address)
		if c.Account != "" {
			who = fmt.Sprintf("the account %s, last from %s", alerts.Name(c.Account), events.AddressText(c.Address))
		}
		told.Raise(checksCrowded, "One account or address fills the queue for password checks", fmt.Sprintf(
			"%d of %d password checks that run or wait are those of %s. Everybody else goes first, so that others hardly notice; "+
				"what it costs is the machine's time. If it is not welcome: authguard block ADDRESS.", c.Present, c.All, who))
	}
}

func (p *people) open(ctx context.Context, a config.Accounts) (accounts.Source, error) {
	switch a.Source {
	case config.SourceHtpasswd:
		return accounts.NewHtpasswdSource(a.Htpasswd, p.normalise, p.checker.Saw, p.log)
	case config.SourceQuery:
		db, err := database.OpenReadOnly(ctx, a.Database.Reveal())
		if err != nil {
			return nil, fmt.Errorf("accounts.database: %w", err)
		}
		return accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: a.Query, Canonical: a.CanonicalQuery})
	}
	return p.accounts, nil
}

// canonical looks up the one name that stands for all names of an account: in our
// own table for the administration, else in the source.
func (p *people) canonical(ctx context.Context) func(directory, name string) string {
	if p.source == accounts.Source(p.accounts) {
		return p.accounts.CanonicalIn
	}
	source, query := p.source.(*accounts.SQLSource)
	return func(directory, name string) string {
		switch {
		case directory == admin.Directory:
			return p.accounts.Canonical(name)
		case !query:
			return name
		}
		canonical, err := source.CanonicalOf(ctx, name)
		if err != nil {
			p.log.Error("canonical name could not be asked", "error", err)
			return name
		}
		return canonical
	}
}

// onNewPassword calls forget for an account whose password was changed outside of
// authguard (R14). What changes in our own table is told there.
func (p *people) onNewPassword(forget func(ctx context.Context, account string)) (changed func(context.Context, string)) {
	switch source := p.source.(type) {
	case *accounts.HtpasswdSource:
		source.OnChange(func(names []string) {
			for _, name := range names {
				forget(context.Background(), name)
			}
		})
	case *accounts.SQLSource:
		return forget
	}
	return nil
}

// forgetting forgets all places of an account.
func forgetting(g *guard.Guard, log *slog.Logger) func(context.Context, string) {
	return func(ctx context.Context, account string) {
		if err := g.ForgetPlaces(ctx, account, netip.Addr{}); err != nil {
			log.Error("places of an account with a new password could not be forgotten", "error", err)
		}
	}
}
