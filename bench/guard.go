package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"authguard/captchamode"
	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// ours is the whole guard: names normalised, keys digested, lists, places and
// mode looked at, every ladder counted, and the attempt settled.
type ours struct {
	guard    *guard.Guard
	failures *failures.Memory
	names    string
}

const nameLength = len("person-00000000")

func openGuard(attempts int) (store, error) {
	policy := monitored()
	counters, err := failures.NewMemory(failures.Config{
		MaxBytes: 8 << 30, Retain: policy.Retain(), PendingFor: policy.PendingFor,
	})
	if err != nil {
		return nil, err
	}
	places, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		return nil, err
	}
	mode, err := neverOn()
	if err != nil {
		return nil, err
	}
	g, err := guard.New(guard.Config{
		Policy: policy, Secret: []byte("a secret of the benchmark"),
		Failures: counters, Places: places, Mode: mode,
	})
	return &ours{guard: g, failures: counters, names: names(attempts)}, err
}

// names are all names in one string, so that looking one up costs no more than
// one cache line.
func names(attempts int) string {
	var all strings.Builder
	for i := range attempts {
		fmt.Fprintf(&all, "person-%08d", i)
	}
	return all.String()
}

// monitored is the default policy with everything decided and nothing
// enforced.
func monitored() guard.Policy {
	p := guard.DefaultPolicy()
	for _, ladder := range [][]guard.Limit{p.Address, p.Network, p.Account, p.PrivilegedPair} {
		for i := range ladder {
			ladder[i].Monitor = true
		}
	}
	p.PairDelay.Monitor = true
	return p
}

func neverOn() (*captchamode.Mode, error) {
	c := captchamode.DefaultConfig()
	c.Floor, c.Ceiling = 1e9, 1e9
	return captchamode.NewMode(c, nil, nil)
}

func (o *ours) Attempt(i int) {
	ctx := context.Background()
	d, err := o.guard.Begin(ctx, guard.Attempt{
		Account: o.names[i*nameLength : (i+1)*nameLength],
		Address: netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1}),
		Door:    "bench",
	})
	if err != nil || d.Action != guard.Proceed {
		panic(fmt.Sprint("the attempt was stopped: ", d.Action, d.Reasons, err))
	}
	if err := o.guard.Settle(ctx, &d.Ticket, guard.Failed); err != nil {
		panic(err)
	}
}

func (o *ours) Size() (keys int, bytes int64) { return o.failures.Size() }
