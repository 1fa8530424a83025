package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/codes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/events"
	"authguard/internal/mail"
	"authguard/internal/mfa"
	"authguard/internal/notices"
	"authguard/internal/passwords"
	"authguard/internal/sessions"
	"authguard/internal/times"
	"authguard/web/admin"
)

// emails are sent to account owners.
type emails struct {
	mailer *codes.Mailer // verification codes; nil without a mail server
	// notices reports logins from unknown clients; nil: off.
	notices *notices.Mailer
	// resets sends links to reset a forgotten password, and changes reports that it was reset; nil: off.
	resets, changes *notices.Mailer
	added           *notices.Mailer // reports new passkeys; nil: off
	leaked          *notices.Mailer // reports logins with leaked passwords; nil: off
}

type people struct {
	kept          config.Accounts // the settings
	normalise     func(string) (string, error)
	accounts      *accounts.Table    // authguard's own; administrators are always here
	source        accounts.Source    // accounts of the public login
	checker       *passwords.Checker // for accounts
	sourceChecker *passwords.Checker // for source, if it is not accounts
	gate          *passwords.Queue
	sessions      *sessions.Store
	codes         *codes.Table // verification codes
	// forget handles an account whose password changed elsewhere; nil: not possible.
	forget func(context.Context, string)
	health *database.Health // of the source; nil for authguard's own table and files
	emails
	// unusable counts unsupported hashes; told is the time of the last alert about them, in nanoseconds.
	unusable atomic.Uint64
	told     atomic.Int64
	log      *slog.Logger
}

func openPeople(ctx context.Context, r *realm) (p *people, err error) {
	s, on := r.site, r.site.storage
	p = &people{kept: r.config.Accounts, normalise: guard.NormaliseAccount, log: r.log}
	if p.kept.CaseSensitive {
		p.normalise = guard.NormaliseExact
	}
	checks := r.config.Passwords
	p.gate, err = passwords.NewQueue(passwords.QueueConfig{AtOnce: checks.MaxConcurrent, Queue: checks.MaxQueued,
		MaxWait: checks.QueueTimeout, Hogged: r.queueCrowded, Timed: s.watch.metrics.Checked})
	if err != nil {
		return nil, err
	}
	if p.checker, err = passwords.NewChecker(s.loaded.Passwords.Cost, nil); err != nil {
		return nil, err
	}
	if p.sourceChecker, err = passwords.NewChecker(s.loaded.Passwords.Cost, nil); err != nil {
		return nil, err
	}
	if err := accounts.EachHash(ctx, on.db, r.name, passwords.Sample, p.checker.Learn); err != nil {
		return nil, err
	}
	p.accounts, err = accounts.New(ctx, accounts.Config{
		DB: on.db, Realm: r.name, Normalise: p.normalise, Hash: p.checker.Hash, Now: on.clock.Now,
		Leaked: s.rejects,
	})
	if err != nil {
		return nil, err
	}
	if p.sessions, err = s.newSessions(r.name); err != nil {
		return nil, err
	}
	p.codes = codes.New(on.db, on.clock.Now).In(r.name)
	p.source, err = p.open(ctx)
	return p, err
}

func (s *site) newSessions(realm string) (*sessions.Store, error) {
	return sessions.New(sessions.Config{DB: s.storage.db, Realm: realm, Now: s.storage.clock.Now,
		Ahead: s.storage.clock.Ahead})
}

// checksCrowded is an alert about the account or address that fills the password check queue.
const checksCrowded alerts.Kind = "password-queue-crowded"

func (r *realm) queueCrowded(h passwords.Heavy) {
	who := "many accounts from the IP address " + events.AddressText(h.Address)
	if h.Account != "" {
		who = fmt.Sprintf("the account %s, last from %s", alerts.Name(h.Account), events.AddressText(h.Address))
	}
	r.raise(checksCrowded, "", fmt.Sprintf(
		"%d of %d running or queued password checks belong to %s. Others go first, so they hardly notice. "+
			"If it is an attack: authguard ip block ADDRESS.", h.Present, h.All, who))
}

const unusableHash alerts.Kind = "unusable-hash"

