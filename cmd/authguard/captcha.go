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

type captchaCmd struct {
	Enable  captchaForceCmd `cmd:"" help:"Force CAPTCHA mode on for a time" example:"--for 2h --reason 'botnet announced'"`
	Disable captchaForceCmd `cmd:"" help:"Force CAPTCHA mode off for a time" example:"--for 30m --reason 'load test'"`
	Auto    captchaAutoCmd  `cmd:"" help:"Return CAPTCHA mode to the failure rate" example:""`
	Reset   captchaResetCmd `cmd:"" help:"Reset the failure rate and end the cool-down" example:"--reason 'load test'"`
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

// Run forces CAPTCHA mode on or off, by the command's name.
func (c captchaForceCmd) Run(g *globals, command *kong.Context) error {
	if strings.TrimSpace(c.Reason) == "" {
		return errors.New(`missing --reason "…" (recorded in the audit log)`)
	}
	word := map[string]string{"enable": "on", "disable": "off"}[command.Selected().Name]
	return g.do(http.MethodPut, "/api/mode", c.query(),
		map[string]string{"mode": word, "for": c.For.String(), "reason": c.Reason},
		"CAPTCHA mode is %s until %s. It then follows the failure rate again; `authguard captcha auto` ends it sooner.", word,
		soon(time.Now().Add(time.Duration(c.For))))
}

// soon formats a future time in this machine's zone: 30 Nov 03:12, or with the year if it is far away.
func soon(t time.Time) string {
	if time.Until(t) > 300*24*time.Hour {
		return t.Local().Format("2 Jan 2006")
	}
	return t.Local().Format("2 Jan 15:04")
}

// Run returns CAPTCHA mode to automatic.
func (c captchaAutoCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", c.query(), map[string]string{"mode": "auto", "reason": c.Reason},
		"CAPTCHA mode follows the failure rate again.")
}

type captchaResetCmd struct {
	realmFlag
	Reason string `help:"Reason, for the audit log"`
}

// Run resets the failure rate.
func (c captchaResetCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", c.query(), map[string]string{"mode": "clear", "reason": c.Reason},
		"The failure rate and the cool-down are reset on all nodes. If the attack continues, CAPTCHA mode turns on again; "+
			"`authguard captcha disable` keeps it off.")
}

func printMode(out io.Writer, m captchamode.State) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "CAPTCHA mode\t%s\n", map[bool]string{true: "on", false: "off"}[m.On])
	if m.Override.State != "" {
		fmt.Fprintf(w, "decided by\t%q until %s; reason: %q\n", m.Override.Who, m.Override.Until.Local().Format(time.RFC1123),
			m.Override.Why)
	} else {
		fmt.Fprintf(w, "decided by\tthe failure rate\n")
	}
	fmt.Fprintf(w, "stage\t%s\n", m.Level)
	if off := control.OffAt(m); !off.IsZero() {
		fmt.Fprintf(w, "turns off\tat %s, if the failure rate stays low\n", off.Local().Format(time.RFC1123))
	}
	fmt.Fprintf(w, "last minute\t%d failures, %d unsolved challenges, %d rejected for overload\n",
		m.FailureRate[captchamode.Failure], m.FailureRate[captchamode.Unsolved], m.FailureRate[captchamode.Overload])
	fmt.Fprintf(w, "thresholds\ton above %.0f a minute, unknown clients throttled above %.0f, off after staying below "+
		"%.0f\n", m.Threshold, m.SlowAt, m.LeaveAt)
	fmt.Fprintf(w, "baseline\t%.1f logins a minute; %.1f at this hour\n", m.Normal, m.Usual)
	if m.Steady {
		fmt.Fprintf(w, "steady\tthe failure rate has stayed just below the threshold for half a day: a slow attack is "+
			"possible\n")
	}
	return w.Flush()
}
