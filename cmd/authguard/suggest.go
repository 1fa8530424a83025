package main

import (
	"errors"
	"slices"

	"authguard/internal/simulate"
)

type suggestCmd struct {
	logFlags
	Realm    string   `placeholder:"NAME" help:"Realm whose limits are the starting point"`
	Logs     []string `arg:"" optional:"" name:"log" help:"Logs that contain an attack (newest million attempts)"`
	Scenario []string `placeholder:"NAME" help:"Scenarios of simulate instead of logs, files, or all"`
	Friction *float64 `placeholder:"PART" help:"Share of good logins that may be challenged, as 0.001"`
	HTML     string   `name:"html" placeholder:"FILE" help:"Write an HTML report to this file"`
}

// Run searches for limits and prints them.
func (c suggestCmd) Run(g *globals) error {
	if (len(c.Logs) == 0) == (len(c.Scenario) == 0) {
		return errors.New("missing input: give logs, or a scenario with --scenario")
	}
	how, err := c.reading()
	if err != nil {
		return err
	}
	setups, err := policyFlags{Realm: c.Realm}.setups(g)
	if err != nil {
		return err
	}
	judge := simulate.OfLogs(c.Logs, how)
	if len(c.Scenario) > 0 {
		scenarios, err := scenariosOf(c.Scenario, 0)
		if err != nil {
			return err
		}
		judge = simulate.OfScenarios(scenarios)
	}
	ctx, stop := untilInterrupted()
	defer stop()
	found, err := simulate.Search(ctx, setups[0], c.Friction, judge, g.steps("tune"))
	if err != nil {
		return err
	}
	if found.Base.Logins == 0 {
		return errors.New("the logs contain no successful login, so no limit is too strict. Check what was read with " +
			"authguard limit replay")
	}
	return g.printSheet(found.Sheet(), found, c.HTML)
}

// Validate implements kong.Validatable.
func (c suggestCmd) Validate() error {
	switch {
	case slices.Contains(c.Logs, "-"):
		return errors.New("standard input can be read once only: give a file")
	case c.Friction != nil && (*c.Friction < 0 || *c.Friction > 1):
		return errors.New("--friction: must be from 0 to 1, such as 0.001")
	}
	return nil
}