// unusable alerts about an unsupported hash, at most once an hour.
func (r *realm) unusable(account string, why error) {
	r.people.unusable.Add(1)
	now, last := r.site.storage.clock.Now().UnixNano(), r.people.told.Load()
	if last != 0 && now-last < int64(time.Hour) || !r.people.told.CompareAndSwap(last, now) {
		return
	}
	r.raise(unusableHash, "", fmt.Sprintf(
		"A login to the account %s failed, whatever the password: %s.\n"+
			"Set new passwords for such accounts: authguard doctor counts them, except behind accounts.query. "+
			"This alert repeats after an hour at the earliest.",
		alerts.Name(account), strings.TrimPrefix(why.Error(), "passwords: ")))
}

func (p *people) open(ctx context.Context) (accounts.Source, error) {
	switch a := p.kept; a.Source {
	case config.SourceHtpasswd:
		source, err := accounts.NewHtpasswdSource(a.Htpasswd, p.normalise, p.log)
		if err != nil {
			return nil, err
		}
		hashes := source.Hashes()
		for _, hash := range hashes[:min(len(hashes), passwords.Sample)] {
			p.sourceChecker.Learn(hash)
		}
		return source, nil
	case config.SourceQuery:
		db, err := database.OpenReadOnly(ctx, a.Database.Reveal())
		if err != nil {
			return nil, fmt.Errorf("accounts.database: %w", err)
		}
		return accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: a.Query, Canonical: a.CanonicalQuery})
	case config.SourceLDAP:
		return openLDAP(a.LDAP, p.normalise)
	}
	return p.accounts, nil
}

// openLDAP creates a directory from the settings. It does not connect.
func openLDAP(a config.LDAP, normalise func(string) (string, error)) (*accounts.LDAP, error) {
	trusted, err := redisTLS(config.Redis{TLS: true, TLSCA: a.TLSCA})
	if err != nil {
		return nil, fmt.Errorf("accounts.ldap.%w", err)
	}
	return accounts.NewLDAP(accounts.LDAPConfig{
		URL: a.URL, StartTLS: a.StartTLS, TLS: trusted, BindDN: a.BindDN, Password: a.Password.Reveal(), Base: a.Base,
		User: a.User, Name: a.Name, Mail: a.Mail, Groups: a.Groups, Normalise: normalise,
	})
}

// Kinds of alerts about the source of accounts.
const (
	accountsFailed alerts.Kind = "accounts-unavailable"
	accountsBack   alerts.Kind = "accounts-recovered"
)

// watchSource monitors another program's source of accounts (R27).
func (r *realm) watchSource() {
	source, elsewhere := r.people.source.(interface{ Try(context.Context) error })
	if !elsewhere {
		return
	}
	r.people.health = database.NewHealth(nil, source.Try, func(failed error) {
		if failed == nil {
			r.log.Info("accounts can be looked up again")
			r.raise(accountsBack, "", "Logins work again.")
			return
		}
		r.log.Error("accounts cannot be looked up: every login gets 503", "source", r.people.kept.Source, "error", failed)
		r.raise(accountsFailed, "", "Every login gets 503 until then.\n"+
			alerts.Name(failed.Error()))
	})
	r.Add(background.Run(r.people.health.Run))
}

// away returns why the source is unavailable, as far as known; nil if it is available.
func (p *people) away() (why error) {
	if p.health != nil {
		why, _ = p.health.Failed()
	}
	return why
}

func (r *realm) warn() (all []control.Warning) {
	if loose := r.loose.Load(); loose != nil {
		for _, name := range *loose {
			all = append(all, looseWarning(r.name, name))
		}
	}
	if r.people.away() == nil {
		return all
	}
	why, since := r.people.health.Failed()
	return append(all, control.Warning{
		Code: string(accountsFailed), Title: "Accounts cannot be looked up",
		Text: alerts.InRealm(r.name, fmt.Sprintf("Every login has got 503 since %s: %v. Check that the database or "+
			"directory runs and accepts authguard's credentials. "+
			"Logins work again a second later.", times.Text(since.UTC()), why)),
	})
}

const mailFailed alerts.Kind = "mail-failed"

