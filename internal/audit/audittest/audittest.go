// Package audittest fills an audit log with months of attacks, by a clock of its own.
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

// A Pattern is what comes in a second: 100 failed logins, and what goes with them.
type Pattern func(r *rand.Rand, at time.Time) []guard.Event

// The patterns. In each, what a row can have in common differs.
var patterns = map[string]Pattern{
	"five addresses hammering": hammering,
	"botnet, invented names":   botnet,
	"mixed, with logins":       mixed,
}

// Patterns are all there are, by name.
func Patterns() map[string]Pattern { return patterns }

const each = 100

func failed(at time.Time, account string, address netip.Addr) guard.Event {
	return guard.Event{At: at, Door: "login", Account: account, Address: address, Action: guard.Proceed, Settled: true, Outcome: guard.Failed}
}

// hammering is five addresses that guess at a hundred accounts.
func hammering(r *rand.Rand, at time.Time) (all []guard.Event) {
	for range each {
		all = append(all, failed(at, person(r.IntN(100)), netip.AddrFrom4([4]byte{198, 51, 100, byte(r.IntN(5))})))
	}
	return all
}

// botnet is a guess from each address, with a name that nobody has.
func botnet(r *rand.Rand, at time.Time) (all []guard.Event) {
	for range each {
		all = append(all, failed(at, fmt.Sprintf("invented-%08x@example.org", r.Uint32()), anywhere(r)))
	}
	return all
}

// mixed is half a botnet that has the names of 5,000 people, a quarter five addresses, a
// quarter people; as many more that are asked for a CAPTCHA or refused; and people who log
// in, fifteen a minute.
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
		e.Outcome, e.Privileged = guard.Succeeded, true
		all = append(all, e)
	}
	return all
}

func person(i int) string { return fmt.Sprintf("person%04d", i) }

// home is where somebody logs in from.
func home(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, byte(i >> 8), byte(i)}) }

func anywhere(r *rand.Rand) netip.Addr {
	n := r.Uint32()
	return netip.AddrFrom4([4]byte{11 + byte(n>>24)%180, byte(n >> 16), byte(n >> 8), byte(n)})
}

// Fill lets so much time pass. Every second has its events, and each is written before the
// next minute begins, as a database that keeps up does it. It calls every at the end of
// each hour.
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
		log.Run(stopped) // writes what waits
		if (minute+1)%60 == 0 {
			hour(from.Add(time.Duration(minute+1) * time.Minute))
		}
	}
}
