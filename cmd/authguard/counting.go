package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"authguard/captchamode/challenge"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/control"
	"authguard/internal/sqlplaces"
	"authguard/trusted"
)

// A counting is what attempts are counted in: this node's memory, or with other
// nodes Redis.
type counting struct {
	counters  *failures.Memory // all of them, or this node's own part
	places    *sqlplaces.Store
	crowds    *trusted.Crowds
	shared    *shared // with the other nodes; nil: there are none
	store     guard.Store
	spent     challenge.Spent // challenges that were used
	settled   challenge.Spent // tickets of the decision API that were
	snapshot  string          // where counters are saved
	sharers   string          // where crowds are
	saveEvery time.Duration
	alerts    *alerts.Alerter
	filling   atomic.Bool // little room is left for spent challenges
	log       *slog.Logger
}

func openCounting(ctx context.Context, loaded *config.Loaded, on *storage, anew bool, watch *watch, log *slog.Logger) (c *counting, err error) {
	policy := loaded.Policy()
	retain, pendingFor := longestOf(loaded.Config)
	c = &counting{snapshot: on.path(countersFile), saveEvery: loaded.Counters.SaveEvery, alerts: watch.alerts, log: log}
	c.counters, err = failures.NewMemory(failures.Config{
		MaxBytes: int64(loaded.Counters.Memory), Retain: retain, PendingFor: pendingFor, Owner: on.keys.Counted(), Now: on.clock.counting(),
	})
	if err != nil {
		return nil, err
	}
	if err := c.recall(ctx, on, anew, !loaded.Redis.On()); err != nil {
		return nil, err
	}
	if c.places, err = sqlplaces.New(ctx, sqlplaces.Config{DB: on.db, Limits: policy.Places, Now: on.clock.Now}); err != nil {
		return nil, err
	}
	if c.crowds, err = trusted.NewCrowds(policy.Places); err != nil {
		return nil, err
	}
	c.sharers = on.path("crowds")
	if err := c.crowds.Load(c.sharers, on.clock.Now()); err != nil {
		c.log.Error("who shares addresses cannot be read: it is learned anew", "error", err)
	}
	if loaded.Database != "" { // nobody else writes to the file of one node
		on.changes.On(changes.Places, c.places.Refresh)
	}
	if loaded.Redis.On() {
		if c.shared, err = openShared(ctx, loaded, on, c, watch); err != nil {
			return nil, fmt.Errorf("redis: %w", err)
		}
		c.store, c.spent, c.settled = c.shared.store, c.shared.used, c.shared.settled
		return c, nil
	}
	local := guard.NewLocal(c.counters, c.places)
	local.Sprays = failures.NewSprays(watch.alerts.Spray)
	c.store, c.spent, c.settled = local, challenge.NewMemorySpent(0, nil), challenge.NewMemorySpent(0, nil)
	return c, nil
}

// countersFile is the snapshot in the data folder. Once it is there, the folder was
// served from.
const countersFile = "counters"

// recall restores the counters. With one node alone they must be there if they ever
// were, unless anew says to begin without them.
func (c *counting) recall(ctx context.Context, on *storage, anew, alone bool) error {
	if alone && !anew {
		if err := on.counted(ctx); err != nil {
			return err
		}
	}
	if err := c.restore(anew); err != nil || !alone {
		return err
	}
	return on.remember(ctx)
}

