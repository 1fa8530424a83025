// Package counters keeps this node's counters in memory, and saves them to the data folder. With several nodes, Redis
// counts; the tables are the local stores beside it.
package counters

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/config"
	"authguard/internal/database"
	"authguard/internal/seal"
	"authguard/internal/times"
)

// The tables are separate for the public login and administrators, so that a flood at one cannot evict or share
// counters of the other.
const (
	Public = iota
	Administrators
)

// Files are the tables' files in the data folder, which prove that the folder was in use. Each table gets 1/Part of
// counters.memory.
var Files = [...]struct {
	Name string
	Part int
}{Public: {"counters", 1}, Administrators: {"counters-administration", 16}}

// Config configures Tables. All but Now and Anew are required.
type Config struct {
	Settings config.Config
	DB       *sql.DB
	Keys     seal.Keys
	Now      func() time.Time // default time.Now
	Anew     bool             // start empty where data is missing
	Alerts   *alerts.Alerter
	Log      *slog.Logger
}

// Tables are the counters of this node. Their Start and Stop save them.
type Tables struct {
	background.Group
	config  Config
	alone   bool // single node
	all     [len(Files)]*table
	lacks   []Lack // data missing at the start, or too large for its memory
	opened  time.Time
	unsaved atomic.Pointer[outage] // since counters cannot be saved
}

type table struct {
	*failures.Memory
	file    string
	saveErr atomic.Pointer[error] // of the last Save
}

// Open restores the tables.
func Open(ctx context.Context, c Config) (*Tables, error) {
	t := &Tables{config: c, alone: !c.Settings.Redis.On(), opened: time.Now()}
	for i := range Files {
		if err := t.recall(ctx, i); err != nil {
			return nil, err
		}
		t.Add(background.Run(t.all[i].Run))
	}
	t.Add(background.Run(t.saveAgain), background.Ready(t.report),
		background.Repeat(time.Second, func(context.Context) { t.look() }))
	return t, nil
}

// recall restores a table; with Anew, it starts empty if the file is unusable. With Redis the file is only a copy, so a
// node starts without it.
func (t *Tables) recall(ctx context.Context, i int) (err error) {
	c, of := t.config, Files[i]
	retain, pendingFor := c.Settings.Longest()
	memory := failures.Config{
		MaxBytes: max(failures.MinBytes, int64(c.Settings.Counters.Memory)/int64(of.Part)),
		Retain:   retain, PendingFor: pendingFor, Owner: c.Keys.Counted(of.Name), Now: c.Now,
	}
	one := &table{file: filepath.Join(c.Settings.Data, of.Name)}
	t.all[i] = one
	if one.Memory, err = failures.NewMemory(memory); err != nil {
		return err
	}
	loaded, err := one.Load(one.file)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		if t.alone && !c.Anew {
			return unusable(one.file, err)
		}
		why := err
		if one.Memory, err = failures.NewMemory(memory); err == nil {
			missing, err = true, t.setAside(one.file, why)
		}
	}
	if err != nil && !missing {
		return err
	}
	if loaded.Keys > 0 {
		c.Log.Info("counters restored", "keys", loaded.Keys)
	}
	t.lacks = append(t.lacks, lacksOf(loaded, of.Part)...)
	err = one.Journal(one.file)
	if err == nil && missing {
		err = one.Save(one.file)
	}
	if err != nil || !t.alone {
		return err
	}
	// Mark only after saving. Otherwise a failed first start would leave a mark, and the next start would miss the file.
	return database.Mark(ctx, c.DB, of.Name)
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
func (t *Tables) setAside(file string, why error) error {
	aside := fmt.Sprintf("%s.aside-%d", file, time.Now().Unix())
	t.config.Log.Error("saved counters cannot be used; counting starts from zero", "set_aside", aside, "error", why)
	t.lacks = append(t.lacks, Lack{"The saved counters could not be used", fmt.Sprintf(
		"Counting started from zero: %v. The file was moved to %s.", why, aside)})
	return failures.SetAside(file, aside)
}

// A Lack is a problem with saved counters that administrators must know of.
type Lack struct{ Title, Text string }

// String returns the whole text.
func (l Lack) String() string { return l.Title + ". " + l.Text }

// lacksOf returns which saved data is missing or exceeds its part of counters.memory.
func lacksOf(l failures.Loaded, part int) (all []Lack) {
	if l.NoJournal {
		all = append(all, Lack{"The counters' journal is missing",
			"A file counters.journal-* is missing, empty or damaged at its beginning: failed logins since the last " +
				"save may be lost."})
	}
	if l.Lost > 0 {
		all = append(all, Lack{"The counters' journal is damaged", fmt.Sprintf(
			"%d changes are lost; all others are restored. Check the disk, unless the power failed.", l.Lost)})
	}
	if l.Sharing > 0 {
		all = append(all, Lack{"counters.memory is too small for the saved counters", fmt.Sprintf(
			"%d of them share counters, so some clients are challenged or blocked early. Set it to at least %d MiB.",
			l.Sharing, int64(part)*(l.Needs*8/7>>20+1))})
	}
	return all
}

