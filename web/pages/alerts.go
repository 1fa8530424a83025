package pages

import (
	"fmt"
	"strconv"
	"strings"

	"authguard/internal/alerts"
	"authguard/internal/control"
	"authguard/internal/events"
)

// AlertsView is the page of alerts: do they reach anybody, and what was told. Its form
// posts to /alerts/test.
type AlertsView struct {
	Admin
	control.Alerts
	Older bool // these are not the newest
}

// RenderAlerts draws the page.
func RenderAlerts(v AlertsView) ([]byte, error) { return render("alerts", v) }

// Frame is what surrounds the page.
func (v AlertsView) Frame() frame { return v.Admin.Frame() }

// Verdict is the state of all channels in a sentence, and whether it is a bad one.
func (v AlertsView) Verdict() (said verdict) {
	bad, waiting := 0, 0
	for _, c := range v.Channels {
		if waiting += c.Waiting; c.Tries > 0 {
			bad++
		}
	}
	switch {
	case len(v.Channels) == 0:
		return verdict{Tone: "slow", Headline: "No alert channel configured", Meaning: "Alerts appear only on this page and in the log. Add a channel in alerts.to."}
	case bad > 0:
		said = verdict{Tone: "on", Headline: fmt.Sprintf("%d of %s not working", bad, countWords(len(v.Channels), "channel"))}
	default:
		said = verdict{Tone: "", Headline: "All channels are working"}
	}
	said.Meaning = "No alerts are waiting."
	if waiting > 0 {
		said.Meaning = plural(waiting, "alert is", "alerts are") + " waiting. Each is sent as soon as its channel works and quiet hours end."
	}
	return said
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return comma(n) + " " + many
}

// Lines are those of an alert's text.
func (v AlertsView) Lines(r alerts.Record) []string {
	return strings.Split(events.EscapeLines(strings.TrimSpace(r.Body), 40, 500), "\n")
}

// More is how many alerts a row has beyond the one that it tells.
func (v AlertsView) More(r alerts.Record) int { return r.Count - 1 }

// Earlier is the page with what came before.
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
