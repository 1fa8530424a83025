package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"authguard/internal/duration"
)

// captchaCmd is `authguard captcha`.
type captchaCmd struct {
	On     captchaOnCmd     `cmd:"" help:"Switch CAPTCHA mode on for a time."`
	Off    captchaOffCmd    `cmd:"" help:"Switch CAPTCHA mode off for a time, whatever happens."`
	Auto   captchaAutoCmd   `cmd:"" help:"Leave CAPTCHA mode to the failure rate again."`
	Status captchaStatusCmd `cmd:"" help:"Say whether the site is under attack, and why the mode is what it is."`
}

type captchaOnCmd struct {
	For    duration.Duration `default:"2h" help:"How long; then the mode is automatic again."`
	Reason string            `help:"Why, for whoever looks at it later."`
}

type captchaOffCmd struct {
	For    duration.Duration `default:"2h" help:"How long; then the mode is automatic again."`
	Reason string            `help:"Why, for whoever looks at it later."`
}

type captchaAutoCmd struct {
	Reason string `help:"Why, for whoever looks at it later."`
}

// Run switches the mode on.
func (c captchaOnCmd) Run(g *globals) error { return g.force("on", c.For, c.Reason) }

// Run switches the mode off.
func (c captchaOffCmd) Run(g *globals) error { return g.force("off", c.For, c.Reason) }

// Run returns the mode to automatic.
func (c captchaAutoCmd) Run(g *globals) error {
	return g.do(http.MethodPut, "/api/mode", nil, map[string]string{"mode": "auto", "reason": c.Reason},
		"CAPTCHA mode follows the failure rate again.")
}

func (g *globals) force(word string, how duration.Duration, reason string) error {
	if strings.TrimSpace(reason) == "" {
		return errors.New(`say why with --reason "…": whoever finds the mode forced later needs to know`)
	}
	return g.do(http.MethodPut, "/api/mode", nil,
		map[string]string{"mode": word, "for": how.String(), "reason": reason},
		"CAPTCHA mode is %s for %s. It then follows the failure rate again; `authguard captcha auto` ends it sooner.", word, how)
}

// modeAnswer is what of the server's state the status is made from.
type modeAnswer struct {
	On    bool   `json:"on"`
	Level string `json:"level"`
	Force struct {
		Word  string    `json:"word"`
		Who   string    `json:"who"`
		Why   string    `json:"why"`
		Until time.Time `json:"until"`
	} `json:"force"`
	Pressure struct {
		Failures int `json:"failures"`
		Unsolved int `json:"unsolved"`
		Shed     int `json:"shed"`
	} `json:"pressure"`
	Threshold float64   `json:"threshold"`
	SlowAt    float64   `json:"slow_at"`
	LeaveAt   float64   `json:"leave_at"`
	Normal    float64   `json:"normal"`
	LowSince  time.Time `json:"low_since"`
}

type captchaStatusCmd struct{}

// Run prints the mode.
func (captchaStatusCmd) Run(g *globals) error {
	var m modeAnswer
	return g.show("/api/mode", nil, &m, func() error { return m.print(g.out) })
}

func (m *modeAnswer) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "CAPTCHA mode\t%s\n", onOff(m.On))
	if m.Force.Word != "" {
		fmt.Fprintf(w, "decided by\t%q until %s, because: %q\n", m.Force.Who, m.Force.Until.Local().Format(time.RFC1123), m.Force.Why)
	} else {
		fmt.Fprintf(w, "decided by\tthe failure rate\n")
	}
	fmt.Fprintf(w, "the site is\t%s\n", m.Level)
	fmt.Fprintf(w, "last minute\t%d failures, %d unsolved challenges, %d turned away for overload\n", m.Pressure.Failures, m.Pressure.Unsolved, m.Pressure.Shed)
	fmt.Fprintf(w, "thresholds\ton above %.0f a minute, strangers slowed above %.0f, off after staying below %.0f\n", m.Threshold, m.SlowAt, m.LeaveAt)
	fmt.Fprintf(w, "normal here\t%.1f a minute\n", m.Normal)
	return w.Flush()
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
