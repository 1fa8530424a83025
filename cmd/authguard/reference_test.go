package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"authguard/internal/testing/doctest"
)

func TestReference(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{}
	leaves := model(t).Leaves(true)
	doctest.Generated(t, "docs/reference/commands.md", func(group string) string {
		shown[group] = true
		rows := [][]string{{"command", "meaning", "flags", "example"}}
		for _, leaf := range leaves {
			if leaf.ClosestGroup().Title == group {
				rows = append(rows, []string{doctest.Code(doctest.Escaped(usage(leaf))), leaf.Help,
					flagsOf(leaf), doctest.Code(leaf.Tag.Get("example"))})
			}
		}
		return doctest.Table(rows...)
	})
	for _, leaf := range leaves {
		if !shown[leaf.ClosestGroup().Title] {
			t.Errorf("docs/reference/commands.md has no part for %s", leaf.FullPath())
		}
	}
}

// usage is a command with its arguments.
func usage(leaf *kong.Node) string {
	parts := []string{strings.TrimPrefix(leaf.Path(), "authguard ")}
	for _, one := range leaf.Positional {
		parts = append(parts, one.Summary())
	}
	return strings.Join(parts, " ")
}

// flagsOf are a command's flags with their meanings, but for those that the page describes once.
func flagsOf(leaf *kong.Node) string {
	var all []string
	for _, flag := range leaf.Flags {
		if !flag.Hidden && !slices.Contains([]string{"help", "realm", "reason"}, flag.Name) {
			all = append(all, doctest.Code("--"+flag.Name)+" "+flag.Help)
		}
	}
	return doctest.Escaped(strings.Join(all, "; "))
}
