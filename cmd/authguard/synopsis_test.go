package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"authguard/internal/testing/doctest"
)

// understood tells whether a command line, such as a document has it, is one of ours:
// its commands and flags are there, and where nothing is left open the real parser
// takes it. [--x] may be left out, on|off is either, NAME stands for something.
func understood(line string) error {
	parser, err := newParser(&commandLine{}, kong.Writers(io.Discard, io.Discard), kong.Exit(func(int) { panic("--help or --version") }))
	if err != nil {
		return err
	}
	node, flag := parser.Model.Node, ""
	for _, word := range words(strings.NewReplacer("[", "", "]", "", "…", "").Replace(line)) {
		switch name, _, inline := strings.Cut(strings.TrimLeft(word, "-"), "="); {
		case strings.HasPrefix(word, "-"):
			found := flagOf(node, word, name)
			if found == nil {
				return fmt.Errorf("%q has no flag %s", node.FullPath(), word)
			}
			flag = ""
			if !found.IsBool() && !inline {
				flag = word
			}
		case flag != "":
			flag = ""
		case word == "COMMAND" && node.Parent == nil:
			return nil
		default:
			next, err := childrenOf(node, word)
			if err != nil {
				return err
			}
			node = next
		}
	}
	if flag != "" || strings.ContainsAny(line, "[]|…") {
		return nil
	}
	return parsed(parser, words(line))
}

// parsed asks the real parser. What a sentence leaves out is no mistake of it.
func parsed(parser *kong.Kong, args []string) (err error) {
	defer func() { _ = recover() }() // --help and --version are answered
	_, err = parser.Parse(args)
	if err != nil && regexp.MustCompile(`^(\w+: )?(expected |missing flags)|no such file`).MatchString(err.Error()) {
		return nil
	}
	return err
}

func flagOf(node *kong.Node, word, name string) *kong.Flag {
	for _, group := range node.AllFlags(false) {
		for _, f := range group {
			if f.Name == name || len(word) == 2 && string(f.Short) == name {
				return f
			}
		}
	}
	return nil
}

// childrenOf is where a word leads: to a command, or nowhere if it is an argument.
func childrenOf(node *kong.Node, word string) (*kong.Node, error) {
	next := node
	for one := range strings.SplitSeq(word, "|") {
		var found *kong.Node
		for _, child := range node.Children {
			if child.Name == one {
				found = child
			}
		}
		switch {
		case found != nil:
			next = found
		case len(node.Positional) == 0:
			return nil, fmt.Errorf("%q has no command %s", node.FullPath(), one)
		}
	}
	return next, nil
}

var wordPattern = regexp.MustCompile(`"[^"]*"|'[^']*'|\S+`)

// words are a command line's, without quotation marks.
func words(line string) (all []string) {
	for _, word := range wordPattern.FindAllString(line, -1) {
		all = append(all, strings.Trim(word, `"'`))
	}
	return all
}

// What a sentence calls a command is one, in the documents and in what the program says.
func TestWhatSentencesCallACommandIsOne(t *testing.T) {
	t.Parallel()
	for _, d := range doctest.All(t) {
		for _, span := range d.Spans {
			if line, ours := strings.CutPrefix(span.Text, "authguard "); ours {
				if err := understood(line); err != nil {
					t.Errorf("%s:%d: `%s`: %v", d.Path, span.Line, span.Text, err)
				}
			}
		}
	}
	root := doctest.Root(t)
	quoted := regexp.MustCompile("`authguard ([a-z][^`]*)`")
	for _, dir := range []string{"cmd", "guard", "internal", "web"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".html") && !strings.HasSuffix(path, ".yaml") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
				line := regexp.MustCompile(`%\w|" ?\+ ?.*? ?\+ ?"|\s//\s`).ReplaceAllString(found[1], "x")
				if err := understood(line); err != nil {
					t.Errorf("%s: %s: %v", path, found[0], err)
				}
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
