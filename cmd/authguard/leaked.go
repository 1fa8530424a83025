package main

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/leaked"
)

type passwordListCmd struct {
	Build passwordListBuildCmd `cmd:"" help:"Build a list of leaked passwords for passwords.leaked" example:"pwned.txt --output leaked.bin --min-count 3"`
}

type passwordListBuildCmd struct {
	Files    []string `arg:"" name:"file" help:"Hashes of Have I Been Pwned (SHA-1 or NTLM), or passwords"`
	Output   string   `short:"o" required:"" type:"path" placeholder:"FILE" help:"List to write; a running server reads it again"`
	MinCount int      `default:"1" placeholder:"N" help:"Leave out hashes with a lower count"`
}

// Validate implements kong.Validatable.
func (c passwordListBuildCmd) Validate() error {
	if c.MinCount < 1 {
		return errors.New("--min-count must be at least 1")
	}
	return nil
}

// Run builds the list and shows progress.
func (c passwordListBuildCmd) Run(g *globals) error {
	ctx, stop := untilInterrupted()
	defer stop()
	b := &leaked.Build{From: c.Files, Output: c.Output, MinCount: c.MinCount}
	done := g.progress(b)
	built, err := b.Run(ctx)
	done()
	if err != nil {
		return err
	}
	if g.JSON {
		return printJSON(g, built)
	}
	return tells(g.out, "%s has %s passwords (%s hashes) in %s. Set passwords.leaked.file to it.", plain(built.File),
		humanize.Comma(int64(built.Passwords)), built.Hash, humanize.Bytes(uint64(built.Bytes)))
}

// rejects reports whether an account may not get a new password, because it is common or known from leaks.
func (s *site) rejects(password string) bool {
	return s.origins.Load().Passwords.Leaked.NewPasswords == "reject" && (s.leaked.Has(password) || leaked.Common(password))
}

// usableList returns why the list of leaked passwords could not be read.
func usableList(c config.Config) error {
	path := c.Passwords.Leaked.File
	if path == "" {
		return nil
	}
	if _, err := leaked.Read(path); err != nil {
		return fmt.Errorf("passwords.leaked.file: %s cannot be used: %w", path, err)
	}
	return nil
}

func leakedWarning(s leaked.State) (all []control.Warning) {
	if s.Kept != "" {
		all = append(all, control.Warning{Code: "leaked-passwords-file",
			Title: "The list of leaked passwords could not be loaded",
			Text: fmt.Sprintf("%s cannot be used: %s. A list of %s passwords stays in use. authguard password-list build "+
				"replaces the file atomically.", s.File, s.Kept, humanize.Comma(int64(s.Passwords)))})
	}
	return all
}
