//go:build !race

package main

import (
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"authguard/captchamode"
	"authguard/guard"
	"authguard/internal/config"
	"authguard/internal/counters"
)

// openQuietSite opens a site over a folder, and no listener.
func openQuietSite(t *testing.T, dir string) *site {
	t.Helper()
	loaded, err := config.Parse("test", []byte("data: "+dir+"\ncounters: {memory: 16MiB}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSite(t.Context(), loaded, new(slog.LevelVar), slog.New(slog.DiscardHandler), opening{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wrong(t *testing.T, g *guard.Guard, account string, address netip.Addr) guard.Decision {
	t.Helper()
	d, err := g.Begin(t.Context(), guard.Attempt{Account: account, Address: address})
	if err != nil {
		t.Fatal(err)
	}
	if d.Action == guard.Proceed {
		if err := g.Settle(t.Context(), d.Ticket, guard.Failed); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func charged(t *testing.T, g *guard.Guard, account string) int {
	t.Helper()
	e, err := g.Explain(t.Context(), account, netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range e.Lines {
		if l.Subject == guard.OnAccount {
			return l.Used
		}
	}
	return -1
}

// A flood of made-up names fills the public counters to their bound and switches CAPTCHA
// mode on. What is counted against administrators stays, a new one has all of the limit, and
// a restart keeps both.
func TestR6AFloodAtThePublicLoginNeitherEvictsNorChallengesAdministrators(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := openQuietSite(t, dir)
	public, inside := s.main().guard, s.main().administration
	from := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, byte(n), 1}) }
	for n := range 3 {
		wrong(t, inside.guard, "root", from(n))
	}
	for i := range uint32(250_000) {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], 0x0a000000+i*7919)
		wrong(t, public, fmt.Sprint("made-up-", i), netip.AddrFrom4(a))
		if s.main().mode.On() {
			s.main().mode.Clear("test", "the flood fills the counters first")
		}
	}
	if err := s.main().mode.Force(captchamode.Override{
		State: captchamode.ForcedOn, Who: "test", Why: "as the flood does", Until: time.Now().Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	if !s.main().mode.On() || inside.mode.On() {
		t.Errorf("CAPTCHA mode: public %v, administration %v; want it on at the public login alone", s.main().mode.On(), inside.mode.On())
	}
	if _, bytes := s.counting.tables.Memory(counters.Public).Size(); bytes < 14<<20 {
		t.Fatalf("the public counters take %d bytes: no bound was reached", bytes)
	}
	keys, _ := s.counting.tables.Memory(counters.Administrators).Size()
	if d := wrong(t, public, "not-seen-before", from(9)); d.Action == guard.Proceed {
		t.Errorf("the public login at its bound: %v", d.Action)
	}
	if keys != 3*3+1 { // address, network and pair of three places, and the account
		t.Errorf("the administration has %d keys, want 10", keys)
	}
	if n := charged(t, inside.guard, "root"); n != 3 {
		t.Errorf("%d failures of the administrator are left, want 3", n)
	}
	for i, want := range []guard.Action{guard.Proceed, guard.Proceed, guard.Challenge} {
		if d := wrong(t, inside.guard, "root", from(20+i)); d.Action != want {
			t.Errorf("failure %d: %v %v, want %v", 4+i, d.Action, d.Reasons.Codes(), want)
		}
	}
	for i, want := range []guard.Action{guard.Proceed, guard.Proceed, guard.Proceed, guard.Proceed, guard.Proceed, guard.Challenge} {
		if d := wrong(t, inside.guard, "eve", from(30+i)); d.Action != want {
			t.Errorf("another administrator's failure %d: %v, want %v", 1+i, d.Action, want)
		}
	}
	if err := s.parts.Stop(); err != nil {
		t.Fatal(err)
	}
	s = openQuietSite(t, dir)
	if n, other := charged(t, s.main().administration.guard, "root"), charged(t, s.main().administration.guard, "eve"); n != 5 || other != 5 {
		t.Errorf("after a restart: %d and %d failures, want 5 and 5", n, other)
	}
	if err := s.parts.Stop(); err != nil {
		t.Fatal(err)
	}
}
