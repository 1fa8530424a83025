package passwords

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Defaults of a QueueConfig.
const (
	DefaultQueue   = 1000
	DefaultMaxWait = 5 * time.Second
)

// A QueueConfig configures a Gate. The zero QueueConfig is the default.
type QueueConfig struct {
	AtOnce  int              // checks that run at the same time; default one per CPU
	Queue   int              // how many may wait; default DefaultQueue
	MaxWait time.Duration    // how long; default DefaultMaxWait
	Now     func() time.Time // the clock of everything but timers; default time.Now
	// Timed is told of each check, when it ends, how long it waited for its turn and how
	// long it took then. It must not block. Nil: nobody is told.
	Timed func(ctx context.Context, waited, took time.Duration)
	// Hogged is told once when one account or address begins to fill the
	// queue, and must not block. Nil: nobody is told.
	Hogged func(Heavy)
}

// A Queue lets in so many at once and shares the turns out among those who wait
// (R26). Nobody is slowed while there is a free turn. Otherwise
//
//   - whoever has asked least in the last minute or two goes first: the thirtieth
//     login of one account and place stands behind everybody's first. Among
//     equals, known people go before strangers;
//   - strangers, known people and administrators each have a quarter of the turns,
//     whatever the others ask for, and the last quarter goes to whoever asked least;
//   - fake failures have the turns that nobody else waits for, and are the first to go
//     when the queue is full;
//   - when the queue is full, the longest of the three lines loses whoever has
//     asked most.
//
// It is safe for concurrent use and has no goroutine of its own.
type Queue struct {
	config QueueConfig

	mu      sync.Mutex
	running int
	turn    int // how many turns were handed on
	lines   [classes][]*waiter
	present map[string]*presence // running and waiting, of each account, pair and address
	asked   *[2]lately           // by pairs and by addresses: 256 KiB from the first that asks on
	typical time.Duration        // a check takes
	hog     hogging
	shed    uint64
}

// The classes, each with a line of its own.
const (
	strangers = iota
	known
	administrators
	fakes
	classes
)

// An Request is who wants a password checked.
type Request struct {
	// Known: at a privileged place of the account.
	Known bool
	// Admin: at the administration's door, which the public must not close.
	Admin bool
	// Fake: a fake failure, whose check decides nothing.
	Fake bool
	// Pair and Address recognise the account at its place, and its address. They
	// are keyed digests: nobody can choose with whom to share one.
	Pair, Address [16]byte
	// Account and From are for the operator's eyes.
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
	return strangers
}

// A waiter stands in a line. ready gets nil when it may go in, or why not; it is
// out of the line then.
type waiter struct {
	Request
	rank   int // how often it has asked lately: lower goes first
	came   time.Time
	inLine bool
	ready  chan error
}

// ErrOverloaded says that there was no room for a check. An *Overload wraps it.
var ErrOverloaded = errors.New("passwords: too many concurrent password checks")

// NewQueue makes an open Gate.
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

// Enter waits for its turn. Without an error the caller checks one password and
// then calls leave, once or more. The error is an *Overload if there is no room
// or no turn in time, and ctx's if that ends first.
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

// queue lets w in at once if there is room, which means that nobody waits.
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

// A presence is how many checks of one account, pair or address run or wait.
type presence struct {
	n    int
	last Request
}

// count keeps who is present.
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

// keys are those of the account, of the pair and of the address.
func (a *Request) keys() [3]string {
	return [3]string{accountKey + a.Account, "pair " + string(a.Pair[:]), "address " + string(a.Address[:])}
}

// What may wait of one pair: twenty logins of one account at once are none too
// many (R3). Of one address, which may be a school's, a quarter of the queue may.
const fewOfPair = 32

// tooMany reports whether w's pair or address has its fill of the queue.
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

// giveUp takes w out of its line. If its turn has come in the meantime, it goes
// to the next one. A nil reason is the overload.
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
		return err // a turn that came just in time is taken
	}
	g.count(w, -1)
	g.next()
	return reason
}

// leave gives the caller's turn back, once.
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

// next hands a free turn on, or keeps it for whoever comes.
func (g *Queue) next() {
	if w := g.first(); w != nil {
		g.answer(w, nil)
		return
	}
	g.running--
}

// answer takes w out of its line.
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

