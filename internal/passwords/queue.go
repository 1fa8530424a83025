package passwords

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"authguard/internal/times"
)

// Defaults of a QueueConfig.
const (
	DefaultQueue   = 1000
	DefaultMaxWait = 5 * time.Second
)

// A QueueConfig configures a Queue. The zero QueueConfig is the default.
type QueueConfig struct {
	AtOnce  int              // concurrent checks; default one per CPU
	Queue   int              // maximum number of waiting checks; default DefaultQueue
	MaxWait time.Duration    // maximum wait; default DefaultMaxWait
	Now     func() time.Time // the clock, except for timers; default time.Now
	// Timed is called at the end of each check with the times that it waited and took. It must not block; may be nil.
	Timed func(ctx context.Context, waited, took time.Duration)
	// Hogged is called when one account or IP address starts to fill the queue. It must not block; may be nil.
	Hogged func(Heavy)
}

// A Queue limits concurrent password checks (R26). Without a free slot, requests wait:
//
//   - The request whose pair and IP address made the fewest requests in the last one to two minutes goes first. Of
//     equal ones, known clients go before unknown ones.
//   - Unknown clients, known clients and administrators each have a quarter of the slots. The last quarter goes to the
//     request with the fewest earlier ones.
//   - Fake failures use only slots that no other request waits for, and a full queue drops them first.
//   - A full queue then drops, from the longest of the three lines, the request with the most earlier ones.
//
// It is safe for concurrent use and has no goroutine of its own.
type Queue struct {
	config QueueConfig

	mu      sync.Mutex
	running int
	turn    int // number of slots handed on
	lines   [classes][]*waiter
	present map[string]*presence // running and waiting, by account, pair and address
	asked   *[2]times.Counts     // by pair and by address; 256 KiB, allocated at the first request
	typical time.Duration        // duration of a check
	hog     hogging
	shed    uint64
}

// The classes, each with its own line.
const (
	unknown = iota
	known
	administrators
	fakes
	classes
)

// A Request is a request to check a password.
type Request struct {
	// Known: from a known client of the account.
	Known bool
	// Admin: to the admin console, whose share an attack on the public login cannot use up.
	Admin bool
	// Fake: a fake failure, whose check decides nothing.
	Fake bool
	// Pair and Address are keyed digests of the account and IP pair and of the IP address. An attacker cannot choose
	// colliding ones.
	Pair, Address [16]byte
	// Account and From are for reports to administrators.
	Account string
	From    netip.Addr
}

func (a *Request) class() int {
	switch {
	case a.Fake:
		return fakes
	case a.Admin:
		return administrators
	case a.Known:
		return known
	}
	return unknown
}

// A waiter is a waiting request. When it leaves its line, ready receives nil for a slot, or the error.
type waiter struct {
	Request
	rank   int // earlier requests: lower goes first
	came   time.Time
	inLine bool
	ready  chan error
}

// ErrOverloaded means that there was no room for a check. An *Overload wraps it.
var ErrOverloaded = errors.New("passwords: too many concurrent password checks")