func (r *realm) openMailer() error {
	p, m := r.people, r.config.Mail
	if m.Server == "" {
		return nil
	}
	server, err := mail.New(m.Server.Reveal(), m.From)
	if err != nil {
		return fmt.Errorf("mail.server: %w", err)
	}
	p.notices, err = r.openNotices(notices.Config{Purpose: notices.NewClient, Send: server.Send, Find: p.ownerOf,
		Code: r.codeFor,
		Sent: func(ctx context.Context, l notices.Login) {
			if l.Stopped {
				r.codeSent(ctx, l.Account, r.site.storage.clock.Now().Add(codes.DefaultLife))
			}
		},
		Write: func(l notices.Login, token string) (string, string) {
			link := ""
			if r.config.Origin != "" {
				link = r.config.Origin + "/login/not-me/" + token
			}
			return r.look.Message(m.Language, l, link)
		}})
	if err != nil {
		return err
	}
	p.leaked, err = r.openNotices(notices.Config{Purpose: notices.PasswordLeaked, Send: server.Send, Find: p.ownerOf,
		Write: func(l notices.Login, _ string) (string, string) { return r.look.LeakedMessage(m.Language, l) }})
	if err != nil {
		return err
	}
	if _, ok := mfa.SiteAt(r.config.Origin); ok && p.elsewhere() == "" {
		p.added, err = r.openNotices(notices.Config{Purpose: notices.PasskeyAdded, Send: server.Send, Find: p.ownerOf,
			Write: func(l notices.Login, _ string) (string, string) { return r.look.PasskeyMessage(m.Language, l) }})
		if err != nil {
			return err
		}
	}
	if m.PasswordReset && r.config.Origin != "" && p.elsewhere() == "" {
		if err := r.openResets(server); err != nil {
			return err
		}
	}
	p.mailer = codes.NewMailer(codes.MailerConfig{
		Store: r.site.storage.outbox(r.log), Codes: p.codes, Find: p.mailbox, Send: server.Send, Origin: r.config.Origin,
		Sent: r.codeSent,
		Failed: func(err error) {
			r.raise(mailFailed, "",
				"Users who request a verification code get none. Until then create codes with: authguard user create-code NAME\n"+
					alerts.Name(err.Error()))
		},
	})
	r.Add(background.Run(p.mailer.Run))
	return nil
}

func (r *realm) codeSent(ctx context.Context, account string, expires time.Time) {
	if err := r.control.Accounts.CodeSent(ctx, account, expires); err != nil {
		r.log.Error("a verification code was sent but is not in the audit log", "error", err)
	}
}

// codeFor makes a verification code for the owner of an account whose right password was stopped (R32).
func (r *realm) codeFor(ctx context.Context, l notices.Login) (string, func(context.Context) error, error) {
	address, _ := netip.ParseAddr(l.Address)
	from, err := r.guard.CodeFor(l.Account, address)
	if err != nil {
		return "", nil, err
	}
	code, _, err := r.people.codes.Asked(ctx, codes.Grant{Directory: l.Directory, Account: l.Account,
		For: codes.DefaultLife, From: from.Address, RightPassword: true})
	switch {
	case errors.Is(err, codes.ErrEnough):
		return "", nil, nil
	case err != nil:
		return "", nil, err
	}
	return code, func(ctx context.Context) error { return r.people.codes.Forget(ctx, code) }, nil
}

const noticesFailed alerts.Kind = "notifications-failed"

// openNotices starts a mailer to account owners; c has what differs between them.
func (r *realm) openNotices(c notices.Config) (*notices.Mailer, error) {
	c.Store, c.Realm, c.Secret = r.site.storage.outbox(r.log), r.name, r.site.storage.keys.Counters
	c.Failed = func(err error) {
		r.raise(noticesFailed, "",
			"The mail server rejects the emails. They are kept and retried.\n"+alerts.Name(err.Error()))
	}
	mailer, err := notices.New(c)
	if err == nil {
		r.Add(background.Run(mailer.Run))
	}
	return mailer, err
}

// openResets starts the emails about forgotten passwords.
func (r *realm) openResets(server *mail.Server) (err error) {
	p, language := r.people, r.config.Mail.Language
	find := func(ctx context.Context, directory, account string) (string, error) {
		_, email, err := p.mailbox(ctx, directory, account)
		return email, err
	}
	p.resets, err = r.openNotices(notices.Config{Purpose: notices.Reset, Send: server.Send, Find: find,
		Version: func(ctx context.Context, l notices.Login) (int64, error) {
			a, err := p.accounts.Get(ctx, l.Account)
			if err == nil && (a.Disabled || a.Role == accounts.Admin) {
				err = accounts.ErrUnknown
			}
			return a.Version, err
		},
		Write: func(l notices.Login, token string) (string, string) {
			return r.look.ResetMessage(language, l, r.config.Origin+"/login/reset/"+token)
		},
		Sent: func(ctx context.Context, l notices.Login) {
			if err := r.control.Accounts.ResetSent(ctx, l.Account, l.Address); err != nil {
				r.log.Error("a password reset link was sent but is not in the audit log", "error", err)
			}
		}})
	if err != nil {
		return err
	}
	p.changes, err = r.openNotices(notices.Config{Purpose: notices.PasswordChanged, Send: server.Send, Find: find,
		Write: func(l notices.Login, _ string) (string, string) { return r.look.ResetDoneMessage(language, l) }})
	return err
}