// first is whose turn it is; nil if nobody waits. Each class has every fourth
// turn; the one that remains, and those that a class does not need, go to whoever
// has asked least. Fake failures have no share.
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

// ahead is who goes first in a line: whoever has asked least. Of equals it is
// the one who came first, while the line is a second's work at most. In a longer
// one it is the one who came last: if not everybody can be served in time, the
// oldest have the least to gain, and nobody new would ever be served in time.
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

// last is who has to go when the queue is full: of the fake failures or, without any, in
// the longest line, so that none pushes out another; there whoever has asked most and of
// equals waited longest.
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

// soon is how many can be served within a second.
func (g *Queue) soon() int {
	return max(1, int(time.Duration(g.config.AtOnce)*time.Second/max(g.typical, time.Millisecond)))
}

func (g *Queue) queued() (n int) {
	for _, line := range g.lines {
		n += len(line)
	}
	return n
}

// overload is for somebody who is still in line.
func (g *Queue) overload() error {
	drained := g.typical * time.Duration(g.queued()) / time.Duration(g.config.AtOnce)
	whole := (drained + time.Second - 1).Truncate(time.Second)
	return &Overload{RetryAfter: min(max(whole, time.Second), time.Minute)}
}

// rank counts one more of the asker and says how often it has asked before. An
// address where people are known may be a whole school's: there eight of others
// weigh as much as one of one's own.
func (g *Queue) rank(a *Request) int {
	if g.asked == nil {
		g.asked = new([2]lately)
	}
	minute := uint32(g.config.Now().Unix() / 60)
	pair, address := g.asked[0].add(a.Pair, minute), g.asked[1].add(a.Address, minute)
	if a.Known {
		address /= 8
	}
	return pair + address
}

// lately counts in a table of fixed size: in the running minute and the one
// before. Those that fall together are counted together, which puts them further
// back and nobody else; the digests are keyed, so nobody can aim at it.
type lately [1 << 14]struct {
	minute      uint32
	before, now uint16
}

// add counts one more, and returns how many there were.
func (l *lately) add(who [16]byte, minute uint32) int {
	one := &l[binary.LittleEndian.Uint16(who[:])%uint16(len(l))]
	switch minute - one.minute {
	case 0:
	case 1:
		one.before, one.now = one.now, 0
	default:
		one.before, one.now = 0, 0
	}
	one.minute = minute
	already := int(one.before) + int(one.now)
	if one.now < 1<<16-1 {
		one.now++
	}
	return already
}

// A Heavy is one account or address that fills the queue: for some seconds it has
// had a quarter of all who are there, or more, while others had to wait for more
// than a second.
type Heavy struct {
	Account string     // empty: many accounts of one address
	Address netip.Addr // it asked last from there
	Present int        // of its checks that run or wait
	All     int        // checks that run or wait
}

const (
	hogsFor  = 5 * time.Second  // so long before it is told of: bursts end by then
	hogsAnew = 10 * time.Minute // after so long without, the next one is told of
	hogLook  = time.Second / 4  // the queue is looked at no more often
)

// hogging is what is known of a hog.
type hogging struct {
	looked, since, last time.Time
	told                bool
}

// hogged is the hog that there is, if somebody has to be told now.
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

// largest is the account or address with most checks.
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

// tell tells of a hog, if there is one. The caller does not hold the lock.
func (g *Queue) tell(h *Heavy) {
	if h != nil && g.config.Hogged != nil {
		g.config.Hogged(*h)
	}
}

// A QueueState is what a Gate is doing.
type QueueState struct {
	Running                        int
	Unknown, Known, Administrators int    // who wait
	Shed                           uint64 // turned away for overload, since the start
	Hogged                         bool   // one account or address has filled the queue in the last seconds
}

// Waiting is how many wait for their turn.
func (s QueueState) Waiting() int { return s.Unknown + s.Known + s.Administrators }

// State is for the metrics.
func (g *Queue) State() QueueState {
	g.mu.Lock()
	defer g.mu.Unlock()
	return QueueState{
		Running: g.running, Unknown: len(g.lines[strangers]) + len(g.lines[fakes]), Known: len(g.lines[known]),
		Administrators: len(g.lines[administrators]),
		Shed:           g.shed, Hogged: g.hog.told && g.config.Now().Sub(g.hog.last) <= hogsFor,
	}
}
