package pages

import (
	"fmt"
	"strconv"
	"strings"

	"authguard/internal/alerts"
	"authguard/internal/control"
	"authguard/internal/events"
)

// AlertsView shows the state of the alert channels and the newest alerts. Its form posts to /alerts/test.
type AlertsView struct {
	Admin
	control.Alerts
	Older bool // the page does not show the newest alerts
}

// RenderAlerts draws the page.
func RenderAlerts(v AlertsView) ([]byte, error) { return render("alerts", v) }

// Frame returns the page's title and layout.
func (v AlertsView) Frame() frame { return v.Admin.Frame() }

// Verdict sums up the state of all channels.
func (v AlertsView) Verdict() (said verdict) {
	bad, waiting := 0, 0
	for _, c := range v.Channels {
		if waiting += c.Waiting; c.Tries > 0 {
			bad++
		}
	}
	switch {
	case len(v.Channels) == 0:
		return verdict{Tone: "slow", Headline: "No alert channel configured",
			Meaning: "Alerts appear only on this page and in the log. Add a channel in alerts.to."}
	case bad > 0:
		said = verdict{Tone: "on", Headline: fmt.Sprintf("%d of %s not working", bad, events.Count(len(v.Channels), "channel"))}
	default:
		said = verdict{Tone: "", Headline: "All channels are working"}
	}
	said.Meaning = "No alerts are waiting."
	if waiting > 0 {
		said.Meaning = plural(waiting, "alert is", "alerts are") +
			" waiting. Each is sent as soon as its channel works."
	}
	return said
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}

// Lines returns the lines of an alert's text.
func (v AlertsView) Lines(r alerts.Record) []string {
	return strings.Split(events.EscapeLines(strings.TrimSpace(r.Body), 40, 500), "\n")
}

// More returns how many alerts a row stands for beyond the one that it shows.
func (v AlertsView) More(r alerts.Record) int { return r.Count - 1 }

// Earlier returns the URL of the preceding alerts; empty if there are none.
func (v AlertsView) Earlier() string {
	if !v.Alerts.More {
		return ""
	}
	to, sign := v.At("/alerts"), "?"
	if strings.Contains(to, "?") {
		sign = "&"
	}
	return to + sign + "before=" + strconv.FormatInt(v.Recent[len(v.Recent)-1].ID, 10)
}
