package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/outbox"
	"authguard/internal/redisstore"
	"authguard/internal/seal"
)

// storage is the data on disk: the database, the keys, and notifications of other nodes' changes.
type storage struct {
	background.Group
	folder  string
	name    string // of the folder, for claims
	keys    seal.Keys
	db      *sql.DB
	inPlace func() error // see database.InPlace
	changes *changes.Watcher
	clock   *clock
	claim   *database.Claim
}

// openStorage opens the data on disk. Missing data is an error unless anew is set: an attacker would start with fresh
// limits, and account owners would have no known clients.
func openStorage(ctx context.Context, loaded *config.Loaded, how opening, log *slog.Logger) (s *storage, err error) {
	s = &storage{folder: loaded.Data, name: folderName(loaded.Data), clock: &clock{local: how.clock, log: log, changed: func(bool) {}}}
	if how.clock == nil {
		s.clock.local = time.Now
	}
	if s.db, err = database.Open(ctx, dsn(loaded)); err != nil {
		return nil, err
	}
	s.claim = database.NewClaim(s.db)
	s.Add(background.Close(s.db.Close), background.Undo(s.claim.Close))
	here := dsn(loaded)
	if loaded.Database != "" {
		here = loaded.Data // with the counters and the socket
	}
	if s.inPlace, err = database.InPlace(here); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if loaded.Database != "" {
		s.clock.sources = []timeSource{{"PostgreSQL", func(ctx context.Context) (time.Time, error) {
			return database.Time(ctx, s.db)
		}}}
		s.clock.look(ctx)
	}
	if err = s.open(ctx, loaded, how.anew, log); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	// Everything that is kept in memory is loaded before the first decision.
	s.Add(background.Ready(s.changes.Poll), background.Run(s.changes.Run))
	return s, nil
}

func (s *storage) open(ctx context.Context, loaded *config.Loaded, anew bool, log *slog.Logger) error {
	err := s.startable(ctx, loaded, anew)
	if err != nil {
		return err
	}
	applied, err := database.Migrate(ctx, s.db)
	if len(applied) > 0 {
		log.Info("database migrated", "migrations", len(applied))
		err = errors.Join(err, s.startable(ctx, loaded, anew)) // older tables do not show everything
	}
	if err == nil {
		err = s.readKeys(ctx, loaded, anew)
	}
	if err == nil {
		s.changes, err = changes.New(changes.Config{DB: s.db, Log: log})
	}
	return err
}

// outbox is where alerts and emails wait.
func (s *storage) outbox(log *slog.Logger) outbox.Store {
	return outbox.Store{DB: s.db, Alone: !database.IsPostgres(s.db), Now: s.clock.Now, Log: log}
}

func (s *storage) startable(ctx context.Context, loaded *config.Loaded, anew bool) error {
	if anew {
		return nil
	}
	_, err := startable(ctx, loaded, s.db)
	if errors.Is(err, redisstore.ErrApart) {
		return nil // shared.agree reports this with an alert
	}
	return err
}

func (s *storage) readKeys(ctx context.Context, loaded *config.Loaded, anew bool) (err error) {
	file := keysPath(loaded)
	if s.keys, err = seal.Load(file); err != nil {
		return err
	}
	err = database.AgreeOnKeys(ctx, s.db, s.keys, file)
	if loaded.Database == "" && anew && errors.Is(err, database.ErrKeysDiffer) {
		if err = database.AbandonKeys(ctx, s.db); err == nil {
			err = database.AgreeOnKeys(ctx, s.db, s.keys, file)
		}
	}
	return err
}

func dsn(loaded *config.Loaded) string {
	return cmp.Or(loaded.Database.Reveal(), filepath.Join(loaded.Data, "authguard.db"))
}

func (s *storage) path(name string) string { return filepath.Join(s.folder, name) }

func keysPath(loaded *config.Loaded) string {
	return cmp.Or(loaded.KeysFile, filepath.Join(loaded.Data, "keys"))
}

// Kinds of alerts about the database.
const (
	storageFailed alerts.Kind = "database-failed"
	storageBack   alerts.Kind = "database-recovered"
)

func storageChanged(told *alerts.Alerter, node string, log *slog.Logger) func(error) {
	return func(failed error) {
		if failed == nil {
			log.Info("the database can be written again")
			told.Raise(storageBack, "", "node "+node+" accepts logins again")
			return
		}
		log.Error("the database cannot be written: every login gets 503", "error", failed)
		told.Raise(storageFailed, "", fmt.Sprintf(
			"node %s answers every login with 503 until then; open sessions continue.\nDatabase: %s", node,
			alerts.Name(failed.Error())))
	}
}

func storageWarning(h *database.Health) []control.Warning {
	why, since := h.Failed()
	if why == nil {
		return nil
	}
	return []control.Warning{{
		Code: string(storageFailed), Title: "The database cannot be written",
		Text: fmt.Sprintf("Every login has got 503 since %s: %v. Check that the disk has space, that the file is in its "+
			"place, "+
			"that it or the server is not read-only, and that no other process locks it. "+
			"Logins work again a second later.", since.UTC().Format(time.RFC3339), why),
	}}
}
