package main

import (
	"context"
	"errors"
	"net/url"
	"strings"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/pow"
	"authguard/captchamode/challenge/remote"
	"authguard/guard"
	"authguard/internal/alerts"
	"authguard/internal/background"
	"authguard/internal/changes"
	"authguard/internal/config"
	"authguard/internal/events"
	"authguard/internal/policy"
	"authguard/web"
)

type mode struct {
	*captchamode.Mode
	realm      string
	saved      *policy.ModeStore
	bus        *events.Bus
	work       [2]*pow.Provider // without and with an image CAPTCHA
	remote     *remote.Provider // on the web
	widget     web.Widget       // remote's, if it is configured
	challenges *challenge.Issuer
}

func openMode(ctx context.Context, r *realm) (m *mode, err error) {
	on, shared := r.site.storage, r.site.counting.shared
	m = &mode{realm: r.name, bus: r.site.watch.bus, saved: policy.NewModeStore(policy.ModeConfig{DB: on.db, Realm: r.name,
		Log: r.log})}
	if m.Mode, err = captchamode.NewMode(r.config.CAPTCHAMode.Mode(), on.clock.Now, m.switched); err != nil {
		return nil, err
	}
	if err := m.saved.Load(ctx, m.Mode); err != nil {
		return nil, err
	}
	r.Add(background.Undo(on.changes.On(changes.Mode(r.name), m.saved.Sync)))
	if shared != nil {
		joined, err := shared.join(r.name, m.Mode)
		if err != nil {
			return nil, err
		}
		r.Add(background.Ready(func(ctx context.Context) error { shared.share(ctx, joined); return nil }),
			background.Run(joined.Run))
	}
	if err := m.openChallenges(r); err != nil {
		return nil, err
	}
	r.Add(background.Run(m.saved.Run), background.Run(m.Mode.Run), background.Run(m.remote.Run))
	return m, nil
}

// picturesKept is the number of bytes of images, and of sounds, that a realm caches besides the default one: there may
// be many realms.
const picturesKept = 2 << 20

// openChallenges creates the challenges. All realms share the secret: the challenge's bond is keyed by realm.
func (m *mode) openChallenges(r *realm) (err error) {
	on, spent, wanted := r.site.storage, r.site.counting.spent, r.config.Challenge
	kept := 0 // the default
	if r.name != guard.DefaultRealm {
		kept = picturesKept
	}
	for i, provide := range [...]func(int64) (*pow.Provider, error){pow.New, pow.WithPicture} {
		if m.work[i], err = provide(int64(wanted.PowCost)); err != nil {
			return err
		}
	}
	m.remote = remote.New(spent, r.providerChanged, on.clock.Now)
	if err := m.setRemote(r.config); err != nil {
		return err
	}
	m.challenges, err = challenge.New(challenge.Config{
		Secret: on.keys.Challenges, Now: on.clock.Now, Spent: spent, BuiltIn: r.site.how.builtIn, Kept: kept,
		Others: []challenge.Provider{m.work[0], m.work[1], m.remote}, Preferred: preferred(r.config),
		OnFallback: func(kind string, err error) {
			if kind == challenge.KindRemote {
				return // providerChanged reports this, once
			}
			r.log.Error("challenge provider failed; the built-in image CAPTCHA replaces it", "kind", kind, "error", err)
		},
	})
	return err
}

func preferred(c config.Config) string {
	if c.Challenge.Remote() {
		return challenge.KindRemote
	}
	return string(c.Challenge.Kind)
}

// setRemote configures the provider on the web. While it is off, no login asks it for its widget.
func (m *mode) setRemote(c config.Config) error {
	if err := m.remote.Set(remoteConfig(c)); err != nil {
		return err
	}
	if c.Challenge.Remote() {
		m.widget.Store(m.remote)
	} else {
		m.widget.Store(nil)
	}
	return nil
}

// remoteConfig returns the provider on the web; zero for none.
func remoteConfig(in config.Config) remote.Config {
	c := in.Challenge
	if !c.Remote() {
		return remote.Config{}
	}
	origin, _ := url.Parse(in.Origin) // validated by the configuration
	return remote.Config{
		Service: string(c.Kind), SiteKey: c.SiteKey, Secret: c.SecretKey.Reveal(), Verify: c.VerifyURL,
		Hosts: []string{strings.ToLower(origin.Hostname())},
	}
}

// Kinds of alerts about a challenge provider.
const (
	providerLost alerts.Kind = "captcha-provider-failed"
	providerBack alerts.Kind = "captcha-provider-recovered"
)

// providerChanged alerts when the built-in image CAPTCHA replaces a failed provider, and when the provider is back.
func (r *realm) providerChanged(up bool, why error) {
	if up {
		r.raise(providerBack, "", "unknown clients get its widget again")
		return
	}
	r.log.Error("challenge provider failed; the built-in image CAPTCHA replaces it", "error", why)
	r.raise(providerLost, "",
		"unknown clients get the built-in image CAPTCHA instead.\n"+alerts.Name(why.Error()))
}

// switched forwards a switch of CAPTCHA mode; it must not block. It does not forward switches that another node
// announced.
func (m *mode) switched(one captchamode.Switch) {
	m.saved.Switched(one)
	if one.Adopted {
		return
	}
	m.bus.Switched(events.ModeSwitch{
		At: one.At, Realm: m.realm, From: one.Was(), To: one.Now(), Would: one.Would(),
		Attacked: one.Attacked,
		Resumed:  one.Resumed,
		Cause:    string(one.Cause), Who: one.Override.Who, Why: one.Override.Why,
		FailureRate: float64(one.FailureRate), Threshold: one.Threshold, Until: one.Override.Until,
	})
}

func (m *mode) reload(c config.Config) error {
	return errors.Join(
		m.work[0].SetWork(int64(c.Challenge.PowCost)), m.work[1].SetWork(int64(c.Challenge.PowCost)),
		m.setRemote(c), m.challenges.Set(preferred(c)),
	)
}
