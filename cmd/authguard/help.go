package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"authguard/internal/control"
	"authguard/internal/operation"
)

// newParser returns the command-line parser. The tags of [commandLine] contain each command's help, example and group.
func newParser(line *commandLine, options ...kong.Option) (*kong.Kong, error) {
	line.addOperations(control.Operations())
	parser, err := kong.New(line, append(options,
		kong.Name("authguard"), kong.Description("Brute-force protection for logins"),
		kong.Help(printHelp), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 120}),
		kong.ValueFormatter(withValues), kong.Vars{
			"presets": presetNames(), "formats": formatNames(), "logs": logFormats(),
			"defences": defenseNames(), "scopes": scopeNames(),
		})...)
	if err != nil {
		return nil, err
	}
	parser.Model.HelpFlag.Help = "Show help"
	for _, leaf := range parser.Model.Leaves(true) {
		leaf.Detail = "Example:\n\n    " + example(leaf)
	}
	return parser, nil
}

func example(leaf *kong.Node) string {
	return strings.TrimSpace(leaf.FullPath() + " " + leaf.Tag.Get("example"))
}

func scopeNames() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(operation.Scopes()), " ", ","), "[]")
}

func withValues(v *kong.Value) string {
	help := kong.DefaultHelpValueFormatter(v)
	if v.Enum != "" {
		help += ": " + strings.Join(strings.FieldsFunc(v.Enum, func(r rune) bool { return r == ',' }), ", ")
	}
	if v.Flag != nil && v.Flag.PlaceHolder != "" && v.Default != "" {
		help += " (default: " + v.Default + ")"
	}
	return help
}

// printHelp prints the commands by group, one per line, or kong's help of one command.
func printHelp(options kong.HelpOptions, c *kong.Context) error {
	if c.Selected() != nil {
		return kong.DefaultHelpPrinter(options, c)
	}
	w, group := c.Stdout, ""
	fmt.Fprintf(w, "authguard: %s\nUsage: authguard COMMAND\n", c.Model.Help)
	for _, command := range c.Model.Children {
		switch {
		case command.Hidden:
			continue
		case command.Group.Title != group:
			group = command.Group.Title
			fmt.Fprintln(w, group)
		}
		fmt.Fprintf(w, "  %-14s%s\n", command.Name, command.Help)
	}
	fmt.Fprint(w, "Flags of every command")
	for _, flag := range c.Model.Flags {
		fmt.Fprint(w, "  ", flag)
	}
	_, err := fmt.Fprintln(w, "\nRun `authguard help COMMAND` for flags and an example.")
	return err
}

func commandOf(err error) string {
	if bad, ok := errors.AsType[*kong.ParseError](err); ok && bad.Context.Selected() != nil {
		return bad.Context.Selected().FullPath()
	}
	return "authguard"
}

type helpCmd struct {
	Command []string `arg:"" optional:"" help:"Command"`
}

// Run prints the same as COMMAND --help.
func (c helpCmd) Run(app *kong.Kong) error {
	line, err := kong.Trace(app, c.Command)
	if err = errors.Join(err, line.Error); err != nil {
		return err
	}
	return line.PrintUsage(false)
}
