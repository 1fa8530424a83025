package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/nodes"
	"authguard/internal/redisstore"
	"authguard/internal/testing/clocktest"
	"authguard/internal/testing/redistest"
	"authguard/trusted"
)

// Every order of events, in three steps. The model below says in a page what two
// nodes and Redis do with five attempts at an account that allows two failures.
// TestR1EveryOrderOfEvents walks through all of its states and holds the promises in
// each. TestR1TheStoresDoAsTheModelSays has the stores walk so many of its paths that
// every kind of step was taken.

const (
	allowed = 2
	// bound is R22's: the limit in Redis, and half of it, or one attempt on each node.
	bound = allowed + 2
	// losses is how often Redis is lost on one path.
	losses = 2
)

// A try is one attempt in the model, and where its charge stands.
type try struct {
	node            int
	phase           phase
	inRedis, inNode bool
	unsent          bool // its node has yet to write the outcome to Redis
}

type phase uint8

const (
	fresh phase = iota // not begun, or refused and free to come again
	open
	failed
	good
)

// A model is a state of the site.
type model struct {
	tries [5]try
	lost  bool    // Redis
	alone [2]bool // the nodes that know
	times int     // that Redis was lost
}

// An event is what may happen next: something of an attempt, of Redis or of a node.
type event struct {
	what string
	n    int
}

// events are all that may happen.
func (m *model) events() (all []event) {
	for i, t := range m.tries {
		switch t.phase {
		case fresh:
			all = append(all, event{"begin", i})
		case open:
			all = append(all, event{"fail", i}, event{"succeed", i}, event{"withdraw", i})
		}
	}
	if m.lost {
		all = append(all, event{"return", 0})
	} else if m.times < losses {
		all = append(all, event{"lose", 0})
	}
	for n, alone := range m.alone {
		if alone && !m.lost {
			all = append(all, event{"rejoin", n})
		}
	}
	return all
}

// after is the state after an event, and whether an attempt that began may have its
// password checked.
func (m model) after(e event) (next model, charged bool) {
	t := &m.tries[e.n]
	switch e.what {
	case "lose":
		m.lost, m.times = true, m.times+1
	case "return":
		m.lost = false
	case "rejoin":
		m.alone[e.n] = false
		for i := range m.tries {
			if t := &m.tries[i]; t.node == e.n && t.unsent {
				t.unsent, t.inRedis = false, false
			}
		}
	case "begin":
		together := m.together(t.node)
		switch {
		case together && m.redis() < allowed:
			t.phase, t.inRedis = open, true
		case !together && m.node(t.node) < allowed/2: // its part is half a limit, or one
			t.phase, t.inNode = open, true
		default:
			return m, false
		}
		return m, true
	case "fail":
		t.phase = failed // the charge is there already
	default: // it succeeds, or is withdrawn
		alone := t.inNode
		t.phase, t.inNode = good, false
		switch {
		case alone && e.what == "withdraw": // Redis has nothing of it
		case m.together(t.node):
			t.inRedis = false
		default:
			t.unsent = true
		}
	}
	return m, false
}

// together reports whether a node counts in Redis. One that finds Redis gone is alone
// from then on.
func (m *model) together(node int) bool {
	m.alone[node] = m.alone[node] || m.lost
	return !m.alone[node]
}

func (m *model) redis() int { return m.count(func(t try) bool { return t.inRedis }) }
func (m *model) node(of int) int {
	return m.count(func(t try) bool { return t.inNode && t.node == of })
}

// undecided reports whether something undecided is in the way of an attempt that Redis
// has no room for: without it there would be room.
func (m *model) undecided() bool {
	return m.count(func(t try) bool { return t.inRedis && t.phase == failed }) < allowed
}

// checked is how many passwords were looked at and not made good: what the limit is
// about.
func (m *model) checked() int {
	return m.count(func(t try) bool { return t.phase == open || t.phase == failed })
}

func (m *model) count(counts func(try) bool) (n int) {
	for _, t := range m.tries {
		if counts(t) {
			n++
		}
	}
	return n
}

