package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/database"
	"authguard/internal/known"
	"authguard/internal/times"
)

// counting is where attempts are counted: this node's memory or, with several nodes, Redis.
type counting struct {
	background.Group
	tables    [len(tables)]*table // all counters, or this node's local store beside Redis
	known     *known.Store
	shared    *shared                  // with the other nodes; nil: single node
	stores    [len(tables)]guard.Store // over the tables
	spent     challenge.Spent          // used challenges
	settled   challenge.Spent          // settled tickets of the decision API
	saveEvery time.Duration
	alerts    *alerts.Alerter
	filling   atomic.Bool // the store of used challenges is almost full
	alone     bool        // single node
	node      string      // this node's name in alerts
	atStart   []lack      // data missing at the start, or too large for its memory
	opened    time.Time
	unsaved   atomic.Pointer[outage] // since counters cannot be saved
	log       *slog.Logger
}

// tables are separate for the public login and administrators, so that a flood at one cannot evict or share counters of
// the other. Each gets 1/part of counters.memory.
var tables = [...]struct {
	file string // in the data folder; it proves that the folder was in use
	part int
}{public: {"counters", 1}, administrators: {"counters-administration", 16}}

const (
	public = iota
	administrators
)

type table struct {
	*failures.Memory
	file    string
	saveErr atomic.Pointer[error] // of the last Save
}

// recall restores a table; with anew, it starts empty if the file is unusable. With Redis the file is only a copy, so a
// node starts without it.
func (c *counting) recall(ctx context.Context, on *storage, i int, memory failures.Config, anew bool) (err error) {
	t := &table{file: on.path(tables[i].file)}
	c.tables[i] = t
	if t.Memory, err = failures.NewMemory(memory); err != nil {
		return err
	}
	loaded, err := t.Load(t.file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		if c.alone && !anew {
			return unusable(t.file, err)
		}
		why := err
		if t.Memory, err = failures.NewMemory(memory); err == nil {
			missing, err = true, c.setAside(t.file, why)
		}
	}
	if err != nil && !missing {
		return err
	}
	if loaded.Keys > 0 {
		c.log.Info("counters restored", "keys", loaded.Keys)
	}
	c.atStart = append(c.atStart, lacksOf(loaded, tables[i].part)...)
	err = t.Journal(t.file)
	if err == nil && missing {
		err = t.Save(t.file)
	}
	if err != nil || !c.alone {
		return err
	}
	// Mark only after saving. Otherwise a failed first start would leave a mark, and the next start would miss the file.
	return database.Mark(ctx, on.db, tables[i].file)
}

// unusable explains why a single node does not start from saved counters.
func unusable(file string, err error) error {
	if errors.Is(err, failures.ErrOtherOwner) {
		return fmt.Errorf("%w: %s belongs to another keys file, or is a copy of another file. Restore what is missing. "+
			"If it is lost: %s", err, file, beginAnew)
	}
	return fmt.Errorf("the saved counters cannot be used: %w. Restore %s from a backup. If there is none: %s",
		err, file, beginAnew)
}

// beginAnew says how to start without counters.
const beginAnew = "authguard serve --allow-data-loss. It moves the file aside and resets all counters"

// setAside renames a snapshot and its journals so that no start finds them.
func (c *counting) setAside(file string, why error) error {
	aside := fmt.Sprintf("%s.aside-%d", file, time.Now().Unix())
	c.log.Error("saved counters cannot be used; counting starts from zero", "set_aside", aside, "error", why)
	c.atStart = append(c.atStart, lack{"The saved counters could not be used", fmt.Sprintf(
		"Counting started from zero: %v. The file was moved to %s.", why, aside)})
	return failures.SetAside(file, aside)
}

// lack is a problem with the counters that administrators must know.
type lack struct{ title, text string }

// lacksOf returns which saved data is missing or exceeds its part of counters.memory.
func lacksOf(l failures.Loaded, part int) (all []lack) {
	if l.NoJournal {
		all = append(all, lack{"The counters' journal is missing",
			"A file counters.journal-* is missing, empty or damaged at its beginning: failed logins since the last " +
				"save may be lost."})
	}
	if l.Lost > 0 {
		all = append(all, lack{"The counters' journal is damaged", fmt.Sprintf(
			"%d changes are lost; all others are restored. Check the disk, unless the power failed.", l.Lost)})
	}
	if l.Sharing > 0 {
		all = append(all, lack{"counters.memory is too small for the saved counters", fmt.Sprintf(
			"%d of them share counters, so some clients are challenged or blocked early. Set it to at least %d MiB.",
			l.Sharing, int64(part)*(l.Needs*8/7>>20+1))})
	}
	return all
}

func (c *counting) reportLacks(context.Context) error {
	for _, one := range c.atStart {
		c.log.Error(one.title, "text", one.text)
		c.alerts.Raise(countersLost, one.title, one.text)
	}
	return nil
}

// lacksShown is how long the overview shows what was missing at the start: the longest default window.
const lacksShown = 24 * time.Hour

// Kinds of alerts about saved counters.
const (
	countersLost   alerts.Kind = "counters-lost"
	countersFailed alerts.Kind = "counters-failed"
	countersBack   alerts.Kind = "counters-recovered"
)

