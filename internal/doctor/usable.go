package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"authguard/guard"
	"authguard/internal/accounts"
	"authguard/internal/config"
	"authguard/internal/database"
)

// Modes of access(2).
const (
	mayRead  = 4
	mayWrite = 2
	mayEnter = 1
)

// Usable returns why serve could not use the configured folders, files and servers, regardless of stored data. It
// writes nothing.
func Usable(ctx context.Context, loaded *config.Loaded) error {
	if err := usableFolder(loaded.Data); err != nil {
		return fmt.Errorf("the data folder cannot be used: %w. Set data: to a folder that the user that runs "+
			"authguard serve can write", err)
	}
	lock, err := filepath.Abs(filepath.Join(loaded.Data, database.LockName))
	if err != nil {
		return err
	}
	if info, err := os.Stat(lock); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder: remove it, the server needs a file there", lock)
	}
	if loaded.Database == "" {
		if err := mayOpen(loaded.DSN()); err != nil {
			return fmt.Errorf("database: %w. Give the file to the user that runs authguard serve", err)
		}
	}
	if _, err := loaded.Redis.Encryption(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if err := usableAccounts(ctx, loaded.Config); err != nil {
		return err
	}
	for _, r := range loaded.Realms {
		in := loaded.In(r)
		if in.Accounts == loaded.Accounts {
			continue
		}
		if err := usableAccounts(ctx, in); err != nil {
			return fmt.Errorf("realm %s: %w", r.Name, err)
		}
	}
	return nil
}

func usableFolder(folder string) error {
	info, err := os.Stat(folder)
	for errors.Is(err, fs.ErrNotExist) && folder != filepath.Dir(folder) {
		folder = filepath.Dir(folder)
		info, err = os.Stat(folder)
	}
	if err == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: folder, Err: syscall.ENOTDIR}
	}
	if err != nil {
		return err
	}
	if err := syscall.Access(folder, mayWrite|mayEnter); err != nil {
		return &fs.PathError{Op: "write", Path: folder, Err: err}
	}
	return nil
}

// mayOpen returns why an existing file could not be read and written. It does not open the file: closing it would
// release SQLite's locks on it.
func mayOpen(file string) error {
	if err := syscall.Access(file, mayRead|mayWrite); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "open", Path: file, Err: err}
	}
	return nil
}

// usableAccounts returns why accounts of another source could not be looked up. An unavailable directory is no error:
// logins work when it is back.
func usableAccounts(ctx context.Context, c config.Config) error {
	a, normalise := c.Accounts, guard.NormaliseAccount
	if a.CaseSensitive {
		normalise = guard.NormaliseExact
	}
	switch a.Source {
	case config.SourceHtpasswd:
		if _, gone := os.Stat(a.Htpasswd); gone != nil {
			return fmt.Errorf("accounts.htpasswd: %w. Create it with: htpasswd -cB %s USER", gone, a.Htpasswd)
		}
		_, err := accounts.NewHtpasswdSource(a.Htpasswd, normalise, slog.New(slog.DiscardHandler))
		return err
	case config.SourceLDAP:
		_, err := accounts.OpenLDAP(a.LDAP, normalise)
		return err
	case config.SourceQuery:
		open := database.Inspect
		if ways, err := database.Ways(a.Database.Reveal()); err != nil || len(ways) > 0 { // PostgreSQL
			open = database.OpenReadOnly
		}
		db, err := open(ctx, a.Database.Reveal())
		if err != nil {
			return fmt.Errorf("accounts.database: %w", err)
		}
		return db.Close()
	}
	return nil
}
