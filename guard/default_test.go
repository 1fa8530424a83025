package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

var secret = []byte("sixteen random bytes, or more")

func newDefault(t *testing.T, change ...func(*guard.Defaults)) *guard.Guard {
	t.Helper()
	g, err := guard.Default(secret, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func try(t *testing.T, g *guard.Guard, a guard.Attempt, right bool) guard.Decision {
	t.Helper()
	d, _, err := g.Login(t.Context(), a, func(context.Context, *guard.Decision) (bool, error) { return right, nil })
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func at(address string) guard.Attempt {
	return guard.Attempt{Account: "alice", Address: netip.MustParseAddr(address)}
}

// Ensure that the guard that needs nothing but a secret keeps every promise.
func TestR1TheDefaultGuardHoldsInParallel(t *testing.T) {
	t.Parallel()
	g := newDefault(t)
	try(t, g, at("192.0.2.7"), true)
	var looked atomic.Int64
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			_, _, _ = g.Login(t.Context(), at(fmt.Sprintf("198.51.%d.1", i)), func(context.Context, *guard.Decision) (bool, error) { looked.Add(1); return false, nil })
		})
	}
	all.Wait()
	if looked.Load() != 5 {
		t.Errorf("%d of 100 guesses were looked at, want 5", looked.Load())
	}
	if d := try(t, g, at("203.0.113.9"), true); d.Action != guard.Challenge {
		t.Errorf("a stranger: %v", d.Action)
	}
	if d := try(t, g, at("192.0.2.7"), true); !d.Known || d.Action != guard.Proceed {
		t.Errorf("at home: %v", d.Action)
	}
}

// Ensure that what a browser has to do is asked for, and a picture where somebody can
// show one.
func TestTheDefaultChallengeIsWorkAndAPictureWhereOneIsDrawn(t *testing.T) {
	t.Parallel()
	g := newDefault(t)
	issue := func() challenge.Challenge {
		t.Helper()
		c, err := g.Issue(t.Context(), at("192.0.2.7"), guard.Decision{Action: guard.Challenge, Account: "alice"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	before := issue()
	if before.Kind != challenge.KindPoW || before.Image != "" || before.PoW == nil {
		t.Errorf("without pictures it is %+v", before)
	}
	if _, err := g.Picture(t.Context(), before.ID, "png"); err != challenge.ErrGone { //nolint:errorlint // it is returned as it is
		t.Errorf("its picture: %v", err)
	}
	pictures, err := image.New(image.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g.Illustrate(pictures)
	g.Illustrate(pictures)
	after := issue()
	if after.Kind != challenge.KindBoth || after.Image == "" || after.PoW == nil {
		t.Errorf("with pictures it is %+v", after)
	}
	if m, err := g.Picture(t.Context(), after.ID, "png"); err != nil || m.Type != "image/png" {
		t.Errorf("its picture: %v %v", m.Type, err)
	}
}

// Ensure that a device is known after a restart, by the secret alone, and by no
// other.
func TestR14ADeviceIsKnownToEveryDefaultGuardOfTheSecret(t *testing.T) {
	t.Parallel()
	first := newDefault(t)
	d, err := first.Begin(t.Context(), at("192.0.2.7"))
	if err != nil || first.Settle(t.Context(), d.Ticket, guard.Succeeded) != nil {
		t.Fatal(err)
	}
	cookie, _, ttl := first.Device(d.Ticket)
	if ttl != trusted.DefaultTTL {
		t.Errorf("good for %v", ttl)
	}
	for name, one := range map[string]struct {
		g    *guard.Guard
		want bool
	}{
		"the same secret": {newDefault(t), true},
		"another secret":  {newDefault(t, func(d *guard.Defaults) { d.Secret = []byte("another sixteen bytes") }), false},
		"another realm":   {newDefault(t, func(d *guard.Defaults) { d.Realm = "shop" }), false},
	} {
		a := at("203.0.113.9")
		a.Devices = []string{cookie}
		if d := try(t, one.g, a, true); d.Known != one.want {
			t.Errorf("%s: known %v", name, d.Known)
		}
	}
}

// Ensure that counters outlive a process that nobody has stopped.
func TestR7TheFolderOfADefaultGuardForgetsNothing(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "made")
	in := func(d *guard.Defaults) { d.Folder = folder }
	first := newDefault(t, in)
	for i := range 5 {
		try(t, first, at(fmt.Sprintf("198.51.%d.1", i)), false)
	}
	copied := t.TempDir() // as kill -9 leaves it: the first one goes on
	if err := os.CopyFS(copied, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	if d := try(t, newDefault(t, func(d *guard.Defaults) { d.Folder = copied }), at("203.0.113.9"), true); d.Action != guard.Challenge {
		t.Errorf("after a kill: %v", d.Action)
	}
	first.Close()
	if d := try(t, newDefault(t, in), at("203.0.113.9"), true); d.Action != guard.Challenge {
		t.Errorf("after Close: %v", d.Action)
	}
	for name, other := range map[string]func(*guard.Defaults){
		"secret": func(d *guard.Defaults) { d.Secret = []byte("another secret of a start") }, "realm": func(d *guard.Defaults) { d.Realm = "b" },
	} {
		if _, err := guard.Default(secret, in, other); !errors.Is(err, failures.ErrOtherOwner) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(copied, "counters"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := guard.Default(secret, func(d *guard.Defaults) { d.Folder = copied }); err == nil || !strings.Contains(err.Error(), "the counters cannot be used. Restore them") {
		t.Errorf("damaged counters: %v", err)
	}
}

// Ensure that CAPTCHA mode ends by itself: Default runs what it makes, until Close.
func TestTheDefaultGuardRunsUntilItIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g, err := guard.Default(secret)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close() // or the bubble does not end
		for i := range 40 {
			try(t, g, guard.Attempt{Account: fmt.Sprint("user", i), Address: netip.AddrFrom4([4]byte{198, 51, byte(i), 1})}, false)
		}
		stranger := netip.MustParseAddr("203.0.113.9")
		if !g.NeedsChallenge(stranger) {
			t.Fatal("40 failures in a minute are no attack")
		}
		time.Sleep(3 * time.Hour)
		if g.NeedsChallenge(stranger) {
			t.Error("nobody has noticed that it is over")
		}
		g.Close()
	})
}

func TestWhatIsWrongWithTheDefaultsIsSaid(t *testing.T) {
	t.Parallel()
	counters, err := failures.NewMemory(failures.Config{})
	if err != nil {
		t.Fatal(err)
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	for name, one := range map[string]struct {
		secret []byte
		change func(*guard.Defaults)
		want   string
	}{
		"no secret": {nil, func(*guard.Defaults) {}, "openssl rand -hex 32"},
		"a policy":  {secret, func(d *guard.Defaults) { d.Policy.Account[0].Failures = 0 }, "limits.account[0].failures: must be from 1"},
		"a folder of another store": {secret, func(d *guard.Defaults) {
			d.Store, d.Folder = guard.NewLocal(counters, places), t.TempDir()
		}, "Folder: must be empty if Store is set"},
		"a folder that cannot be": {secret, func(d *guard.Defaults) { d.Folder = "/dev/null/x" }, "Folder"},
	} {
		if _, err := guard.Default(one.secret, one.change); err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