type outage struct {
	why       error
	journaled bool // the journal contains the changes
	since     time.Time
}

func (o *outage) effect(alone bool) string {
	effect := "every login gets 503 until the journal of the counters can be written"
	switch {
	case o.journaled:
		effect = "each change is in the journal, so a restart loses no data, but the journal grows"
	case !alone:
		effect = "only Redis has the counters, and this node has no copy if Redis is lost"
	}
	return effect + ". Free disk space, or raise the limit on open files (LimitNOFILE)."
}

// lookAtSaves alerts once when counters cannot be saved, and once when they can again.
func (c *counting) lookAtSaves() {
	node := "node " + c.node
	now, was := &outage{why: c.unwritten(), since: time.Now()}, c.unsaved.Load()
	if now.journaled = now.why == nil; now.journaled {
		for _, t := range c.tables {
			if last := t.saveErr.Load(); last != nil {
				now.why = cmp.Or(now.why, *last)
			}
		}
	}
	switch {
	case now.why == nil && was != nil:
		c.unsaved.Store(nil)
		c.log.Info("counters can be saved again")
		c.alerts.Raise(countersBack, "", node+" saves its counters again")
	case now.why != nil && (was == nil || was.journaled != now.journaled):
		c.unsaved.Store(now)
		c.log.Error("counters cannot be saved", "error", now.why, "journaled", now.journaled)
		c.alerts.Raise(countersFailed, "",
			fmt.Sprintf("%s: %s\nError: %s", node, now.effect(c.alone), alerts.Name(now.why.Error())))
	}
}

func (c *counting) ready() error {
	if !c.alone {
		return nil
	}
	return c.unwritten()
}

func (c *counting) unwritten() (why error) {
	for _, t := range c.tables {
		why = cmp.Or(why, t.Unwritten())
	}
	return why
}

const (
	challengesFilling alerts.Kind = "challenge-store-filling"
	challengesRoom    alerts.Kind = "challenge-store-recovered"
	// lookEvery is the check interval of the store of used challenges.
	lookEvery = 10 * time.Second
)

// lookForRoom alerts once when the store of used challenges or settled tickets is almost full, and once when it has
// room again.
func (c *counting) lookForRoom() {
	full := max(c.spent.Full(), c.settled.Full())
	switch {
	case full >= 0.8 && !c.filling.Swap(true):
		c.alerts.Raise(challengesFilling, "", fmt.Sprintf(
			"%.0f %% is used. When it is full, no challenge can be solved until older ones expire; known clients still get in.\n"+
				"A client is solving very many challenges: block the IP addresses with the most rejected attempts.",
			100*full,
		))
	case full < 0.5 && c.filling.Swap(false):
		c.alerts.Raise(challengesRoom, "", fmt.Sprintf("%.0f %% is used.",
			100*full))
	}
}

func (c *counting) warn() []control.Warning {
	all := c.shared.warn()
	if c.filling.Load() {
		all = append(all, control.Warning{
			Code: string(challengesFilling), Title: "The store of used challenges is almost full",
			Text: "When it is full, no challenge can be solved until older ones expire; known clients still get in. " +
				"A client is solving very many: block the IP addresses with the most rejected attempts.",
		})
	}
	if time.Since(c.opened) < lacksShown {
		for _, one := range c.atStart {
			all = append(all, control.Warning{Code: string(countersLost), Title: one.title, Text: one.text})
		}
	}
	if one := c.unsaved.Load(); one != nil {
		all = append(all, control.Warning{
			Code: string(countersFailed), Title: "Counters cannot be saved",
			Text: fmt.Sprintf("Since %s: %v. Effect: %s", times.Text(one.since.UTC()), one.why, one.effect(c.alone)),
		})
	}
	return all
}

// longestOf returns the longest window and check timeout of all realms and routes: they share one store.
func longestOf(c config.Config) (retain, pendingFor time.Duration) {
	for _, p := range c.Policies() {
		retain, pendingFor = max(retain, p.Retain()), max(pendingFor, p.CheckTimeout)
	}
	return retain, pendingFor
}

func (c *counting) reload(loaded *config.Loaded) (err error) {
	retain, pendingFor := longestOf(loaded.Config)
	if c.shared != nil {
		err = c.shared.store.Redis().Configure(pendingFor)
	}
	for _, t := range c.tables {
		err = errors.Join(err, t.Configure(retain, pendingFor))
	}
	return err
}

// saveAgain saves the counters periodically and once at the end. After a slow save it waits longer, so saving takes at
// most a tenth of the time.
func (c *counting) saveAgain(ctx context.Context) {
	for pause := c.saveEvery; ; {
		select {
		case <-ctx.Done():
			c.save()
			return
		case <-time.After(pause):
			pause = max(c.saveEvery, 9*c.save())
		}
	}
}

func (c *counting) save() (took time.Duration) {
	if c.shared != nil {
		if err := c.shared.saveNodes(); err != nil {
			c.log.Error("the number of nodes could not be saved", "error", err)
		}
	}
	began := time.Now()
	for _, t := range c.tables {
		if t.Changed() {
			err := t.Save(t.file)
			t.saveErr.Store(&err)
		}
	}
	return time.Since(began)
}
