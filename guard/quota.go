package guard

import (
	"context"
	"fmt"
	"time"

	"authguard/failures"
)

// A quota bounds what an address, and the site, may do besides guessing. It is
// charged like an attempt and in the same store: first, exactly, and over all
// nodes.
type quota struct {
	name     string
	last     uint8 // AddressSubject, or NetworkSubject, which stands for the site
	ladders  Ladders
	binds    Binds
	attacked Binds // while the site is
}

func newQuota(name string, address, site []failures.Rung) (q quota) {
	q.name = name
	of := [subjectCount][]failures.Rung{AddressSubject: address, NetworkSubject: site}
	if len(site) > 0 {
		q.last = NetworkSubject
	}
	for i, rungs := range of {
		q.ladders[i] = failures.MustLadder(failures.Backoff{}, rungs...)
		for status := range q.binds {
			q.attacked[status][i] = failures.Every
		}
	}
	for status := range q.binds {
		q.binds[status][AddressSubject] = failures.Every
	}
	return q
}

// wrongAnswers is how many challenges an address may answer wrongly: a class that
// mistypes every fifth picture may go on, a program that guesses may not. Each
// wrong answer takes room where spent challenges are remembered.
func wrongAnswers() quota {
	return newQuota("wrong answers", []failures.Rung{{Failures: 60, Window: time.Minute}, {Failures: 600, Window: time.Hour}}, nil)
}

// PicturesPerHour is how many pictures may be answered from one address without
// the work that was asked for as well, and PicturesPerMinute from everywhere
// while the site is attacked: enough for people whose browser runs no JavaScript,
// and little to a program that reads pictures.
const (
	PicturesPerHour   = 10
	PicturesPerMinute = 30
)

func picturesAlone() quota {
	return newQuota("pictures alone", []failures.Rung{{Failures: PicturesPerHour, Window: time.Hour}}, []failures.Rung{{Failures: PicturesPerMinute, Window: time.Minute}})
}

// take charges the attempt's address, and the site, one more. If there is no
// room, nothing is charged, and wait is how long until there is.
func (g *Guard) take(ctx context.Context, v *view, q *quota) (taken Charge, wait time.Duration, err error) {
	taken = Charge{Now: v.Now, Network: v.Network, Ladders: &q.ladders, Binds: &q.binds, Last: q.last + 1}
	taken.Address = g.digests.ofQuota(q.name, v.Address)
	if q.last == NetworkSubject {
		taken.Network = g.digests.ofQuota(q.name, digest{})
	}
	if v.modeOn || v.slowing {
		taken.Binds = &q.attacked
	}
	if taken, err = g.config.Store.Begin(ctx, taken); err != nil {
		return taken, 0, fmt.Errorf("guard: charging %s: %w", q.name, err)
	}
	if !taken.ID.Charged() {
		wait = max(taken.Usage[AddressSubject].FreeIn, taken.Usage[NetworkSubject].FreeIn, time.Second)
	}
	return taken, wait, nil
}
