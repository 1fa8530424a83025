package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"authguard/captchamode"
	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/pow"
	"authguard/failures"
	"authguard/internal/seal"
	"authguard/trusted"
)

// Defaults configures Default, which creates the parts that are nil. Only those run in the background until Close.
type Defaults struct {
	Config
	// Folder keeps the counters over restarts (R7): they are read from it, written to a journal before a password is
	// checked, and saved. It is created if it is missing, and belongs to one process, secret and realm. Empty: a restart
	// resets the counters. Device cookies stay valid without it.
	Folder string
	// Background runs until Close, which waits for it: a function must return when its context ends.
	Background []func(context.Context)
	// Spent remembers used challenges, if Default creates Challenges; nil: in memory. See redisguard for several
	// processes.
	Spent challenge.Spent

	failed error
}

// Fail makes Default return this error, among others, for a change that cannot be made. Nil is ignored.
func (d *Defaults) Fail(err error) { d.failed = errors.Join(d.failed, err) }

// Default returns a guard with all parts: DefaultPolicy, counters and known clients in memory (at most 256 MiB and
// 100,000 accounts), CAPTCHA mode, device cookies, and proof-of-work challenges. An integration can add image CAPTCHAs
// ([Guard.Illustrate]). The secret is at least 16 random bytes, the same after a restart: all keys are derived from it.
//
//	g, err := guard.Default(secret)
//
// Each change gets the Defaults before the rest is made:
//
//	g, err := guard.Default(secret, func(d *guard.Defaults) { d.Folder = "/var/lib/app" })
//
// The error has every problem. The guard works in the background until Close.
func Default(secret []byte, change ...func(*Defaults)) (*Guard, error) {
	d := &Defaults{Config: Config{Policy: DefaultPolicy(), Secret: secret}}
	for _, f := range change {
		f(d)
	}
	if len(d.Secret) < 16 {
		d.Fail(fmt.Errorf("guard: secret: must be at least 16 random bytes, not %d. Make one with: openssl rand -hex 32",
			len(d.Secret)))
	}
	if d.Fail(d.Policy.Validate()); d.failed != nil {
		return nil, d.failed
	}
	made := background{run: d.Background}
	if err := errors.Join(d.count(&made), d.judge(&made), d.ask()); err != nil {
		return nil, err
	}
	g, err := New(d.Config)
	if err != nil {
		return nil, err
	}
	g.stop = made.start()
	return g, nil
}

// count creates Store.
func (d *Defaults) count(made *background) (err error) {
	if d.Store != nil {
		if d.Folder != "" {
			return errors.New("guard: Folder: must be empty if Store is set")
		}
		return nil
	}
	counters, err := failures.NewMemory(failures.Config{
		Retain: d.Policy.Retain(), PendingFor: d.Policy.CheckTimeout,
		Owner: failures.Key(seal.MAC(d.Secret, "authguard: whose saved counters these are: "+d.Realm)),
	})
	if err != nil {
		return err
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{Limits: d.Policy.KnownClients})
	if err != nil {
		return err
	}
	d.Store = NewLocal(counters, places)
	made.run = append(made.run, counters.Run)
	return d.keep(counters, made)
}

// savedEvery is how often the counters are saved. The journal has what is newer.
const savedEvery = 30 * time.Second

// keep makes the counters outlive the process.
func (d *Defaults) keep(counters *failures.Memory, made *background) error {
	if d.Folder == "" {
		return nil
	}
	if err := os.MkdirAll(d.Folder, 0o700); err != nil {
		return fmt.Errorf("guard: Folder: %w", err)
	}
	file, failed := filepath.Join(d.Folder, "counters"), d.Failed
	if _, err := counters.Load(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf(
			"guard: Folder: the counters cannot be used. Restore them, or remove them to reset all counters: %w",
			err,
		)
	}
	if err := errors.Join(counters.Journal(file), counters.Save(file)); err != nil {
		return fmt.Errorf("guard: Folder: %w", err)
	}
	made.run = append(made.run, func(ctx context.Context) {
		for ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(savedEvery):
			}
			if err := counters.Save(file); err != nil && failed != nil {
				failed(fmt.Errorf("guard: saving the counters: %w", err))
			}
		}
	})
	return nil
}

// judge creates Mode.
func (d *Defaults) judge(made *background) (err error) {
	if d.Mode != nil {
		return nil
	}
	if d.Mode, err = captchamode.NewMode(captchamode.DefaultConfig(), d.Now, nil); err == nil {
		made.run = append(made.run, d.Mode.Run)
	}
	return err
}

// ask creates Challenges and Cookies.
func (d *Defaults) ask() error {
	if d.Cookies == nil {
		key, err := derive(d.Secret, "device cookies", d.Realm)
		if err != nil {
			return err
		}
		if d.Cookies, err = trusted.NewCookies(key); err != nil {
			return err
		}
	}
	if d.Challenges != nil {
		return nil
	}
	if d.Spent == nil {
		d.Spent = challenge.NewMemorySpent(0, d.Now)
	}
	key, err := derive(d.Secret, "challenges", d.Realm)
	if err != nil {
		return err
	}
	work, err := pow.New(0)
	if err != nil {
		return err
	}
	both, err := pow.WithPicture(0)
	if err != nil {
		return err
	}
	d.Challenges, err = challenge.New(challenge.Config{
		Secret: key, Spent: d.Spent, BuiltIn: work, Others: []challenge.Provider{both}, Preferred: challenge.KindBoth,
		Now: d.Now,
	})
	return err
}

func derive(secret []byte, purpose, realm string) ([]byte, error) {
	key, err := seal.Key(secret, "library "+purpose+" "+realm, 32)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return key, nil
}

// Key returns a key of 32 bytes, the same on all nodes, for an integration's own use. Keys of two purposes are
// independent.
func (g *Guard) Key(purpose string) ([]byte, error) {
	return derive(g.config.Secret, "for "+purpose, g.config.Realm)
}

// Illustrate adds image CAPTCHAs, unless the challenges have them. Call it before the first attempt. See package mw.
func (g *Guard) Illustrate(picture challenge.Illustrated) {
	if g.config.Challenges != nil {
		g.config.Challenges.Illustrate(picture)
	}
}

// Picture returns the image ("png") or audio ("wav") of a usable challenge. The errors are those of
// challenge.Issuer.Media.
func (g *Guard) Picture(ctx context.Context, id, ext string) (challenge.Media, error) {
	if g.config.Challenges == nil {
		return challenge.Media{}, challenge.ErrGone
	}
	return g.config.Challenges.Media(ctx, id, ext)
}

// Close ends what Default has started and saves the counters. It may be called twice. After New it does nothing.
func (g *Guard) Close() {
	if g.stop != nil {
		g.stop()
	}
}

type background struct{ run []func(context.Context) }

func (b *background) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range b.run {
		running.Go(func() { run(ctx) })
	}
	return func() { cancel(); running.Wait() }
}
