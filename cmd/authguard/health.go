package main

import (
	"fmt"
	"log/slog"

	"authguard/internal/alerts"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/nodes"
	"authguard/internal/times"
)

// Kinds of alerts about the database.
const (
	storageFailed alerts.Kind = "database-failed"
	storageBack   alerts.Kind = "database-recovered"
)

func storageChanged(told *alerts.Alerter, node string, log *slog.Logger) func(error) {
	return func(failed error) {
		if failed == nil {
			log.Info("the database can be written again")
			told.Raise(storageBack, "", "node "+node+" accepts logins again")
			return
		}
		log.Error("the database cannot be written: every login gets 503", "error", failed)
		told.Raise(storageFailed, "", fmt.Sprintf(
			"node %s answers every login with 503 until then; open sessions continue.\nDatabase: %s", node,
			alerts.Name(failed.Error())))
	}
}

func storageWarning(h *database.Health) []control.Warning {
	why, since := h.Failed()
	if why == nil {
		return nil
	}
	return []control.Warning{{
		Code: string(storageFailed), Title: "The database cannot be written",
		Text: fmt.Sprintf("Every login has got 503 since %s: %v. Check that the disk has space, that the file is in its "+
			"place, "+
			"that it or the server is not read-only, and that no other process locks it. "+
			"Logins work again a second later.", times.Text(since.UTC()), why),
	}}
}

const clockOff alerts.Kind = "clock-skew"

func watchClock(c *nodes.Clock, told *alerts.Alerter, node string) {
	c.OnWrong = func(wrong bool) {
		if wrong {
			told.Raise(clockOff, "", "node "+node+": "+c.Off()+"; the node uses the servers' time")
		}
	}
	c.OnWrong(c.Off() != "")
}

func clockWarning(c *nodes.Clock) []control.Warning {
	off := c.Off()
	if off == "" {
		return nil
	}
	return []control.Warning{{
		Code: string(clockOff), Title: "This machine's clock is wrong",
		Text: "Right now " + off + ". The node uses their time for limits, challenges, blocks and sessions, but not for " +
			"its log. Synchronize it by NTP: timedatectl set-ntp true, or chrony.",
	}}
}
