package main

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/captchamode/challenge/pow"
	"authguard/captchamode/challenge/remote"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/events"
	"authguard/internal/modestore"
)

// A mode is CAPTCHA mode, what saves it, and the challenges that it asks for.
type mode struct {
	*captchamode.Mode
	saved      *modestore.Store
	bus        *events.Bus
	work       [2]*pow.Provider // alone, and with a picture
	remote     *remote.Provider // on the web, if one is set
	challenges *challenge.Desk
}

func openMode(ctx context.Context, loaded *config.Loaded, on *storage, c *counting, w *watch, log *slog.Logger, builtIn challenge.Illustrated) (m *mode, err error) {
	m = &mode{bus: w.bus, saved: modestore.New(modestore.Config{DB: on.db, Realm: realm, Log: log})}
	if m.Mode, err = captchamode.NewMode(loaded.Site.Mode, on.clock.Now, m.switched); err != nil {
		return nil, err
	}
	if err := m.saved.Load(ctx, m.Mode); err != nil {
		return nil, err
	}
	on.changes.On(changes.Mode(realm), m.saved.Sync)
	if c.shared != nil {
		if err := c.shared.join(m.Mode); err != nil {
			return nil, err
		}
	}
	return m, m.openChallenges(loaded, on, c, w.alerts, log, builtIn)
}

func (m *mode) openChallenges(loaded *config.Loaded, on *storage, c *counting, told *alerts.Alerter, log *slog.Logger, builtIn challenge.Illustrated) (err error) {
	if builtIn == nil {
		if builtIn, err = image.New(image.Config{}); err != nil {
			return err
		}
	}
	for i, provide := range [...]func(int64) (*pow.Provider, error){pow.New, pow.WithPicture} {
		if m.work[i], err = provide(int64(loaded.Challenge.PowCost)); err != nil {
			return err
		}
	}
	m.remote = remote.New(c.spent, providerChanged(told, log), on.clock.Now)
	if err := m.remote.Set(remoteConfig(loaded)); err != nil {
		return err
	}
	m.challenges, err = challenge.New(challenge.Config{
		Secret: on.keys.Challenges, Now: on.clock.Now, Spent: c.spent, BuiltIn: builtIn,
		Others: []challenge.Provider{m.work[0], m.work[1], m.remote}, Preferred: preferred(loaded), TTL: loaded.Challenge.TTL,
		OnFallback: func(kind string, err error) {
			if kind == challenge.KindRemote {
				return // providerChanged has told, once
			}
			log.Error("challenge provider failed: the built-in image takes its place", "kind", kind, "error", err)
		},
	})
	return err
}

// preferred is the kind of the challenges that are issued.
func preferred(loaded *config.Loaded) string {
	if loaded.Challenge.Remote() {
		return challenge.KindRemote
	}
	return string(loaded.Challenge.Kind)
}

// remoteConfig is the provider on the web; zero for none.
func remoteConfig(loaded *config.Loaded) remote.Config {
	c := loaded.Challenge
	if !c.Remote() {
		return remote.Config{}
	}
	origin, _ := url.Parse(loaded.Config.Origin) // which the configuration has checked
	return remote.Config{
		Service: string(c.Kind), SiteKey: c.SiteKey, Secret: c.Secret.Reveal(), Verify: c.Verify, Hosts: []string{strings.ToLower(origin.Hostname())},
	}
}

// Kinds of alerts about a provider of challenges.
const (
	providerLost alerts.Kind = "provider-lost"
	providerBack alerts.Kind = "provider-back"
)

// providerChanged tells administrators that the built-in picture takes a
// provider's place, or no longer.
func providerChanged(told *alerts.Alerter, log *slog.Logger) func(up bool, why error) {
	return func(up bool, why error) {
		if up {
			told.Raise(providerBack, "The challenge provider answers again", "strangers are shown its widget again")
			return
		}
		log.Error("challenge provider failed: the built-in image takes its place", "error", why)
		told.Raise(providerLost, "The challenge provider cannot be used", "strangers are shown the built-in picture in its place.\n"+alerts.Name(why.Error()))
	}
}

// switched passes a switch of the mode on; it must not block. A switch that another
// node has announced is not announced again.
func (m *mode) switched(one captchamode.Switch) {
	m.saved.Switched(one)
	if one.Adopted {
		return
	}
	m.bus.Switched(events.ModeSwitch{
		At: one.At, From: one.Was(), To: one.Now(), Attacked: one.Level != captchamode.Calm,
		Cause: string(one.Cause), Who: one.Force.Who, Why: one.Force.Why,
		Pressure: float64(one.Pressure), Threshold: one.Threshold, Until: one.Force.Until,
	})
}

func (m *mode) start(group *background.Group) {
	group.Start(m.saved.Run)
	group.Start(m.Mode.Run)
	group.Start(m.remote.Run)
}

func (m *mode) reload(loaded *config.Loaded) error {
	return errors.Join(
		m.SetConfig(loaded.Site.Mode), m.work[0].SetWork(int64(loaded.Challenge.PowCost)), m.work[1].SetWork(int64(loaded.Challenge.PowCost)),
		m.remote.Set(remoteConfig(loaded)), m.challenges.Set(preferred(loaded), loaded.Challenge.TTL),
	)
}
