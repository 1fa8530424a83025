package attacks

import (
	"cmp"
	"crypto/rand"
	"database/sql"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/guard"
	"authguard/internal/events"
	"authguard/internal/tops"
)

const (
	// lookBack is how much time before its detection counts for an attack.
	lookBack = 10 * time.Minute
	// accountAfter and addressAfter are the attempts that make an attack on one account or from one IP address.
	accountAfter = 50
	addressAfter = 100
	// quietAfter ends an attack on an account or from an IP address, quietSpray one of password spraying, which is slow.
	quietAfter = 30 * time.Minute
	quietSpray = 6 * time.Hour
	// sameFor is how long after its end a resumed attack on the site continues its record.
	sameFor = 24 * time.Hour
	// mostAtOnce limits the concurrent attacks on accounts, and those from IP addresses.
	mostAtOnce = 20
	// mostLost and mostStrange limit the recorded logins of an attack, each of which costs an attacker a right password.
	mostLost    = 10_000
	mostStrange = 1000
	// mostEarly limits the recent logins from unknown clients that are kept for an attack detected later.
	mostEarly = 500
	runSlots  = 128
)

// Config is what a Recorder needs. All but Attacked, Now and Log are required.
type Config struct {
	DB *sql.DB // migrated
	// Secret keys the sketches in the database; the same on all nodes.
	Secret []byte
	// Attacked reports whether the detector sees an attack on a realm. If nil, only mode switches report attacks.
	Attacked func(realm string) bool
	// Shared is set if other processes use the database.
	Shared bool
	Now    func() time.Time // default time.Now
	Log    *slog.Logger     // default slog.Default()
}

// A Recorder detects and records attacks. It is safe for concurrent use; only Run and database reads block.
type Recorder struct {
	config Config
	node   string // this process
	hash   func(string) uint64

	mu     sync.Mutex
	realms map[string]*realm
	over   []*running // ended, not yet written

	told map[runKey]sharedRun // this node's runs in the database; used only by Flush
}

var _ events.Sink = (*Recorder)(nil)

// New returns a Recorder without attacks.
func New(c Config) *Recorder {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Recorder{config: c, node: rand.Text(), realms: map[string]*realm{},
		hash: tops.Keyed(c.Secret)}
}

// A realm is the state of one realm.
type realm struct {
	name    string
	all     *Recorder
	back    []backMinute // the last minutes, oldest first
	memory  memory
	early   []unknownClient
	runs    map[string]*tops.Top[run] // by kind
	rotated time.Time
	running map[subject]*running
}

type subject struct{ kind, name string }

type backMinute struct {
	minute int64
	*tally
}

// A run is failed or stopped attempts on one account or from one IP address, at most quietAfter apart.
type run struct {
	events []guard.Event
	good   int
}

