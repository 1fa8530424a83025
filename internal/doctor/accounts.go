package doctor

import (
	"context"
	"database/sql"
	"log/slog"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/database"
)

// accountSource looks at where passwords are, if that is not authguard's own
// table.
func accountSource(ctx context.Context, c Config) []Check {
	a := c.Settings.Accounts
	var checks []Check
	if a.Source == config.SourceHtpasswd {
		checks = lookAt(ctx, c.Within, "accounts.htpasswd", "", func(_ context.Context, n *notes) { htpasswd(a, n) })
	}
	if a.Source == config.SourceQuery {
		checks = append(checks, lookAt(ctx, c.Within, "accounts.database", "accounts.database", func(ctx context.Context, n *notes) { queries(ctx, c, n) })...)
	}
	return checks
}

func htpasswd(a config.Accounts, n *notes) {
	normalise := guard.NormaliseAccount
	if a.CaseSensitive {
		normalise = guard.NormaliseExact
	}
	if _, err := accounts.NewHtpasswdSource(a.Htpasswd, normalise, slog.New(slog.DiscardHandler)); err != nil {
		n.problem("accounts.htpasswd", "Mend the file, or let the user who runs authguard serve read it: nobody can log in without it.",
			"The accounts cannot be read: %s.", why(err))
		return
	}
	n.ok("accounts.htpasswd", "The accounts in %s can be read.", a.Htpasswd)
}

// nobody is a name to ask the queries for.
const nobody = "authguard-doctor"

// queries asks them for an account that is not there.
func queries(ctx context.Context, c Config, n *notes) {
	const mend = "See that the database runs, that the DSN is right, and that its role may read what the queries ask for."
	a := c.Settings.Accounts
	db, err := openTheirs(ctx, c, n)
	if err != nil {
		n.problem("accounts.database", mend, "cannot be used: %s.", why(err))
		return
	}
	defer db.Close()
	source, err := accounts.NewSQLSource(accounts.SQLSourceConfig{DB: db, Query: a.Query, Canonical: a.CanonicalQuery})
	if err == nil {
		_, _, err = source.FindForLogin(ctx, nobody)
	}
	if err == nil {
		_, err = source.CanonicalOf(ctx, nobody)
	}
	if err != nil {
		n.problem("accounts.database", mend, "does not answer the queries: %s.", why(err))
		return
	}
	n.ok("accounts.database", "answers the queries.")
}

// openTheirs opens the database that the queries ask.
func openTheirs(ctx context.Context, c Config, n *notes) (*sql.DB, error) {
	dsn := c.Settings.Accounts.Database.Reveal()
	ways, err := database.Ways(dsn)
	if err != nil {
		return nil, err
	}
	if len(ways) == 0 {
		return database.Inspect(ctx, dsn)
	}
	encryption(ctx, c, "accounts.tls", dsn, n)
	return database.OpenReadOnly(ctx, dsn)
}
