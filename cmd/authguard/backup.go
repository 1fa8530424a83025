package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"authguard/failures"
	"authguard/internal/config"
	"authguard/internal/counters"
	"authguard/internal/database"
)

type backupCmd struct {
	Folder string `arg:"" type:"path" help:"New folder for the copy"`
}

type copied struct {
	Folder string   `json:"folder"`
	Files  []string `json:"files"`
	// Apart lists what the copy does not contain.
	Apart []string `json:"not_included,omitempty"`
}

// Run copies the data folder; a server may be running.
func (c backupCmd) Run(g *globals) error {
	loaded, err := config.Load(g.configPath(), os.Environ())
	if err != nil {
		return fmt.Errorf("the configuration cannot be used:\n%w", err)
	}
	if err := os.Mkdir(c.Folder, 0o700); err != nil {
		return fmt.Errorf("backup needs a new folder: %w", err)
	}
	made, err := copyAll(context.Background(), loaded, c.Folder)
	if err != nil {
		return fmt.Errorf("%w. The copy is incomplete: delete %s", err, c.Folder)
	}
	if g.JSON {
		return printJSON(g, made)
	}
	if err := tells(g.out, "%s contains: %s", made.Folder, strings.Join(made.Files, ", ")); err != nil {
		return err
	}
	for _, what := range made.Apart {
		fmt.Fprintln(g.out, "Not included:", what)
	}
	return tells(g.out, "To restore it, copy the folder to where `data:` points, and start authguard.")
}

func copyAll(ctx context.Context, loaded *config.Loaded, to string) (copied, error) {
	made := copied{Folder: to, Files: []string{"keys"}}
	keys, err := os.ReadFile(loaded.KeysPath())
	if err != nil {
		return made, fmt.Errorf("the keys file cannot be read: %w", err)
	}
	if err := os.WriteFile(filepath.Join(to, "keys"), keys, 0o600); err != nil {
		return made, err
	}
	if loaded.KeysFile != "" {
		made.Apart = append(made.Apart, "the configuration. Its keys_file is "+loaded.KeysFile+
			": restore the file keys to there.")
	}
	for _, of := range counters.Files {
		switch err := failures.Copy(filepath.Join(loaded.Data, of.Name), filepath.Join(to, of.Name)); {
		case err == nil:
			made.Files = append(made.Files, of.Name)
		case !errors.Is(err, fs.ErrNotExist):
			return made, err
		}
	}
	if loaded.Redis.On() {
		made.Apart = append(made.Apart, "Redis: the counters of all nodes. Its appendonly file keeps them.")
	}
	if loaded.Database != "" {
		made.Apart = append(made.Apart, "PostgreSQL: back it up with pg_dump.")
		return made, nil
	}
	made.Files = append(made.Files, "authguard.db")
	return made, database.Copy(ctx, loaded.DSN(), filepath.Join(to, "authguard.db"))
}