// key is the same for states that differ in the attempts' numbers only: those of one
// node are alike. It is what makes the walk short.
func (m model) key() model {
	slices.SortFunc(m.tries[:], func(a, b try) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return m
}

// broken names the promise that a state breaks.
func (m model) broken() string {
	if m.times == 0 && m.checked() > allowed {
		return fmt.Sprintf("%d passwords checked while Redis is there", m.checked())
	}
	if m.checked() > bound {
		return fmt.Sprintf("%d passwords checked in an outage, the bound is %d", m.checked(), bound)
	}
	// Let everything end well: what is left is what has failed, and a right password
	// gets in where that leaves room.
	for i, t := range m.tries {
		if t.phase == open {
			m, _ = m.after(event{"succeed", i})
		}
	}
	m.lost = false
	for n, alone := range m.alone {
		if alone {
			m, _ = m.after(event{"rejoin", n})
		}
	}
	failures := m.count(func(t try) bool { return t.phase == failed })
	if left := m.redis() + m.node(0) + m.node(1); left != failures {
		return fmt.Sprintf("%d failures, %d charges are left in Redis and the nodes", failures, left)
	}
	for i, t := range m.tries {
		if _, in := m.after(event{"begin", i}); t.phase == fresh && failures < allowed && !in {
			return "a right password is refused, and nothing is under way that could end it"
		}
	}
	return ""
}

// underWay is an attempt that is, or -1.
func (m *model) underWay() int {
	return slices.IndexFunc(m.tries[:], func(t try) bool { return t.phase == open })
}

// A path is how a state was reached.
type path struct {
	events []event
	at     model
}

// walk visits every state that can be reached, by the number of attempts that the
// second node has, and calls step for every step.
func walk(t *testing.T, step func(from path, e event, to model, charged bool)) (states, steps int) {
	t.Helper()
	for second := range 3 {
		var start model
		for i := range start.tries {
			if i < second {
				start.tries[i].node = 1
			}
		}
		seen := map[model]bool{start.key(): true}
		for queue := []path{{at: start}}; len(queue) > 0; queue = queue[1:] {
			from := queue[0]
			states++
			if why := from.at.broken(); why != "" {
				t.Fatalf("%s after %v", why, from.events)
			}
			for _, e := range from.at.events() {
				to, charged := from.at.after(e)
				steps++
				step(from, e, to, charged)
				if key := to.key(); !seen[key] {
					seen[key] = true
					queue = append(queue, path{append(slices.Clone(from.events), e), to})
				}
			}
		}
	}
	return states, steps
}

// kind is all that the model's next step depends on, and what comes of it: paths that
// take every kind of step take every line of the model in every circumstance.
func kind(m model, e event, charged bool) string {
	if e.what == "lose" || e.what == "return" {
		return fmt.Sprint(e.what, m.alone)
	}
	n := e.n
	if e.what != "rejoin" {
		n = m.tries[e.n].node
	}
	unsent := 0
	for _, t := range m.tries {
		if t.unsent && t.node == n {
			unsent++
		}
	}
	circumstances := fmt.Sprint(e.what, charged, m.lost, m.alone[n], unsent, min(m.redis(), allowed), min(m.node(n),
		allowed))
	if e.what == "rejoin" {
		return circumstances
	}
	return circumstances + fmt.Sprint(m.tries[e.n].inRedis, m.tries[e.n].inNode)
}

// cable is the line to Redis, which may be cut.
type cable struct{ cut *atomic.Bool }

var errCut = &net.OpError{Op: "write", Net: "tcp", Err: errors.New("the cable is cut")}

func (c cable) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c cable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if c.cut.Load() {
			cmd.SetErr(errCut)
			return errCut
		}
		return next(ctx, cmd)
	}
}

func (c cable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if c.cut.Load() {
			for _, cmd := range cmds {
				cmd.SetErr(errCut)
			}
			return errCut
		}
		return next(ctx, cmds)
	}
}

