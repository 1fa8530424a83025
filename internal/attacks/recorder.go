package attacks

import (
	"cmp"
	"crypto/rand"
	"database/sql"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/times"
)

const (
	// lookBack is how much time before its detection counts for an attack.
	lookBack = 10 * time.Minute
	// quietAfter ends an attack on an account or from an IP address, quietSpray one of password spraying, which is slow.
	quietAfter = 30 * time.Minute
	quietSpray = 6 * time.Hour
	// sameFor is how long after its end a resumed attack continues its record.
	sameFor = 24 * time.Hour
	// largeFrom is how many thresholds of attempts a resumed attack on the site needs for an alert of its start. A burst
	// just above the threshold has none. A node that does not know the threshold reports from largeElsewhere attempts.
	largeFrom      = 20
	largeElsewhere = 1000
	// MostAtOnce limits the concurrent attacks on accounts, and those from IP addresses. A small one takes 8 KiB.
	MostAtOnce = 1000
	// mostLost and mostStrange limit the recorded logins of an attack, each of which costs an attacker a right password.
	mostLost    = 10_000
	mostStrange = 1000
	// mostEarly limits the recent logins from unknown clients that are kept for an attack detected later.
	mostEarly = 500
)

// Config is what a Recorder needs. Only DB and Secret are required.
type Config struct {
	DB *sql.DB // migrated
	// Secret keys the sketches in the database; the same on all nodes.
	Secret []byte
	// Attacked reports whether the detector sees an attack on a realm. If nil, only mode switches report attacks.
	Attacked func(realm string) bool
	// Began and Ended receive every attack once, on one of the nodes. Ended gets the final record of all nodes. Both must
	// not block, and not call the Recorder.
	Began func(Beginning)
	Ended func(Ending)
	// Crowded receives, at most once a day, a kind of which MostAtOnce attacks run: this node records no others. Like
	// Began, it must not block.
	Crowded func(realm, kind string)
	Now     func() time.Time // default time.Now
	Log     *slog.Logger     // default slog.Default()
}

// A Beginning is an attack that has just been detected, or one that resumed and has become large.
type Beginning struct {
	Attack
	// FailureRate and Threshold are those of the switch that began an attack on the site, in failures per minute; 0 for a
	// resumed one.
	FailureRate, Threshold float64
	Daily                  bool // they are per day (events.CauseDaily)
}

// A Recorder detects and records attacks. It is safe for concurrent use; only Run and database reads block.
type Recorder struct {
	config Config
	hash   func(string) uint64

	mu      sync.Mutex
	realms  map[string]*realm
	over    []*running // ended, not yet written
	reports []func()   // for Config.Began and Config.Crowded, once the lock is released
}

var _ events.Sink = (*Recorder)(nil)

// An Ending is an attack that is over, and what every node saw of it.
type Ending struct {
	Attack
	Victims []Victim
	// Alerted is set for an attack on the site whose start was reported: a resumed, small one has none.
	Alerted bool
}