// NewQueue returns an empty Queue, or all problems with the config.
func NewQueue(config QueueConfig) (*Queue, error) {
	var problems []error
	if config.AtOnce < 0 {
		problems = append(problems, errors.New("max_concurrent: must be at least 1"))
	}
	if config.Queue < 0 {
		problems = append(problems, errors.New("max_queued: must be at least 1"))
	}
	if config.MaxWait < 0 {
		problems = append(problems, errors.New("queue_timeout: must be more than 0"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Queue{config: config.withDefaults(), typical: 250 * time.Millisecond, present: make(map[string]*presence)}, nil
}

func (c QueueConfig) withDefaults() QueueConfig {
	if c.AtOnce == 0 {
		c.AtOnce = runtime.GOMAXPROCS(0)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Enter waits for a slot. Without an error, the caller checks one password and then calls leave at least once. The
// error is an *Overload if the queue is full or the wait too long, or ctx's if that ends first.
func (g *Queue) Enter(ctx context.Context, a Request) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{Request: a, came: g.config.Now(), ready: make(chan error, 1)}
	g.tell(g.queue(w))
	if err := g.wait(ctx, w); err != nil {
		return nil, err
	}
	return g.leave(ctx, w), nil
}

func (g *Queue) queue(w *waiter) *Heavy {
	g.mu.Lock()
	defer g.mu.Unlock()
	w.rank = g.rank(&w.Request)
	g.count(w, 1)
	if g.running < g.config.AtOnce {
		g.running++
		w.ready <- nil
		return nil
	}
	w.inLine = true
	g.lines[w.class()] = append(g.lines[w.class()], w)
	switch {
	case g.tooMany(w):
		g.turnAway(w)
	case g.queued() > g.config.Queue:
		g.turnAway(g.last())
	}
	return g.hogged()
}

// A presence is the number of running and waiting checks of one account, pair or address.
type presence struct {
	n    int
	last Request
}

func (g *Queue) count(w *waiter, n int) {
	for _, key := range w.keys() {
		p := g.present[key]
		if p == nil {
			p = new(presence)
			g.present[key] = p
		}
		if p.n += n; p.n == 0 {
			delete(g.present, key)
		}
		p.last = w.Request
	}
}

const accountKey = "account "

func (a *Request) keys() [3]string {
	return [3]string{accountKey + a.Account, "pair " + string(a.Pair[:]), "address " + string(a.Address[:])}
}

// fewOfPair is how many requests of one pair may wait: twenty concurrent logins of one account are legitimate (R3).
// One IP address, which may be a school's, may have a quarter of the queue.
const fewOfPair = 32

// tooMany reports whether w's pair or address has used up its part of the queue.
func (g *Queue) tooMany(w *waiter) bool {
	keys, turns := w.keys(), g.config.AtOnce
	return g.present[keys[1]].n > turns+fewOfPair || g.present[keys[2]].n > turns+max(2*fewOfPair, g.config.Queue/4)
}

func (g *Queue) turnAway(w *waiter) {
	g.shed++
	g.answer(w, g.overload())
}

func (g *Queue) wait(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(g.config.MaxWait)
	defer timer.Stop()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
		return g.giveUp(w, ctx.Err())
	case <-timer.C:
		return g.giveUp(w, nil)
	}
}

// giveUp removes w from its line. If it received a slot meanwhile, the slot goes to the next waiter. A nil reason
// means overload.
func (g *Queue) giveUp(w *waiter, reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.inLine && reason == nil:
		g.turnAway(w)
	case w.inLine:
		g.answer(w, reason)
	}
	if err := <-w.ready; err != nil || reason == nil {
		return err // a slot that came just in time is used
	}
	g.count(w, -1)
	g.next()
	return reason
}

// leave returns a function that frees the slot once.
func (g *Queue) leave(ctx context.Context, w *waiter) func() {
	entered := g.config.Now()
	return sync.OnceFunc(func() {
		took := g.config.Now().Sub(entered)
		g.mu.Lock()
		g.typical += (took - g.typical) / 16
		g.count(w, -1)
		g.next()
		hog := g.hogged()
		g.mu.Unlock()
		g.tell(hog)
		if g.config.Timed != nil {
			g.config.Timed(ctx, entered.Sub(w.came), took)
		}
	})
}

func (g *Queue) next() {
	if w := g.first(); w != nil {
		g.answer(w, nil)
		return
	}
	g.running--
}

func (g *Queue) answer(w *waiter, err error) {
	line := &g.lines[w.class()]
	at := slices.Index(*line, w)
	*line = slices.Delete(*line, at, at+1)
	w.inLine = false
	if err != nil {
		g.count(w, -1)
	}
	w.ready <- err
}

// first returns the next waiter; nil if there is none. Each class has every fourth slot. The remaining one, and
// unused ones, go to the request with the fewest earlier ones. Fake failures have no share.
func (g *Queue) first() (best *waiter) {
	g.turn++
	if class := g.turn % (fakes + 1); class < fakes && len(g.lines[class]) > 0 {
		return g.ahead(g.lines[class])
	}
	for class := fakes - 1; class >= 0; class-- {
		if w := g.ahead(g.lines[class]); w != nil && (best == nil || w.rank < best.rank) {
			best = w
		}
	}
	if best == nil {
		return g.ahead(g.lines[fakes])
	}
	return best
}

// ahead returns the next request of a line: the one with the fewest earlier ones. Of equal ones, it is the oldest
// while the line takes at most a second. In a longer line it is the newest, since the oldest are about to time out.
// Oldest first would serve no new request in time.
func (g *Queue) ahead(line []*waiter) (best *waiter) {
	newest := len(line) > g.soon()
	for _, w := range line {
		if best == nil || w.rank < best.rank || w.rank == best.rank && (w.Known && !best.Known || newest &&
			w.Known == best.Known) {
			best = w
		}
	}
	return best
}

// last returns the waiter to drop from a full queue: a fake failure, else one from the longest line, so that no class
// displaces another. Of that line, it is the one with the most earlier requests, and of equal ones the oldest.
func (g *Queue) last() (worst *waiter) {
	longest := g.lines[fakes]
	if len(longest) == 0 {
		longest = slices.MaxFunc(g.lines[:], func(a, b []*waiter) int { return len(a) - len(b) })
	}
	for _, w := range longest {
		if worst == nil || w.rank > worst.rank {
			worst = w
		}
	}
	return worst
}

func (g *Queue) soon() int {
	return max(1, int(time.Duration(g.config.AtOnce)*time.Second/max(g.typical, time.Millisecond)))
}

func (g *Queue) queued() (n int) {
	for _, line := range g.lines {
		n += len(line)
	}
	return n
}

// overload returns the error for a waiter that is still in line.
func (g *Queue) overload() error {
	drained := g.typical * time.Duration(g.queued()) / time.Duration(g.config.AtOnce)
	whole := (drained + time.Second - 1).Truncate(time.Second)
	return &Overload{RetryAfter: min(max(whole, time.Second), time.Minute)}
}

// rank counts a request and returns the number of earlier ones. An IP address with known clients may be a school's:
// for these, eight requests of others count as one.
func (g *Queue) rank(a *Request) int {
	if g.asked == nil {
		g.asked = new([2]times.Counts)
	}
	minute := uint32(g.config.Now().Unix() / 60)
	pair, _ := g.asked[0].Add(&a.Pair, minute, math.MaxUint16)
	address, _ := g.asked[1].Add(&a.Address, minute, math.MaxUint16)
	if a.Known {
		address /= 8
	}
	return pair + address
}

// A Heavy is an account or IP address that fills the queue. For hogsFor, it has had at least a quarter of all checks,
// while others waited for more than a second.
type Heavy struct {
	Account string     // empty: many accounts of one address
	Address netip.Addr // of the last request
	Present int        // its running and waiting checks
	All     int        // all running and waiting checks
}

const (
	hogsFor  = 5 * time.Second  // minimum duration before a report: bursts end sooner
	hogsAnew = 10 * time.Minute // pause after which the next one is reported
	hogLook  = time.Second / 4  // minimum time between two looks at the queue
)

// hogging is the state of Heavy detection.
type hogging struct {
	looked, since, last time.Time
	told                bool
}

// hogged returns a Heavy that must be reported now, or nil.
func (g *Queue) hogged() *Heavy {
	h, now := &g.hog, g.config.Now()
	if now.Sub(h.looked) < hogLook {
		return nil
	}
	h.looked = now
	hog := g.largest()
	if g.queued() <= g.soon() || 4*hog.Present < hog.All {
		return nil
	}
	pause := now.Sub(h.last)
	if pause > hogsFor {
		h.since = now
	}
	h.told = h.told && pause <= hogsAnew
	h.last = now
	if h.told || now.Sub(h.since) < hogsFor {
		return nil
	}
	h.told = true
	return &hog
}

func (g *Queue) largest() (most Heavy) {
	most.All = g.running + g.queued()
	for key, p := range g.present {
		account := strings.HasPrefix(key, accountKey)
		if p.n < most.Present || p.n == most.Present && !account {
			continue
		}
		most.Present, most.Address, most.Account = p.n, p.last.From, ""
		if account {
			most.Account = p.last.Account
		}
	}
	return most
}

// tell reports a Heavy, if there is one. The caller does not hold the lock.
func (g *Queue) tell(h *Heavy) {
	if h != nil && g.config.Hogged != nil {
		g.config.Hogged(*h)
	}
}

// A QueueState is the current state of a Queue.
type QueueState struct {
	Running                        int
	Unknown, Known, Administrators int    // waiting
	Shed                           uint64 // rejected because of overload, since the start
	Hogged                         bool   // one account or address has filled the queue in the last seconds
}

// Waiting returns the number of waiting requests.
func (s QueueState) Waiting() int { return s.Unknown + s.Known + s.Administrators }

// State returns the state for metrics.
func (g *Queue) State() QueueState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return QueueState{
		Running: g.running, Unknown: len(g.lines[unknown]) + len(g.lines[fakes]), Known: len(g.lines[known]),
		Administrators: len(g.lines[administrators]),
		Shed:           g.shed, Hogged: g.hog.told && g.config.Now().Sub(g.hog.last) <= hogsFor,
	}
}
