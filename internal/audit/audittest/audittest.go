// Package audittest fills an audit log with months of attacks, with a simulated clock.
package audittest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"authguard/guard"
	"authguard/internal/audit"
)

// A Pattern returns the events of one second: 100 failed logins and others.
type Pattern func(r *rand.Rand, at time.Time) []guard.Event

// The patterns differ in what rows have in common.
var patterns = map[string]Pattern{
	"five addresses hammering": hammering,
	"botnet, invented names":   botnet,
	"mixed, with logins":       mixed,
}

// Patterns returns all patterns by name.
func Patterns() map[string]Pattern { return patterns }

const each = 100

func failed(at time.Time, account string, address netip.Addr) guard.Event {
	return guard.Event{
		At:          at,
		Integration: "login",
		Account:     account,
		Address:     address,
		Action:      guard.Proceed,
		Settled:     true,
		Outcome:     guard.Failed,
	}
}

// hammering is brute force from five IP addresses against 100 accounts.
func hammering(r *rand.Rand, at time.Time) (all []guard.Event) {
	for range each {
		all = append(all, failed(at, person(r.IntN(100)), netip.AddrFrom4([4]byte{198, 51, 100, byte(r.IntN(5))})))
	}
	return all
}

// botnet is one guess per IP address, with invented user names.
func botnet(r *rand.Rand, at time.Time) (all []guard.Event) {
	for range each {
		all = append(all, failed(at, fmt.Sprintf("invented-%08x@example.org", r.Uint32()), anywhere(r)))
	}
	return all
}

// mixed is half a botnet on 5,000 existing accounts, a quarter hammering and a quarter typos. As many attempts are
// challenged or blocked, and 15 users a minute log in.
func mixed(r *rand.Rand, at time.Time) (all []guard.Event) {
	for range each / 2 {
		all = append(all, failed(at, person(r.IntN(5000)), anywhere(r)))
	}
	all = append(all, hammering(r, at)[:each/4]...)
	for range each / 4 {
		who := r.IntN(5000)
		all = append(all, failed(at, person(who), home(who)))
	}
	for i := range each {
		e := failed(at, person(r.IntN(5000)), anywhere(r))
		e.Settled, e.Action, e.Reasons = false, guard.Challenge, guard.Reasons{{Cause: guard.ModeOn}}
		if i%4 == 0 {
			e.Action, e.Reasons = guard.Block, guard.Reasons{{Cause: guard.LimitReached, Subject: guard.OnAddress}}
		}
		all = append(all, e)
	}
	if r.IntN(4) == 0 {
		who := r.IntN(5000)
		e := failed(at, person(who), home(who))
		e.Outcome, e.Known = guard.Succeeded, true
		all = append(all, e)
	}
	return all
}

func person(i int) string { return fmt.Sprintf("person%04d", i) }

func home(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}) }

func anywhere(r *rand.Rand) netip.Addr {
	n := r.Uint32()
	return netip.AddrFrom4([4]byte{11 + byte(n>>24)%180, byte(n >> 16), byte(n >> 8), byte(n)})
}

// Fill simulates minutes of a pattern. Each minute is written before the next begins, as with a fast database. It calls
// hour at the end of each hour.
func Fill(t testing.TB, log *audit.Log, p Pattern, from time.Time, minutes int, hour func(now time.Time)) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for minute := range minutes {
		for second := range 60 {
			at := from.Add(time.Duration(minute)*time.Minute + time.Duration(second)*time.Second)
			log.Handle(p(r, at))
			log.Tick(at)
		}
		log.Tick(from.Add(time.Duration(minute+1) * time.Minute))
		log.Run(stopped) // writes the queue
		if (minute+1)%60 == 0 {
			hour(from.Add(time.Duration(minute+1) * time.Minute))
		}
	}
}