// New returns a Recorder without attacks.
func New(c Config) *Recorder {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Began == nil {
		c.Began = func(Beginning) {}
	}
	if c.Ended == nil {
		c.Ended = func(Ending) {}
	}
	if c.Crowded == nil {
		c.Crowded = func(string, string) {}
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Recorder{config: c, realms: map[string]*realm{}, hash: events.KeyedHash(c.Secret)}
}

// unlock releases the lock, and then reports the attacks that have begun.
func (r *Recorder) unlock() {
	reports := r.reports
	r.reports = nil
	r.mu.Unlock()
	for _, report := range reports {
		report()
	}
}

// A realm is the state of one realm.
type realm struct {
	name    string
	all     *Recorder
	back    []backMinute // the last minutes, oldest first
	memory  memory
	early   []unknownClient
	runs    map[string]*events.Top[run] // by kind
	rotated time.Time
	running map[subject]*running
	unknown time.Time            // since when the site is attacked without a record
	crowded map[string]time.Time // by kind: when Config.Crowded was called
}

type subject struct{ kind, name string }

type backMinute struct {
	minute int64
	*tally
}

// in returns a realm's state; the caller holds the lock.
func (r *Recorder) in(name string) *realm {
	name = cmp.Or(name, guard.DefaultRealm)
	of := r.realms[name]
	if of == nil {
		of = &realm{name: name, all: r, memory: memory{hash: r.hash}, running: map[subject]*running{},
			crowded: map[string]time.Time{},
			runs:    map[string]*events.Top[run]{Account: events.NewTop[run](runSlots), Address: events.NewTop[run](runSlots)}}
		r.realms[name] = of
	}
	return of
}

// Handle counts events.
func (r *Recorder) Handle(batch []guard.Event) {
	r.mu.Lock()
	defer r.unlock()
	for i := range batch {
		if ending := events.EndingOf(&batch[i]); ending != events.Undecided && ending != events.Abandoned {
			r.in(batch[i].Realm).event(&batch[i], ending)
		}
	}
}

// HandleSwitch begins and ends attacks on a whole site.
func (r *Recorder) HandleSwitch(s events.ModeSwitch) {
	r.mu.Lock()
	defer r.unlock()
	of := r.in(s.Realm)
	site := of.running[subject{kind: Site}]
	switch {
	case s.Attacked && site == nil:
		site = of.beginSite(s.At, s.Resumed)
		if site.start = &s; !s.Resumed {
			site.report(r)
		}
	case !s.Attacked && site != nil:
		of.end(site, s.At, nil)
	case site != nil && !site.alerted && s.Cause == events.CauseFailureRate && !s.Resumed:
		site.report(r) // the threshold, for the first time that day
	}
}

// SoFar returns the running attack on a whole realm as this node has seen it; ok is false if there is none.
func (r *Recorder) SoFar(name string) (a Attack, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.in(name)
	one := of.running[subject{kind: Site}]
	if one == nil {
		return a, false
	}
	of.rejudge(one)
	return one.soFar(), true
}

// Tick ends attacks without recent attempts.
func (r *Recorder) Tick(time.Time) {
	r.mu.Lock()
	defer r.unlock()
	now := r.config.Now()
	for _, of := range r.realms {
		of.tick(now)
	}
}

// Forget ends the attacks on a removed realm.
func (r *Recorder) Forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.realms[name]
	if of == nil {
		return
	}
	for _, one := range of.running {
		of.end(one, r.config.Now(), nil)
	}
	delete(r.realms, name)
}

// A Brief is a running attack.
type Brief struct {
	ID    string    `json:"id"`
	Kind  string    `json:"kind"`
	Began time.Time `json:"began"`
	// Subject is the account or IP address of the kinds Account and Address.
	Subject string `json:"subject,omitempty"`
}

// Concerns reports whether an attack is on the whole site, on a normalized account, or from an IP address, of which
// either may be missing.
func (b Brief) Concerns(account string, address netip.Addr) bool {
	return b.Kind == Site || b.Kind == Account && b.Subject == events.Escape(account) ||
		b.Kind == Address && address.IsValid() && b.Subject == addressOf(address)
}

// Running returns the running attacks on a realm, that on the whole site first.
func (r *Recorder) Running(name string) (all []Brief) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.in(name).running {
		all = append(all, Brief{one.id, one.subject.kind, one.began, one.subject.name})
	}
	slices.SortFunc(all, func(a, b Brief) int {
		return cmp.Or(-cmp.Compare(btoi(a.Kind == Site), btoi(b.Kind == Site)), a.Began.Compare(b.Began),
			strings.Compare(a.ID, b.ID))
	})
	return all
}

