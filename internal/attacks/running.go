package attacks

import (
	"slices"
	"time"

	"authguard/internal/events"
)

// A running is this process's view of a running attack.
type running struct {
	saved
	detection
	realm   string
	subject subject
	began   time.Time
	resumed bool // continues a record of the day before its start, if there is one
	tally   *tally
	base    []part // counted before its detection
	logins  map[[2]string]*kept
	lost    int
	ended   time.Time
	partOf  *running  // the attack on the site that continues it, or nil
	seen    time.Time // the last attempt on any node
	calm    time.Time // since when this node sees no attack
}

// saved identifies the attack's record in the database, and says what of it is stored.
type saved struct {
	id      string
	part    string // key of this process's part; new after each start
	exists  bool
	written int64 // attempts and successes in the stored part
}

// A detection is how an attack was detected, and whether it was reported.
type detection struct {
	found   time.Time
	start   *events.ModeSwitch // of an attack on the site, on the node that had it
	alerted bool               // the start of an attack on the site was reported
	late    bool               // announce reports it, unless another node did
	orphan  bool               // the node that had the switch has written nothing: announce reports a new record
}

// A kept is a recorded login.
type kept struct {
	Login
	unknownClient
	fresh bool // not yet written
}

// silent reports whether the attack resumes one of the last day, and is too small for an alert.
func (one *running) silent() bool { return one.subject.kind == Site && !one.alerted }

// large reports whether a resumed attack is large enough for an alert.
func (one *running) large() bool {
	least := float64(largeElsewhere)
	if one.start != nil {
		least = largeFrom * one.start.Threshold
	}
	return float64(one.tally.counts.Attempts()) >= least
}

// report reports the start of an attack on the site: at once, or with the whole record if it continues one.
func (one *running) report(r *Recorder) {
	one.alerted, one.late = true, one.resumed || one.exists
	r.in(one.realm).absorb(one, one.seen)
	if one.late {
		return
	}
	b := Beginning{Attack: one.soFar(), FailureRate: one.start.FailureRate, Threshold: one.start.Threshold,
		Daily: one.start.Cause == events.CauseDaily}
	r.reports = append(r.reports, func() { r.config.Began(b) })
}

// soFar returns the record without what other nodes have seen.
func (one *running) soFar() Attack {
	a := Attack{ID: one.id, Realm: one.realm, Kind: one.subject.kind, Subject: one.subject.name, Began: one.began}
	a.fill(one.sum())
	lost := map[string]bool{}
	for _, l := range one.logins {
		lost[l.Account] = lost[l.Account] || len(l.Why) > 0
	}
	for _, is := range lost {
		a.Lost, a.Strange = a.Lost+btoi(is), a.Strange+btoi(!is)
	}
	return a
}

// sum returns what this process has counted.
func (one *running) sum() part { return merge(append(slices.Clone(one.base), one.tally.part())...) }
