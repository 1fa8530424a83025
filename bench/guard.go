package main

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

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
	inputs   []input
	days     *calendar
}

// A calendar is a clock on which a day passes every time that all attempts were
// made once. Without it every counter would soon hold hundreds of failures,
// which no enforced limit lets it come to.
type calendar struct {
	start   time.Time
	skipped atomic.Int64 // nanoseconds
	step    int64
}

// seldom is how many attempts share one step, so that stepping costs nothing.
const seldom = 16

func newCalendar(attempts int) *calendar {
	return &calendar{start: time.Now(), step: int64(24*time.Hour) * seldom / int64(attempts)}
}

func (c *calendar) pass(attempt int) {
	if attempt%seldom == 0 {
		c.skipped.Add(c.step)
	}
}

func (c *calendar) now() time.Time {
	return c.start.Add(time.Since(c.start) + time.Duration(c.skipped.Load()))
}

func openGuard(attempts int) (store, error) {
	policy := monitored()
	days := newCalendar(attempts)
	counters, err := failures.NewMemory(failures.Config{
		MaxBytes: 8 << 30, Retain: policy.Retain(), PendingFor: policy.PendingFor, Now: days.now,
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
		Store: guard.NewLocal(counters, places), Mode: mode,
	})
	return &ours{guard: g, failures: counters, inputs: made(attempts), days: days}, err
}

// An input is what a door has read of an attempt.
type input struct {
	name    string
	address netip.Addr
}

// made are all inputs, as the others' keys are made: beforehand, and small, so
// that they cost few cache lines to read.
func made(attempts int) []input {
	var names strings.Builder
	for i := range attempts {
		fmt.Fprintf(&names, "person-%08d", i)
	}
	all := make([]input, attempts)
	for i := range all {
		all[i] = input{names.String()[15*i:][:15], netip.AddrFrom4([4]byte{byte(i >> 16), byte(i >> 8), byte(i), 1})}
	}
	return all
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
	o.days.pass(i)
	ctx, in := context.Background(), &o.inputs[i]
	d, err := o.guard.Begin(ctx, guard.Attempt{Account: in.name, Address: in.address, Door: "bench"})
	if err != nil || d.Action != guard.Proceed {
		panic(fmt.Sprint("the attempt was stopped: ", d.Action, d.Reasons, err))
	}
	if err := o.guard.Settle(ctx, d.Ticket, guard.Failed); err != nil {
		panic(err)
	}
}

func (o *ours) Size() (keys int, bytes int64) { return o.failures.Size() }