// OnSite reports whether a whole realm is under attack. A silent attack resumes one of the last day, and is too small
// for an alert.
func (r *Recorder) OnSite(name string) (running, silent bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.in(name).running[subject{kind: Site}]
	return one != nil, one != nil && one.silent()
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (of *realm) event(e *guard.Event, ending events.Ending) {
	if ending == events.Succeeded {
		if e.NewClient {
			of.unknownClient(unknownClientOf(e))
		}
		of.good(e)
		if site := of.running[subject{kind: Site}]; site != nil {
			site.tally.add(e, ending)
		}
		return
	}
	of.memory.tried(e)
	if ending == events.Failed {
		of.memory.failed(e)
	}
	for _, s := range subjectsOf(e) {
		if one := of.running[s]; one != nil {
			one.tally.add(e, ending)
			one.seen = times.Later(one.seen, e.At)
			if one.silent() && one.large() {
				one.report(of.all)
			}
		}
	}
	of.lookBack(e, ending)
	site := of.running[subject{kind: Site}]
	if (site == nil || site.silent()) && !e.Repeat && !e.Known && !e.Reasons.Has(guard.BadAccountName) {
		of.recognize(e)
	}
}

// beginSite begins an attack on the whole site with the attempts that led to it.
func (of *realm) beginSite(at time.Time, resumed bool) *running {
	began, parts := of.ledTo(at)
	one := of.begin(subject{kind: Site}, began, at)
	one.base, one.resumed = parts, resumed
	return one
}

// absorb makes the other running attacks part of one on the whole site, once that is reported. A silent attack must not
// suppress their alerts.
func (of *realm) absorb(site *running, at time.Time) {
	for _, other := range of.running {
		if other != site {
			of.end(other, at, site)
		}
	}
}

// ledTo returns the start of the failures that led to an attack, and their counts. It goes back over consecutive
// minutes with at least a quarter of the busiest; the current minute is incomplete and always counts.
func (of *realm) ledTo(at time.Time) (began time.Time, parts []part) {
	most := int64(0)
	for _, b := range of.back {
		most = max(most, b.counts.Attempts())
	}
	began, next := at, at.Unix()/60
	for _, b := range slices.Backward(of.back) {
		if b.minute < next-1 || b.minute < at.Unix()/60 && 4*b.counts.Attempts() < most {
			break
		}
		next, began = b.minute, time.Unix(b.minute*60, 0)
		parts = append(parts, b.part())
	}
	return began, parts
}

func (of *realm) begin(s subject, began, at time.Time) *running {
	one := &running{
		saved: saved{id: idOf(began), part: rand.Text()}, detection: detection{found: at}, realm: of.name, subject: s,
		began: began, seen: at, tally: newTally(of.all.hash), logins: map[[2]string]*kept{},
	}
	of.running[s] = one
	for _, early := range of.early {
		if at.Sub(early.at) <= lookBack || !early.at.Before(began) {
			of.keep(one, early)
		}
	}
	return one
}

// idLetters make equal IDs unlikely, although thousands of attacks can begin in one minute.
const idLetters = 7

// idOf returns an ID with the minute in which the attack began.
func idOf(began time.Time) string {
	return began.UTC().Format("20060102-1504-") + strings.ToLower(rand.Text()[:idLetters])
}

func (of *realm) end(one *running, at time.Time, partOf *running) {
	one.ended, one.partOf = at, partOf
	of.rejudge(one)
	delete(of.running, one.subject)
	if one.subject.kind == Site {
		of.back = nil // the next attack must not count these attempts
	}
	of.all.over = append(of.all.over, one)
}

const (
	// calmFor ends an attack on a site without a mode switch, after the server was stopped or another node had the switch.
	calmFor = 30 * time.Second
	// followFor is how long a node waits for the record of the node that had the mode switch.
	followFor   = 10 * time.Second
	rotateEvery = time.Hour
)

func (of *realm) tick(now time.Time) {
	for s, one := range of.running {
		quiet := map[string]time.Duration{Site: lookBack, Spray: quietSpray}[s.kind]
		switch {
		case now.Sub(one.seen) < cmp.Or(quiet, quietAfter):
		case s.kind != Site:
			of.end(one, one.seen, nil)
		case of.all.config.Attacked == nil || of.attacked():
			one.calm = time.Time{}
		case one.calm.IsZero():
			one.calm = now
		case now.Sub(one.calm) >= calmFor:
			of.end(one, one.seen, nil)
		}
	}
	n := len(of.back)
	switch unknown := of.attacked() && of.running[subject{kind: Site}] == nil; {
	case !unknown:
		of.unknown = time.Time{}
	case of.unknown.IsZero():
		of.unknown = now // another node has the mode switch, and follow will find the record
	case now.Sub(of.unknown) >= followFor && n > 0 && now.Unix()/60-of.back[n-1].minute <= 1:
		of.beginSite(now, true).orphan = true
	}
	if of.rotated.IsZero() {
		of.rotated = now
	}
	if now.Sub(of.rotated) >= rotateEvery {
		of.rotated = now
		of.rotate(now)
	}
}

func (of *realm) attacked() bool {
	return of.all.config.Attacked != nil && of.all.config.Attacked(of.name)
}

// all returns the ended, unwritten attacks, then the running ones: the older of a subject first. Those on the site come
// before their parts, which have their ID. The caller holds the lock.
func (r *Recorder) all() (all []*running) {
	for _, of := range r.realms {
		for _, one := range of.running {
			of.rejudge(one)
			all = append(all, one)
		}
	}
	all = slices.Concat(r.over, all)
	slices.SortStableFunc(all, func(a, b *running) int {
		return btoi(b.subject.kind == Site) - btoi(a.subject.kind == Site)
	})
	return all
}