// A running is this process's view of a running attack.
type running struct {
	saved
	realm   string
	subject subject
	began   time.Time
	resumed bool // continues a record of the day before its start, if there is one
	tally   *tally
	base    []part // counted before its detection
	logins  map[[2]string]*kept
	lost    int
	ended   time.Time
	partOf  string
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

// A kept is a recorded login.
type kept struct {
	Login
	unknownClient
	fresh bool // not yet written
}

// in returns a realm's state; the caller holds the lock.
func (r *Recorder) in(name string) *realm {
	name = cmp.Or(name, guard.DefaultRealm)
	of := r.realms[name]
	if of == nil {
		of = &realm{name: name, all: r, memory: memory{hash: r.hash}, running: map[subject]*running{},
			runs: map[string]*tops.Top[run]{Account: tops.New[run](runSlots), Address: tops.New[run](runSlots)}}
		r.realms[name] = of
	}
	return of
}

// Handle counts events.
func (r *Recorder) Handle(batch []guard.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range batch {
		if ending := events.EndingOf(&batch[i]); ending != events.Undecided && ending != events.Abandoned {
			r.in(batch[i].Realm).event(&batch[i], ending)
		}
	}
}

// HandleSwitch begins and ends attacks on a whole site.
func (r *Recorder) HandleSwitch(s events.ModeSwitch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.in(s.Realm)
	site := of.running[subject{kind: Site}]
	switch {
	case s.Attacked && site == nil:
		of.beginSite(s.At, s.Resumed)
	case !s.Attacked && site != nil:
		of.end(site, s.At, "")
	}
}

// Tick ends attacks without recent attempts.
func (r *Recorder) Tick(time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
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
		of.end(one, r.config.Now(), "")
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
	if e.Sprayed && of.running[subject{kind: Spray}] == nil && of.running[subject{kind: Site}] == nil {
		of.begin(subject{kind: Spray}, e.At, e.At)
	}
	counted := false
	for _, s := range subjectsOf(e) {
		if one := of.running[s]; one != nil {
			one.tally.add(e, ending)
			one.seen = later(one.seen, e.At)
			counted = true
		}
	}
	of.lookBack(e, ending)
	if !counted {
		of.suspectRun(e)
	}
}

// subjectsOf returns the attacks that an attempt would belong to.
func subjectsOf(e *guard.Event) []subject {
	all := []subject{{kind: Site}}
	if e.Account != "" {
		all = append(all, subject{Account, events.Escape(e.Account)})
	}
	if e.Address.IsValid() {
		all = append(all, subject{Address, addressOf(e.Address)})
	}
	if e.Sprayed {
		all = append(all, subject{kind: Spray})
	}
	return all
}

// lookBack counts the event in its minute, for an attack that is detected later.
func (of *realm) lookBack(e *guard.Event, ending events.Ending) {
	minute, n := e.At.Unix()/60, len(of.back)
	if n == 0 || of.back[n-1].minute < minute {
		of.back = slices.DeleteFunc(of.back,
			func(b backMinute) bool { return b.minute <= minute-int64(lookBack/time.Minute) })
		of.back = append(of.back, backMinute{minute, newTally(of.all.hash)})
	}
	of.back[len(of.back)-1].add(e, ending)
}

// suspectRun counts an attempt towards attacks, unless it repeats a password or is from a known client.
func (of *realm) suspectRun(e *guard.Event) {
	if e.Repeat || e.Known || e.Reasons.Has(guard.BadAccountName) {
		return
	}
	for _, s := range subjectsOf(e) {
		most := enoughOf(s.kind)
		if most == 0 {
			continue
		}
		t := of.runs[s.kind].Of(s.name)
		if t == nil {
			continue
		}
		if n := len(t.events); n > 0 && e.At.Sub(t.events[n-1].At) > quietAfter {
			*t = run{}
		}
		if t.events = append(t.events, *e); len(t.events) < most {
			continue
		}
		found := *t
		*t = run{}
		if 2*found.good < most { // users of a shared address mistype too, but then log in
			of.beginRun(s, found.events)
		}
	}
}

func (of *realm) good(e *guard.Event) {
	if !e.Address.IsValid() {
		return
	}
	if t := of.runs[Address].Of(addressOf(e.Address)); t != nil {
		t.good++
	}
}

func (of *realm) beginRun(s subject, attempts []guard.Event) {
	most := 0
	for other := range of.running {
		if other.kind == s.kind {
			most++
		}
	}
	if most >= mostAtOnce {
		return
	}
	of.count(of.begin(s, attempts[0].At, attempts[len(attempts)-1].At), attempts)
}

// count adds attempts from before the detection.
func (of *realm) count(one *running, attempts []guard.Event) {
	for i := range attempts {
		e := &attempts[i]
		one.tally.add(e, events.EndingOf(e))
		one.seen = later(one.seen, e.At)
		if e.At.Before(one.began) {
			one.began = e.At
		}
	}
}

// beginSite begins an attack on the whole site with the attempts that led to it. Running attacks on accounts or from IP
// addresses become part of it.
func (of *realm) beginSite(at time.Time, resumed bool) {
	began, parts := of.ledTo(at)
	one := of.begin(subject{kind: Site}, began, at)
	one.base, one.resumed = parts, resumed
	for _, other := range of.running {
		if other != one {
			of.end(other, at, one.id)
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
		saved: saved{id: idOf(began), part: rand.Text()}, realm: of.name, subject: s, began: began, seen: at,
		tally: newTally(of.all.hash), logins: map[[2]string]*kept{},
	}
	of.running[s] = one
	for _, early := range of.early {
		if at.Sub(early.at) <= lookBack || !early.at.Before(began) {
			of.keep(one, early)
		}
	}
	return one
}

// idOf returns an ID with the minute in which the attack began.
func idOf(began time.Time) string {
	return began.UTC().Format("20060102-1504-") + strings.ToLower(rand.Text()[:4])
}

func (of *realm) end(one *running, at time.Time, partOf string) {
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
	calmFor     = 30 * time.Second
	rotateEvery = time.Hour
)

func (of *realm) tick(now time.Time) {
	for s, one := range of.running {
		quiet := map[string]time.Duration{Site: lookBack, Spray: quietSpray}[s.kind]
		switch {
		case now.Sub(one.seen) < cmp.Or(quiet, quietAfter):
		case s.kind != Site:
			of.end(one, one.seen, "")
		case of.all.config.Attacked == nil || of.attacked():
			one.calm = time.Time{}
		case one.calm.IsZero():
			one.calm = now
		case now.Sub(one.calm) >= calmFor:
			of.end(one, one.seen, "")
		}
	}
	if n := len(of.back); of.attacked() && of.running[subject{kind: Site}] == nil && n > 0 &&
		now.Unix()/60-of.back[n-1].minute <= 1 {
		of.beginSite(now, true) // another node has the mode switch
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

// rotate drops old runs, so that names from long ago weigh nothing.
func (of *realm) rotate(now time.Time) {
	for kind, old := range of.runs {
		fresh := tops.New[run](runSlots)
		for name, t := range old.All() {
			if n := len(t.events); n > 1 && now.Sub(t.events[n-1].At) <= quietAfter {
				for range n - 1 {
					fresh.Of(name)
				}
				*fresh.Of(name) = *t
			}
		}
		of.runs[kind] = fresh
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// all returns the ended, unwritten attacks, then the running ones: the older of a subject first. The caller holds the
// lock.
func (r *Recorder) all() (all []*running) {
	for _, of := range r.realms {
		for _, one := range of.running {
			of.rejudge(one)
			all = append(all, one)
		}
	}
	return slices.Concat(r.over, all)
}
