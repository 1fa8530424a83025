package main

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"

	"authguard/internal/config"
	"authguard/internal/passwords"
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
	b := &passwords.ListBuild{From: c.Files, Output: c.Output, MinCount: c.MinCount}
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

// usableList returns why the list of leaked passwords could not be read.
func usableList(c config.Config) error {
	path := c.Passwords.Leaked.File
	if path == "" {
		return nil
	}
	if _, err := passwords.ReadLeaked(path); err != nil {
		return fmt.Errorf("passwords.leaked.file: %s cannot be used: %w", path, err)
	}
	return nil
}