// restore puts back what was saved of the counters, and what the journals say, and
// has everything journaled from then on. A snapshot that is damaged is set aside, not
// deleted, and logged as an error: without it the guard knows only what the journals
// do. One that was counted under other keys is an error, unless anew says to begin
// without it.
func (c *counting) restore(anew bool) error {
	keys, err := c.counters.Load(c.snapshot)
	if errors.Is(err, failures.ErrOtherOwner) && !anew {
		return fmt.Errorf("%w: %s belongs to another keys file. Put that one back, or, if it is lost for good, begin anew: authguard serve --begin-anew. "+
			"All failures are forgotten then", err, c.snapshot)
	}
	if errors.Is(err, failures.ErrOtherOwner) || errors.Is(err, failures.ErrBadSnapshot) {
		aside := fmt.Sprintf("%s.aside-%d", c.snapshot, time.Now().Unix())
		c.log.Error("saved counters cannot be used: counting starts without them", "set_aside", aside, "error", err)
		if err := os.Rename(c.snapshot, aside); err != nil {
			return err
		}
		keys, err = c.counters.Load(c.snapshot)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if keys > 0 {
		c.log.Info("counters restored", "keys", keys)
	}
	if failed := c.counters.Journal(c.snapshot); failed != nil {
		return failed
	}
	if err != nil { // there is no snapshot
		return c.counters.Save(c.snapshot)
	}
	return nil
}

func (c *counting) start(ctx context.Context, group *background.Group) error {
	group.Start(c.counters.Run)
	group.Start(c.saveAgain)
	group.Start(func(ctx context.Context) { background.Every(ctx, lookEvery, func(context.Context) { c.lookForRoom() }) })
	group.Start(c.saveCrowds)
	if c.shared != nil {
		return c.shared.start(ctx, group)
	}
	return nil
}

const (
	challengesFilling alerts.Kind = "challenges-filling"
	challengesRoom    alerts.Kind = "challenges-room"
	// lookEvery is how often the room for spent challenges is looked at.
	lookEvery = 10 * time.Second
)

// lookForRoom tells administrators once that the room for spent challenges or
// settled tickets is running out, and once that it is not.
func (c *counting) lookForRoom() {
	full := max(c.spent.Full(), c.settled.Full())
	switch {
	case full >= 0.8 && !c.filling.Swap(true):
		c.alerts.Raise(challengesFilling, "The room for used challenges is running out", fmt.Sprintf(
			"%.0f %% of it is taken. When all is, nobody can solve a challenge until older ones have expired; known places still pass.\n"+
				"Somebody tries very many challenges: look for the addresses with the most stopped attempts, and block them.", 100*full))
	case full < 0.5 && c.filling.Swap(false):
		c.alerts.Raise(challengesRoom, "There is room for used challenges again", fmt.Sprintf("%.0f %% of it is taken.", 100*full))
	}
}

// warn is for the overview.
func (c *counting) warn() []control.Warning {
	all := c.shared.warn()
	if c.filling.Load() {
		all = append(all, control.Warning{
			Code: string(challengesFilling), Title: "The room for used challenges is running out",
			Text: "When all is taken, nobody can solve a challenge until older ones have expired; known places still pass. " +
				"Somebody tries very many: block the addresses with the most stopped attempts.",
		})
	}
	return all
}

// longestOf is how long failures are looked at, and how long a password check may take,
// anywhere: all realms and routes count in one store.
func longestOf(c config.Config) (retain, pendingFor time.Duration) {
	for _, p := range c.Policies() {
		retain, pendingFor = max(retain, p.Retain()), max(pendingFor, p.PendingFor)
	}
	return retain, pendingFor
}

func (c *counting) reload(loaded *config.Loaded) (err error) {
	retain, pendingFor := longestOf(loaded.Config)
	if c.shared != nil {
		err = c.shared.store.Redis().Configure(pendingFor)
	}
	return errors.Join(err, c.counters.Configure(retain, pendingFor))
}

// saveAgain saves the counters every so often and once at the end. A save that
// takes long makes the next one wait longer: saving takes at most a tenth of
// the time.
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

// crowdsEvery is how often who shares addresses is saved: it changes slowly, and is
// learned anew by logins.
const crowdsEvery = time.Minute

func (c *counting) saveCrowds(ctx context.Context) {
	for again := true; again; {
		select {
		case <-ctx.Done():
			again = false
		case <-time.After(crowdsEvery):
		}
		if err := c.crowds.Save(c.sharers); err != nil {
			c.log.Error("who shares addresses could not be saved", "error", err)
		}
	}
}

func (c *counting) save() (took time.Duration) {
	if c.shared != nil {
		if err := c.shared.saveNodes(); err != nil {
			c.log.Error("the number of nodes could not be saved", "error", err)
		}
	}
	if !c.counters.Changed() {
		return 0
	}
	began := time.Now()
	if err := c.counters.Save(c.snapshot); err != nil {
		c.log.Error("counters could not be saved: a restart would forget the newest", "error", err)
	}
	return time.Since(began)
}
