package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/term"

	"authguard/internal/simulate"
)

type simulateCmd struct {
	policyFlags
	Scenario []string `arg:"" optional:"" help:"Scenario names from --list, files, or all"`
	List     bool     `help:"List the built-in scenarios"`
	Show     string   `placeholder:"NAME" help:"Print a built-in scenario"`
	Seed     uint64   `help:"Random seed (default: the scenario's)"`
	Against  []string `placeholder:"NAME" help:"Compare with all (default), nothing or: ${defences}"`
	HTML     string   `name:"html" placeholder:"FILE" help:"Write an HTML report to this file"`
}

func defenseNames() string { return strings.Join(simulate.Defenses(), ", ") }

// Run runs the scenarios and prints a report.
func (c simulateCmd) Run(g *globals) error {
	switch {
	case c.List:
		return listScenarios(g)
	case c.Show != "":
		text, err := simulate.Source(c.Show)
		if err != nil {
			return err
		}
		_, err = g.out.Write(text)
		return err
	case len(c.Scenario) == 0:
		return errors.New("missing scenario: list them with authguard limit simulate --list")
	}
	scenarios, err := scenariosOf(c.Scenario, c.Seed)
	if err != nil {
		return err
	}
	setups, err := c.setups(g)
	if err != nil {
		return err
	}
	setups[0].Name = "authguard"
	ctx, stop := untilInterrupted()
	defer stop()
	var reports []*simulate.Report
	for _, s := range scenarios {
		r, err := simulate.Run(ctx, s, setups, c.against(), g.steps(s.Name))
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		reports = append(reports, r)
	}
	sheet := reports[0].Sheet()
	if len(reports) > 1 {
		sheet = simulate.Overall(reports)
	}
	return g.printSheet(sheet, reports, c.HTML)
}

// Validate implements kong.Validatable.
func (c simulateCmd) Validate() error {
	for _, name := range c.Against {
		if !slices.Contains(append(simulate.Defenses(), "all", "nothing"), name) {
			return fmt.Errorf("--against: must be %s, all or nothing, not %q", defenseNames(), name)
		}
	}
	return nil
}

func (c simulateCmd) against() []string {
	switch {
	case len(c.Against) == 0 || slices.Contains(c.Against, "all"):
		return simulate.Defenses()
	case slices.Contains(c.Against, "nothing"):
		return nil
	}
	return c.Against
}

func scenariosOf(names []string, seed uint64) (all []simulate.Scenario, err error) {
	for _, name := range names {
		if name == "all" {
			every, err := simulate.Scenarios()
			if err != nil {
				return nil, err
			}
			all = append(all, every...)
			continue
		}
		s, err := simulate.Load(name)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	for i := range all {
		if seed != 0 {
			all[i].Seed = seed
		}
	}
	return all, nil
}

func listScenarios(g *globals) error {
	all, err := simulate.Scenarios()
	if err != nil {
		return err
	}
	if g.JSON {
		return printJSON(g, all)
	}
	w := tabwriter.NewWriter(g.out, 0, 8, 2, ' ', 0)
	for _, s := range all {
		fmt.Fprintf(w, "%s\t%s\n", s.Name, s.About)
	}
	return w.Flush()
}

func (g *globals) steps(what string) func(done, of int) {
	file, ok := g.complaints.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return func(done, of int) {
		fmt.Fprintf(file, "\r\033[K%s: %d of %d done", what, done, of)
		if done == of {
			fmt.Fprint(file, "\r\033[K")
		}
	}
}
