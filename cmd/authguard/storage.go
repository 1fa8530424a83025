package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/secrets"
)

// A storage is what lies on disk: the database, the keys, and word of what
// other nodes change in the database.
type storage struct {
	folder  string
	keys    secrets.Keys
	db      *sql.DB
	changes *changes.Watcher
}

func openStorage(ctx context.Context, loaded *config.Loaded, log *slog.Logger) (s *storage, err error) {
	s = &storage{folder: loaded.Data}
	file := cmp.Or(loaded.KeysFile, s.path("keys"))
	if s.keys, err = secrets.Load(file); err != nil {
		return nil, err
	}
	if s.db, err = database.Open(ctx, dsn(loaded)); err != nil {
		return nil, err
	}
	applied, err := database.Migrate(ctx, s.db)
	if len(applied) > 0 {
		log.Info("database migrated", "migrations", len(applied))
	}
	if err == nil && loaded.Database != "" {
		err = secrets.Agree(ctx, s.db, s.keys, file)
	}
	if err == nil {
		s.changes, err = changes.New(changes.Config{DB: s.db, Log: log})
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// dsn is the database: PostgreSQL, or a file in the data folder.
func dsn(loaded *config.Loaded) string {
	return cmp.Or(loaded.Database.Reveal(), filepath.Join(loaded.Data, "authguard.db"))
}

// path is a file in the data folder.
func (s *storage) path(name string) string { return filepath.Join(s.folder, name) }

// start reads everything that is held in memory before the first attempt is
// decided, and then whatever changes.
func (s *storage) start(ctx context.Context, group *background.Group) error {
	if err := s.changes.Poll(ctx); err != nil {
		return err
	}
	group.Start(s.changes.Run)
	return nil
}

// Kinds of alerts about the database.
const (
	storageFailed alerts.Kind = "storage-failed"
	storageBack   alerts.Kind = "storage-back"
)

// storageChanged tells administrators that nobody can be let in, or can be again.
func storageChanged(told *alerts.Alerter, log *slog.Logger) func(error) {
	name, _ := os.Hostname()
	node := alerts.Name(name)
	return func(failed error) {
		if failed == nil {
			log.Info("the database can be written again")
			told.Raise(storageBack, "The database can be written again", "node "+node+" lets people in again")
			return
		}
		log.Error("the database cannot be written: nobody can log in", "error", failed)
		told.Raise(storageFailed, "The database cannot be written", fmt.Sprintf(
			"node %s answers every login with 503 until it can be; sessions that are open go on.\nDatabase: %s", node, alerts.Name(failed.Error())))
	}
}

// storageWarning is for the overview, and for doctor.
func storageWarning(h *database.Health) []control.Warning {
	why, since := h.Failed()
	if why == nil {
		return nil
	}
	return []control.Warning{{
		Code: string(storageFailed), Title: "The database cannot be written",
		Text: fmt.Sprintf("Since %s nobody can log in: %v. See that the disk has room, that the file or the server is not read-only, "+
			"and that nothing else keeps it locked. Logins work again a second after that.", since.UTC().Format(time.RFC3339), why),
	}}
}
