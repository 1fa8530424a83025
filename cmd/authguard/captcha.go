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
	On     captchaForceCmd  `cmd:"" help:"Force CAPTCHA mode on for a time" example:"--for 2h --reason 'botnet announced'"`
	Off    captchaForceCmd  `cmd:"" help:"Force CAPTCHA mode off for a time" example:"--for 30m --reason 'load test'"`
	Auto   captchaAutoCmd   `cmd:"" help:"Return CAPTCHA mode to the failure rate" example:""`
	Clear  captchaClearCmd  `cmd:"" help:"Reset the failure rate and end the cool-down" example:"--reason 'load test'"`
	Status captchaStatusCmd `cmd:"" help:"Show CAPTCHA mode and its thresholds" example:""`
}

type captchaForceCmd struct {
	realmFlag
	For    duration.Duration `default:"2h" help:"Duration, at most 7d"`
	Reason string            `help:"Reason, for the audit log"`
}

type captchaAutoCmd struct {
	realmFlag
	Reason string `help:"Reason, for the audit log"`
}

// Run switches the mode on or off, as the command is called.
func (c captchaForceCmd) Run(g *globals, command *kong.Context) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New(`say why with --reason "…": whoever finds the mode forced later needs to know`)
	}
	word := command.Selected().Name
	return g.do(http.MethodPut, "/api/mode", c.query(),
		map[string]string{"mode": word, "for": c.For.String(), "reason": c.Reason},
		"CAPTCHA mode is %s until %s. It then follows the failure rate again; `authguard captcha auto` ends it sooner.", word, soon(time.Now().Add(time.Duration(c.For))))
}

// soon is a time in the next months, in this machine's zone: 30 Nov 03:12, or with its year.
func soon(t time.Time) string {
	if time.Until(t) > 300*24*time.Hour {
		return t.Local().Format("2 Jan 2006")
	}
	return t.Local().Format("2 Jan 15:04")
}

// Run returns the mode to automatic.
func (c captchaAutoCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", c.query(), map[string]string{"mode": "auto", "reason": c.Reason},
		"CAPTCHA mode follows the failure rate again.")
}

type captchaClearCmd struct {
	realmFlag
	Reason string `help:"Reason, for the audit log"`
}

// Run clears the pressure.
func (c captchaClearCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", c.query(), map[string]string{"mode": "clear", "reason": c.Reason},
		"The pressure and the cool-down are forgotten on all nodes. An attack that goes on is noticed again; `authguard captcha disable` keeps the mode off whatever happens.")
}

type captchaStatusCmd struct{ realmFlag }

// Run prints the mode.
func (c captchaStatusCmd) Run(g *globals) error {
	var m captchamode.State
	return g.show(http.MethodGet, "/api/mode", c.query(), nil, &m, func() error { return printMode(g.out, m) })
}

func printMode(out io.Writer, m captchamode.State) error {
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
	fmt.Fprintf(w, "last minute\t%d failures, %d unsolved challenges, %d turned away for overload\n", m.Pressure[captchamode.Failure], m.Pressure[captchamode.Unsolved], m.Pressure[captchamode.Shed])
	fmt.Fprintf(w, "thresholds\ton above %.0f a minute, strangers slowed above %.0f, off after staying below %.0f\n", m.Threshold, m.SlowAt, m.LeaveAt)
	fmt.Fprintf(w, "normal here\t%.1f accounts log in a minute; at this hour the threshold goes by %.1f\n", m.Normal, m.Usual)
	if m.Steady {
		fmt.Fprintf(w, "steady\tfor half a day there has been pressure just below the threshold: somebody may be guessing slowly\n")
	}
	return w.Flush()
}