// ownerOf returns the email address of an account's owner, from authguard's own table or from the source.
func (p *people) ownerOf(ctx context.Context, directory, account string) (email string, err error) {
	if directory == admin.Directory || p.elsewhere() == "" {
		_, email, err = p.mailbox(ctx, directory, account)
		return email, err
	}
	login, found, err := p.source.FindForLogin(ctx, account)
	if err != nil || !found || !login.Password.Usable {
		return "", err
	}
	return login.Email, nil
}

// mailbox returns the account of a name in a directory, and its owner's email address. The address is empty if no such
// account exists.
func (p *people) mailbox(ctx context.Context, directory, name string) (account, email string, err error) {
	own, err := p.accounts.Get(ctx, name)
	switch {
	case errors.Is(err, accounts.ErrUnknown):
		return "", "", nil
	case err != nil:
		return "", "", err
	case own.Disabled, (own.Role == accounts.Admin) != (directory == admin.Directory):
		return "", "", nil
	case own.Email == "" && strings.Contains(own.Username, "@"):
		return own.Username, own.Username, nil
	}
	return own.Username, own.Email, nil
}

// directoryOf returns where an account logs in: the admin console if only an administrator has the name. Another
// program's account takes precedence over an administrator of the same name, who can be unlocked.
func (p *people) directoryOf(ctx context.Context, name string) (string, error) {
	login, found, err := p.source.FindForLogin(ctx, name)
	if err != nil || found && login.Role != accounts.Admin {
		return "", err
	}
	own, err := p.accounts.Get(ctx, name)
	if err == nil && own.Role != accounts.Admin {
		err = accounts.ErrUnknown // such a user cannot log in while another program keeps the accounts
	}
	return admin.Directory, err
}

// elsewhere returns the source of accounts if it is not authguard's own table.
func (p *people) elsewhere() string {
	if p.source == accounts.Source(p.accounts) {
		return ""
	}
	return string(p.kept.Source)
}

// canonical returns a function that looks up an account's canonical name.
func (p *people) canonical(ctx context.Context) func(name string) string {
	if p.source == accounts.Source(p.accounts) {
		return p.accounts.Canonical
	}
	source, asks := p.source.(interface {
		CanonicalOf(ctx context.Context, name string) (string, error)
	})
	return func(name string) string {
		if !asks || p.away() != nil {
			return name
		}
		canonical, err := source.CanonicalOf(ctx, name)
		if err != nil {
			p.log.Error("the canonical account name could not be read", "error", err)
			return name
		}
		if usual, err := p.normalise(canonical); err == nil {
			return usual // normalized like a typed name
		}
		return name
	}
}

// onNewPassword calls forget for an account whose password was changed outside of authguard (R14). Changes in
// authguard's own table are handled where they are made.
func (p *people) onNewPassword(forget func(ctx context.Context, account string)) (changed func(context.Context,
	string)) {
	switch source := p.source.(type) {
	case *accounts.HtpasswdSource:
		source.OnChange(func(names []string) {
			for _, name := range names {
				forget(context.Background(), name)
			}
		})
	case *accounts.SQLSource, *accounts.LDAP:
		return forget
	}
	return nil
}

// forgetting removes all known clients and verification codes of an account of the site's guard. An administrator of
// the same name keeps theirs.
func forgetting(g *guard.Guard, codes *codes.Table, log *slog.Logger) func(context.Context, string) {
	return func(ctx context.Context, account string) {
		if err := errors.Join(g.RemoveKnownClients(ctx, account, netip.Addr{}), codes.RevokeIn(ctx, "",
			account)); err != nil {
			log.Error("known clients of an account with a new password could not be removed", "error", err)
		}
	}
}