// Check reads a table's file as Open would, and returns its lacks. A missing file is fs.ErrNotExist. It only reads; a
// server may be running. owner is zero if the keys are unknown.
func Check(folder string, i int, owner failures.Key) ([]Lack, error) {
	file := filepath.Join(folder, Files[i].Name)
	found, err := failures.Check(file, owner)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = unusable(file, err)
	}
	return lacksOf(found, Files[i].Part), err
}

// Memory returns a table's counters.
func (t *Tables) Memory(i int) *failures.Memory { return t.all[i].Memory }

func (t *Tables) report(context.Context) error {
	for _, one := range t.lacks {
		t.config.Log.Error(one.Title, "text", one.Text)
		t.config.Alerts.Raise(alerts.CountersLost, one.Title, one.Text)
	}
	return nil
}

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

// look alerts once when counters cannot be saved, and once when they can again.
func (t *Tables) look() {
	now, was := &outage{why: t.unwritten(), since: time.Now()}, t.unsaved.Load()
	if now.journaled = now.why == nil; now.journaled {
		for _, one := range t.all {
			if last := one.saveErr.Load(); last != nil {
				now.why = cmp.Or(now.why, *last)
			}
		}
	}
	switch {
	case now.why == nil && was != nil:
		t.unsaved.Store(nil)
		t.config.Log.Info("counters can be saved again")
		t.config.Alerts.CountersChanged(nil, "")
	case now.why != nil && (was == nil || was.journaled != now.journaled):
		t.unsaved.Store(now)
		t.config.Log.Error("counters cannot be saved", "error", now.why, "journaled", now.journaled)
		t.config.Alerts.CountersChanged(now.why, now.effect(t.alone))
	}
}

// Failed returns why a single node cannot count: its journal cannot be written.
func (t *Tables) Failed() error {
	if !t.alone {
		return nil
	}
	return t.unwritten()
}

func (t *Tables) unwritten() (why error) {
	for _, one := range t.all {
		why = cmp.Or(why, one.Unwritten())
	}
	return why
}

// lacksShown is how long the overview shows what was missing at the start: the longest default window.
const lacksShown = 24 * time.Hour

// Warnings returns what was missing at the start, and whether counters cannot be saved.
func (t *Tables) Warnings() (all []alerts.Warning) {
	if time.Since(t.opened) < lacksShown {
		for _, one := range t.lacks {
			all = append(all, alerts.Warning{Code: string(alerts.CountersLost), Title: one.Title, Text: one.Text})
		}
	}
	if one := t.unsaved.Load(); one != nil {
		all = append(all, alerts.Warning{
			Code: string(alerts.CountersFailed), Title: "Counters cannot be saved",
			Text: fmt.Sprintf("Since %s: %v. Effect: %s", times.Text(one.since.UTC()), one.why, one.effect(t.alone)),
		})
	}
	return all
}

// Configure applies new limits.
func (t *Tables) Configure(c config.Config) (err error) {
	retain, pendingFor := c.Longest()
	for _, one := range t.all {
		err = errors.Join(err, one.Configure(retain, pendingFor))
	}
	return err
}

// saveAgain saves the counters periodically and once at the end. After a slow save it waits longer, so saving takes at
// most a tenth of the time.
func (t *Tables) saveAgain(ctx context.Context) {
	every := t.config.Settings.Counters.SaveInterval
	for pause := every; ; {
		select {
		case <-ctx.Done():
			t.save()
			return
		case <-time.After(pause):
			pause = max(every, 9*t.save())
		}
	}
}

func (t *Tables) save() (took time.Duration) {
	began := time.Now()
	for _, one := range t.all {
		if one.Changed() {
			err := one.Save(one.file)
			one.saveErr.Store(&err)
		}
	}
	return time.Since(began)
}

// lookEvery is the interval of Look.
const lookEvery = 10 * time.Second

// Room watches how full the stores of used challenges and settled tickets are.
type Room struct {
	Stores  []challenge.Spent
	Alerts  *alerts.Alerter
	filling atomic.Bool
}

// Run calls Look until ctx ends.
func (r *Room) Run(ctx context.Context) {
	background.Every(ctx, lookEvery, func(context.Context) { r.Look() })
}

// Look alerts once when a store is almost full, and once when it has room again.
func (r *Room) Look() {
	full := 0.0
	for _, one := range r.Stores {
		full = max(full, one.Full())
	}
	if full >= 0.8 && !r.filling.Swap(true) || full < 0.5 && r.filling.Swap(false) {
		r.Alerts.ChallengesFilling(full)
	}
}

// Warnings returns a warning after Look found a store almost full.
func (r *Room) Warnings() []alerts.Warning {
	if !r.filling.Load() {
		return nil
	}
	return []alerts.Warning{alerts.ChallengesWarning()}
}
