//go:build !race

package attacks

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/internal/database/databasetest"
	"authguard/trusted"
)

type observer func(guard.Event)

func (o observer) Observe(e guard.Event) { o(e) }

// account keeps the limitSet of accounts: only keys with a like one share a count.
type account struct {
	guard.Store
	limitSet *failures.Limits
}

func (a *account) Begin(ctx context.Context, c *guard.Charge) error {
	if of := c.Subject(guard.OnAccount); of != nil { // and not the charge of a challenge
		a.limitSet = of.Limits
	}
	return a.Store.Begin(ctx, c)
}

// At the memory bound names share counts (R6), and one that is tried once is challenged. That
// is no attack on it; on an account with a count of its own it is.
func TestNamesTriedOnceAtTheMemoryBoundAreNotUnderAttack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which passes over the delays
		policy := guard.DefaultPolicy()
		counters, err := failures.NewMemory(failures.Config{MaxBytes: failures.MinBytes, Retain: policy.Retain(), PendingFor: policy.CheckTimeout})
		if err != nil {
			t.Fatal(err)
		}
		places, err := trusted.NewMemory(trusted.MemoryConfig{})
		if err != nil {
			t.Fatal(err)
		}
		recorder := newScene(t, databasetest.SQLite(t))
		stopped := 0
		watch := observer(func(e guard.Event) {
			for _, r := range e.Reasons {
				if r.Cause == guard.LimitReached && r.Subject == guard.OnAccount {
					stopped++
				}
			}
			recorder.Handle([]guard.Event{e})
		})
		store := &account{Store: guard.NewLocal(counters, places)}
		quiet := captchamode.DefaultConfig()
		quiet.ThresholdMin, quiet.ThresholdMax = 1_000_000, 1_000_000
		mode, err := captchamode.NewMode(quiet, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		g, err := guard.Default([]byte("a secret of sixteen bytes, at least"), func(d *guard.Defaults) {
			d.Store, d.Observer, d.Mode = store, watch, mode
		})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		try := func(account string, from int) {
			t.Helper()
			address := netip.AddrFrom4([4]byte{198, byte(from >> 8), byte(from), 1})
			if _, _, err := g.Login(t.Context(), guard.Attempt{Account: account, Address: address},
				func(context.Context, *guard.Decision) (bool, error) { return false, nil }); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 5 {
			try("victim", i)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 450_000 {
			var k failures.Key
			binary.LittleEndian.PutUint64(k[:], random.Uint64())
			binary.LittleEndian.PutUint64(k[8:], random.Uint64())
			if _, err := counters.Charge(t.Context(), []failures.Subject{{Shard: k, Key: k, Limits: store.limitSet}}, make([]failures.Usage, 1)); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 500 {
			try(fmt.Sprint("name", i), 1000+i)
		}
		if stopped < 100 {
			t.Fatalf("%d of 500 names met a limit: the counters are not at their bound", stopped)
		}
		for i := range 3 {
			try("victim", 5000+i)
		}
		all := recorder.Running("")
		if len(all) != 1 || all[0].Kind != Account || all[0].Subject != "victim" {
			t.Errorf("%+v, want an attack on victim", all)
		}
	})
}
