package guard

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
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
	"authguard/trusted"
)

// Defaults is what Default makes a guard of. A part that is set stays; one that is
// nil is made. Only what Default has made runs in the background and is Close's to
// end.
type Defaults struct {
	Config
	// Folder is where counters outlive the process (R7): they are read from there,
	// written to a journal before a password is looked at, and saved. It is made if
	// it is not there, and belongs to one process. Empty: a restart forgets who has
	// failed. Known places are not in it: device cookies are good over restarts.
	Folder string
	// Background is what else runs until Close, which waits for it: it has to return
	// when its context ends.
	Background []func(context.Context)
	// Spent remembers for the challenges that Default makes which were used up; nil:
	// this process does. See package redisguard for several.
	Spent challenge.Spent

	failed error
}

// Fail has Default make nothing and return this error, among others: for a change that
// cannot be made. Nil is none.
func (d *Defaults) Fail(err error) { d.failed = errors.Join(d.failed, err) }

// Default returns a guard with everything made: DefaultPolicy, counters and places
// in memory (at most 256 MiB and 100,000 accounts), CAPTCHA mode, device cookies,
// and challenges that a browser solves by working, to which a door that can show
// pictures adds those ([Guard.Illustrate]). The secret is at least 16 random
// bytes, and the same after a restart: every key is derived from it.
//
//	g, err := guard.Default(secret)
//
// Each change gets the Defaults before the rest is made:
//
//	g, err := guard.Default(secret, func(d *guard.Defaults) { d.Folder = "/var/lib/app" })
//
// The error is everything that is wrong. The guard works in the background until
// Close.
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

// count makes what attempts are counted in.
func (d *Defaults) count(made *background) (err error) {
	if d.Store != nil {
		if d.Folder != "" {
			return errors.New("guard: Folder: must be empty if Store is set")
		}
		return nil
	}
	counters, err := failures.NewMemory(failures.Config{Retain: d.Policy.Retain(), PendingFor: d.Policy.CheckTimeout})
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

// savedEvery is how often the counters are saved. What is newer is in the journal.
const savedEvery = 30 * time.Second

// keep has the counters outlive the process.
func (d *Defaults) keep(counters *failures.Memory, made *background) error {
	if d.Folder == "" {
		return nil
	}
	if err := os.MkdirAll(d.Folder, 0o700); err != nil {
		return fmt.Errorf("guard: Folder: %w", err)
	}
	file, failed := filepath.Join(d.Folder, "counters"), d.Failed
	if _, err := counters.Load(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("guard: Folder: the counters cannot be used. Restore them, or remove them to reset all counters: %w", err)
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

// judge makes CAPTCHA mode.
func (d *Defaults) judge(made *background) (err error) {
	if d.Mode != nil {
		return nil
	}
	if d.Mode, err = captchamode.NewMode(captchamode.DefaultConfig(), d.Now, nil); err == nil {
		made.run = append(made.run, d.Mode.Run)
	}
	return err
}

// ask makes challenges and what signs device cookies.
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

// derive is a key of 32 bytes for a purpose.
func derive(secret []byte, purpose, realm string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "authguard library "+purpose+" "+realm, 32)
	if err != nil {
		return nil, fmt.Errorf("guard: deriving the key of %s: %w", purpose, err)
	}
	return key, nil
}

// Key is a key of 32 bytes for something beside the guard that all nodes have to
// agree on, such as what a door seals for itself. Keys of different purposes tell
// nothing about each other.
func (g *Guard) Key(purpose string) ([]byte, error) {
	return derive(g.config.Secret, "for "+purpose, g.config.Realm)
}

// Illustrate has challenges shown as a picture, too, where none is drawn so far: for
// doors that can show one, before the first attempt. See package mw.
func (g *Guard) Illustrate(picture challenge.Illustrated) {
	if g.config.Challenges != nil {
		g.config.Challenges.Illustrate(picture)
	}
}

// Picture is the picture ("png") or the sound ("wav") of a challenge that can still
// be solved. The errors are those of challenge.Desk.Media.
func (g *Guard) Picture(ctx context.Context, id, ext string) (challenge.Media, error) {
	if g.config.Challenges == nil {
		return challenge.Media{}, challenge.ErrGone
	}
	return g.config.Challenges.Media(ctx, id, ext)
}

// Close ends what Default has started, and saves. It may be called twice, and does
// nothing for a guard that New has made. Attempts that are under way go on.
func (g *Guard) Close() {
	if g.stop != nil {
		g.stop()
	}
}

// background is what runs beside a guard.
type background struct{ run []func(context.Context) }

func (b *background) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	for _, run := range b.run {
		running.Go(func() { run(ctx) })
	}
	return func() { cancel(); running.Wait() }
}