// A replayed site has the stores do what the model did.
type replayed struct {
	clock  *clocktest.Clock
	cut    atomic.Bool
	nodes  [2]*nodes.Store
	counts [2]*failures.Memory
	reader *redisstore.Store
	begun  [5]guard.Charge
}

const window = time.Hour

func newReplayed(t *testing.T, server *redistest.Server, prefix string, pendingFor time.Duration) *replayed {
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	r := &replayed{clock: clocktest.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))}
	options := redisstore.Options{Prefix: prefix, PendingFor: pendingFor, Clock: r.clock.Now}
	at := redisstore.Server{Addresses: []string{server.Addr}}
	var err error
	for n := range r.nodes {
		r.counts[n], err = failures.NewMemory(failures.Config{Retain: 2 * window, PendingFor: pendingFor, Now: r.clock.Now})
		must(err)
		clients, err := trusted.NewMemory(trusted.MemoryConfig{})
		must(err)
		client := redisstore.Connect(at, patient)
		t.Cleanup(func() { _ = client.Close() })
		r.nodes[n], err = nodes.New(nodes.Config{
			Client: client, Redis: options, Counters: r.counts[n], KnownClients: clients, Budget: patient,
			Nodes: func() int { return 2 }, Log: slog.New(slog.DiscardHandler),
		})
		must(err)
		client.AddHook(cable{&r.cut})
	}
	client := redisstore.Connect(at, patient)
	t.Cleanup(func() { _ = client.Close() })
	r.reader, err = redisstore.New(client, options)
	must(err)
	return r
}

// charge is an attempt as a store sees it: of one account, from a client of its own.
func (r *replayed) charge(i, limit int) guard.Charge { return chargeOf(r.clock.Now(), i, limit) }

// chargeOf is charged to its account and pair; only the account has a limit that stops it.
func chargeOf(now time.Time, i, limit int) (c guard.Charge) {
	c.Now, c.Account, c.Address, c.From = now, trusted.Key{1}, trusted.Key{2, byte(i)}, trusted.Key{2, byte(i)}
	every := [3]failures.Mask{failures.Every, failures.Every, failures.Every}
	c.Add(subject(guard.OnAccount, c.Account, limit, guard.UnknownClient, every))
	c.Add(subject(guard.OnPair, [16]byte{1, 2, byte(i)}, 1000, guard.UnknownClient|guard.KnownAddress, [3]failures.Mask{}))
	return c
}

// subject is kept with the account.
func subject(kind guard.SubjectKind, key [16]byte, limit int, clients guard.Clients,
	binds [3]failures.Mask) guard.Subject {
	s := guard.Subject{Kind: kind, For: clients, Binds: binds}
	s.Shard, s.Key = failures.Key{1}, key
	s.Limits = failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: limit, Window: window})
	return s
}

// usage is the account's.
func usage(c *guard.Charge) failures.Usage { return c.Subjects()[0].Usage }

// standing is how many charges of the account stand in Redis and in a node.
func (r *replayed) standing(t *testing.T, node int) (inRedis, inNode int) {
	c := r.charge(99, 1000)
	if _, err := r.reader.Read(t.Context(), &c); err != nil {
		t.Error(err)
	}
	account := [1]failures.Subject{c.Subjects()[0].Subject}
	var here [1]failures.Usage
	if err := r.counts[node].Read(t.Context(), account[:], here[:], nil); err != nil {
		t.Error(err)
	}
	return int(usage(&c).Count), int(here[0].Count)
}

// do is one event; it reports whether an attempt was let through to its password.
func (r *replayed) do(t *testing.T, m *model, e event) (charged bool) {
	ctx := t.Context()
	switch e.what {
	case "lose", "return":
		r.cut.Store(e.what == "lose")
	case "rejoin":
		redistest.Until(t, "the node to find Redis again", func() bool {
			r.nodes[e.n].Look(ctx)
			return r.nodes[e.n].Up() && r.nodes[e.n].Unsent() == 0
		})
	default:
		return r.doAt(t, r.nodes[m.tries[e.n].node], e)
	}
	return false
}

