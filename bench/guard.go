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

// An ours is a whole guard: it normalizes the name, hashes the keys, looks up IP lists, known clients
// and CAPTCHA mode, counts in all limits, and settles the attempt.
type ours struct {
	guard    *guard.Guard
	failures *failures.Memory
	inputs   []input
	days     *calendar
}

// A calendar is a clock that advances by a day while all attempts are counted once. Without it, each
// counter would soon contain hundreds of failures, which no enforced limit allows.
type calendar struct {
	start   time.Time
	skipped atomic.Int64 // nanoseconds
	step    int64
}

// stepEvery is the number of attempts for each step of a calendar, which hides the cost of a step.
const stepEvery = 16

func newCalendar(attempts int) *calendar {
	return &calendar{start: time.Now(), step: int64(24*time.Hour) * stepEvery / int64(attempts)}
}

func (c *calendar) pass(attempt int) {
	if attempt%stepEvery == 0 {
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
		MaxBytes: 8 << 30, Retain: policy.Retain(), PendingFor: policy.CheckTimeout, Now: days.now,
	})
	if err != nil {
		return nil, err
	}
	clients, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		return nil, err
	}
	mode, err := neverOn()
	if err != nil {
		return nil, err
	}
	g, err := guard.New(guard.Config{
		Policy: policy, Secret: []byte("a secret of the benchmark"),
		Store: guard.NewLocal(counters, clients), Mode: mode,
	})
	return &ours{guard: g, failures: counters, inputs: made(attempts), days: days}, err
}

// An input is what an integration has read of an attempt.
type input struct {
	name    string
	address netip.Addr
}

// made are all inputs. They are made in advance and are short, like the keys of the other contenders,
// so that reading them costs few cache lines.
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

// monitored is the default policy with all limits in monitoring mode.
func monitored() guard.Policy {
	p := guard.DefaultPolicy()
	for _, limits := range [][]guard.Limit{p.Address, p.Network, p.Account, p.KnownClient} {
		for i := range limits {
			limits[i].Monitor = true
		}
	}
	p.PairDelay.Monitor = true
	return p
}

func neverOn() (*captchamode.Mode, error) {
	c := captchamode.DefaultConfig()
	c.ThresholdMin, c.ThresholdMax = 1e9, 1e9
	return captchamode.NewMode(c, nil, nil)
}

func (o *ours) Attempt(i int) {
	o.days.pass(i)
	ctx, in := context.Background(), &o.inputs[i]
	d, err := o.guard.Begin(ctx, guard.Attempt{Account: in.name, Address: in.address, Integration: "bench"})
	if err != nil || d.Action != guard.Proceed {
		panic(fmt.Sprint("the attempt was stopped: ", d.Action, d.Reasons, err))
	}
	if err := o.guard.Settle(ctx, d.Ticket, guard.Failed); err != nil {
		panic(err)
	}
}

func (o *ours) Size() (keys int, bytes int64) { return o.failures.Size() }
