package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kong"

	"authguard/captchamode"
	"authguard/internal/control"
	"authguard/internal/duration"
)

// captchaCmd is `authguard captcha`.
type captchaCmd struct {
	On     captchaForceCmd  `cmd:"" help:"Switch CAPTCHA mode on for a time."`
	Off    captchaForceCmd  `cmd:"" help:"Switch CAPTCHA mode off for a time, whatever happens."`
	Auto   captchaAutoCmd   `cmd:"" help:"Leave CAPTCHA mode to the failure rate again."`
	Clear  captchaClearCmd  `cmd:"" help:"Forget the pressure and the cool-down, on all nodes; an attack that goes on is noticed again."`
	Status captchaStatusCmd `cmd:"" help:"Say whether the site is under attack, and why the mode is what it is."`
}

type captchaForceCmd struct {
	realmFlag
	For    duration.Duration `default:"2h" help:"How long; then the mode is automatic again."`
	Reason string            `help:"Why, for whoever looks at it later."`
}

type captchaAutoCmd struct {
	realmFlag
	Reason string `help:"Why, for whoever looks at it later."`
}

// Run switches the mode on or off, as the command is called.
func (c captchaForceCmd) Run(g *globals, command *kong.Context) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New(`say why with --reason "…": whoever finds the mode forced later needs to know`)
	}
	word := command.Selected().Name
	return g.do(http.MethodPut, "/api/mode", c.query(),
		map[string]string{"mode": word, "for": c.For.String(), "reason": c.Reason},
		"CAPTCHA mode is %s for %s. It then follows the failure rate again; `authguard captcha auto` ends it sooner.", word, c.For)
}

// Run returns the mode to automatic.
func (c captchaAutoCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", c.query(), map[string]string{"mode": "auto", "reason": c.Reason},
		"CAPTCHA mode follows the failure rate again.")
}

type captchaClearCmd struct {
	realmFlag
	Reason string `help:"Why, for whoever looks at it later."`
}

// Run clears the pressure.
func (c captchaClearCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", c.query(), map[string]string{"mode": "clear", "reason": c.Reason},
		"The pressure and the cool-down are forgotten on all nodes. An attack that goes on is noticed again; `authguard captcha off` keeps the mode off whatever happens.")
}

type captchaStatusCmd struct{ realmFlag }

// Run prints the mode.
func (c captchaStatusCmd) Run(g *globals) error {
	var m struct {
		captchamode.State
		Pressure struct{ Failures, Unsolved, Shed int } `json:"pressure"`
	}
	return g.show(http.MethodGet, "/api/mode", c.query(), nil, &m, func() error {
		return printMode(g.out, m.State, m.Pressure.Failures, m.Pressure.Unsolved, m.Pressure.Shed)
	})
}

func printMode(out io.Writer, m captchamode.State, failures, unsolved, shed int) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "CAPTCHA mode\t%s\n", map[bool]string{true: "on", false: "off"}[m.On])
	if m.Force.Word != "" {
		fmt.Fprintf(w, "decided by\t%q until %s, because: %q\n", m.Force.Who, m.Force.Until.Local().Format(time.RFC1123), m.Force.Why)
	} else {
		fmt.Fprintf(w, "decided by\tthe failure rate\n")
	}
	fmt.Fprintf(w, "the site is\t%s\n", m.Level)
	if off := control.OffAt(m); !off.IsZero() {
		fmt.Fprintf(w, "goes off\tat %s, if it stays quiet\n", off.Local().Format(time.RFC1123))
	}
	fmt.Fprintf(w, "last minute\t%d failures, %d unsolved challenges, %d turned away for overload\n", failures, unsolved, shed)
	fmt.Fprintf(w, "thresholds\ton above %.0f a minute, strangers slowed above %.0f, off after staying below %.0f\n", m.Threshold, m.SlowAt, m.LeaveAt)
	fmt.Fprintf(w, "normal here\t%.1f accounts log in a minute; at this hour the threshold goes by %.1f\n", m.Normal, m.Usual)
	if m.Steady {
		fmt.Fprintf(w, "steady\tfor half a day there has been pressure just below the threshold: somebody may be guessing slowly\n")
	}
	return w.Flush()
}
