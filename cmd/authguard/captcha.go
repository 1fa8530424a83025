package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/alecthomas/kong"

	"authguard/captchamode"
	"authguard/internal/control"
	"authguard/internal/times"
)

type captchaCmd struct{ kong.Plugins }

func printMode(out io.Writer, m captchamode.State) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(w, "CAPTCHA mode\t%s\n", map[bool]string{true: "on", false: "off"}[m.On])
	if m.Override.State != "" {
		fmt.Fprintf(w, "decided by\t%q until %s; reason: %q\n", m.Override.Who, times.Text(m.Override.Until.Local()),
			m.Override.Why)
	} else {
		fmt.Fprintf(w, "decided by\tthe failure rate\n")
	}
	fmt.Fprintf(w, "stage\t%s\n", m.Level)
	if off := control.OffAt(m); !off.IsZero() {
		fmt.Fprintf(w, "turns off\tat %s, if the failure rate stays low\n", times.Text(off.Local()))
	}
	fmt.Fprintf(w, "last minute\t%d failures, %d unsolved challenges, %d rejected for overload\n",
		m.FailureRate[captchamode.Failure], m.FailureRate[captchamode.Unsolved], m.FailureRate[captchamode.Overload])
	fmt.Fprintf(w, "thresholds\ton above %.0f a minute, unknown clients throttled above %.0f, off after staying below "+
		"%.0f\n", m.Threshold, m.SlowAt, m.LeaveAt)
	fmt.Fprintf(w, "baseline\t%.1f logins a minute; %.1f at this hour\n", m.Normal, m.Usual)
	fmt.Fprintf(w, "last day\t%d failures of unknown clients; %.0f are usual, step-up above %.0f\n", m.Daily.Failures,
		m.Daily.Usual, m.Daily.Threshold)
	if m.Steady {
		fmt.Fprintf(w, "steady\tthe failure rate has stayed just below the threshold for half a day: a slow attack is "+
			"possible\n")
	}
	return w.Flush()
}