// doAt is an event of an attempt, at a store.
func (r *replayed) doAt(t *testing.T, store guard.Store, e event) (charged bool) {
	ctx := t.Context()
	settle := func(o guard.Outcome) {
		c := r.begun[e.n]
		c.Now = r.clock.Now()
		if err := store.Settle(ctx, &c, o); err != nil {
			t.Errorf("%v: %v", e, err)
		}
	}
	r.clock.Advance(time.Millisecond)
	switch e.what {
	case "begin":
		c := r.charge(e.n, allowed)
		if err := store.Begin(ctx, &c); err != nil {
			t.Errorf("%v: %v", e, err)
		}
		r.begun[e.n] = c
		return c.ID.Charged()
	case "fail":
		settle(guard.Failed)
	case "succeed":
		settle(guard.Succeeded)
	case "withdraw":
		settle(guard.Withdrawn)
	}
	return false
}

// waits reports whether an attempt without room waits, after each node had one round to
// write down what it knows.
func (r *replayed) waits(t *testing.T, node int) bool {
	for _, n := range r.nodes {
		if err := n.Redis().Answer(t.Context()); err != nil {
			t.Error(err)
		}
	}
	c := r.charge(98, allowed)
	err := r.nodes[node].Begin(t.Context(), &c)
	if err != nil || c.ID.Charged() {
		t.Errorf("charged %v, %v", c.ID.Charged(), err)
	}
	return usage(&c).Failed == 0
}

// replay has the stores take a path, and compares them with the model after each step;
// then it lets everything end and the window pass, after which anybody gets in.
func replay(t *testing.T, server *redistest.Server, prefix string, m model, events []event) {
	r := newReplayed(t, server, prefix, window)
	for i := 0; i < len(events) || m.underWay() >= 0; i++ {
		if i == len(events) {
			events = append(events, event{"succeed", m.underWay()})
		}
		e := events[i]
		next, want := m.after(e)
		got := r.do(t, &m, e)
		m = next
		if got != want {
			t.Errorf("%v: the last one was charged: %v, the model says %v", events[:i+1], got, want)
			return
		}
		if e.what == "begin" && !want && !m.lost && m.alone == [2]bool{} {
			if waits := r.waits(t, m.tries[e.n].node); waits != m.undecided() {
				t.Errorf("%v: the last one waits: %v, the model says %v", events[:i+1], waits, m.undecided())
				return
			}
		}
		for n := range r.nodes {
			inRedis, inNode := r.standing(t, n)
			if inRedis != m.redis() || inNode != m.node(n) {
				t.Errorf("%v: %d charges in Redis and %d in node %d, the model says %d and %d", events[:i+1], inRedis, inNode, n,
					m.redis(), m.node(n))
				return
			}
		}
	}
	r.cut.Store(false)
	r.clock.Advance(window + time.Second)
	for n := range r.nodes {
		c := r.charge(50+n, allowed)
		if err := r.nodes[n].Begin(t.Context(), &c); err != nil || !c.ID.Charged() {
			t.Errorf("%v: a window later a right password is refused at node %d (%v)", events, n, err)
		}
	}
}

// replayInMemory has a node that is the whole site take a path on which nothing is lost.
func replayInMemory(t *testing.T, m model, events []event) {
	t.Helper()
	r := &replayed{clock: clocktest.At(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC))}
	counts, err := failures.NewMemory(failures.Config{Retain: 2 * window, PendingFor: window, Now: r.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	clients, err := trusted.NewMemory(trusted.MemoryConfig{})
	if err != nil {
		t.Fatal(err)
	}
	store := guard.NewLocal(counts, clients)
	for i, e := range events {
		next, want := m.after(e)
		m = next
		got := r.doAt(t, store, e)
		read := r.charge(99, 1000)
		_, err := store.Read(t.Context(), &read)
		if count := int(usage(&read).Count); got != want || min(count, allowed) != min(m.redis(), allowed) || err != nil {
			t.Errorf("%v in memory: charged %v, %d charges stand (%v); the model says %v, %d", events[:i+1], got, count, err,
				want, m.redis())
			return
		}
	}
}
