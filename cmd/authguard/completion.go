package main

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// The scripts ask the program itself for candidates: see completeCmd.
var (
	//go:embed completion/bash.sh
	completionBash string
	//go:embed completion/zsh.zsh
	completionZsh string
	//go:embed completion/fish.fish
	completionFish string
)

type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish" help:"Shell"`
}

// Run prints the script.
func (c completionCmd) Run(g *globals) error {
	scripts := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}
	_, err := fmt.Fprint(g.out, scripts[c.Shell])
	return err
}

// completeCmd gets the words of a command line from the completion scripts; the last may be incomplete.
type completeCmd struct {
	Words []string `arg:"" optional:"" passthrough:""`
}

// Run prints each candidate for the last word, a tab and its help. No line means a file name or free text.
func (c completeCmd) Run(g *globals, app *kong.Kong) error {
	words := c.Words
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	for _, one := range candidates(app.Model.Node, words) {
		if _, err := fmt.Fprintf(g.out, "%s\t%s\n", one[0], one[1]); err != nil {
			return err
		}
	}
	return nil
}

func candidates(node *kong.Node, words []string) (all [][2]string) {
	if len(words) == 0 {
		return nil
	}
	var flag *kong.Flag // whose value comes next
	arguments, last := 0, words[len(words)-1]
	for _, word := range words[:len(words)-1] {
		child := childOf(node, word)
		switch {
		case word == "=": // bash splits words there
		case flag != nil:
			flag = nil
		case strings.HasPrefix(word, "-"):
			if flag = flagNamed(node, word); flag != nil && flag.IsBool() {
				flag = nil
			}
		case child != nil:
			node = child
		default:
			arguments++
		}
	}
	add := func(word, help string) {
		if strings.HasPrefix(word, last) {
			all = append(all, [2]string{word, help})
		}
	}
	values := func(v *kong.Value) {
		for _, word := range v.EnumSlice() {
			add(word, "")
		}
	}
	switch {
	case flag != nil:
		last = strings.TrimPrefix(last, "=")
		values(flag.Value)
	case strings.HasPrefix(last, "-"):
		for _, group := range node.AllFlags(true) {
			for _, f := range group {
				add("--"+f.Name, f.Help)
			}
		}
	default:
		for _, child := range node.Children {
			if !child.Hidden {
				add(child.Name, child.Help)
			}
		}
		if arguments < len(node.Positional) {
			values(node.Positional[arguments])
		}
	}
	return all
}

func childOf(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// flagNamed finds --name or -n of a command, unless the value follows "=".
func flagNamed(node *kong.Node, word string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if word == "--"+f.Name || f.Short != 0 && word == "-"+string(f.Short) {
				return f
			}
		}
	}
	return nil
}
