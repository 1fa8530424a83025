package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/internal/redisstore"
	"authguard/internal/testing/redistest"
	"authguard/trusted"
)

func limitSet(failed int, window time.Duration) *failures.Limits {
	return failures.MustLimits(failures.Backoff{}, failures.Limit{Failures: failed, Window: window})
}

// The tests' limits: ten failures of unknown clients on an account, three of a
// known client.
var (
	wide      = limitSet(1000, time.Hour)
	ofAccount = limitSet(10, time.Hour)
	ofPair    = limitSet(3, time.Hour)
)

// digest is like a keyed digest: all of it differs from one to the next.
func digest(kind byte, n int) (k [16]byte) {
	x := uint64(n)*0x9e3779b97f4a7c15 + uint64(kind)*0xbf58476d1ce4e5b9
	for i := range k {
		x ^= x >> 27
		x *= 0x94d049bb133111eb
		k[i] = byte(x >> 56)
	}
	return k
}

// attempt is one on an account from an address, five of which share a network.
func attempt(account, address int) *guard.Charge {
	return limited(account, address, wide, ofAccount, ofPair)
}

// limited is an attempt with limits of its address and network, its account, and its pair.
func limited(account, address int, around, of, ofPair *failures.Limits) *guard.Charge {
	c := &guard.Charge{Now: time.Now()}
	c.Account, c.Address, c.From = digest('a', account), digest('i', address), digest('i', address)
	network, every := digest('n', address/5), [3]failures.Mask{failures.Every, failures.Every, failures.Every}
	add := func(kind guard.SubjectKind, shard, key [16]byte, limitSet *failures.Limits, clients guard.Clients,
		binds [3]failures.Mask) {
		s := guard.Subject{Kind: kind, For: clients, Binds: binds}
		s.Shard, s.Key, s.Limits = shard, key, limitSet
		if kind == guard.OnPair {
			s.Ends = 1
		}
		c.Add(s)
	}
	add(guard.OnAddress, network, c.Address, around, guard.UnknownClient, every)
	add(guard.OnNetwork, network, network, around, guard.UnknownClient, every)
	add(guard.OnAccount, c.Account, c.Account, of, guard.UnknownClient, every)
	known := [3]failures.Mask{trusted.Known: failures.Every}
	add(guard.OnPair, c.Account, pairOf(c.Account, c.From), ofPair, guard.UnknownClient|guard.KnownAddress, known)
	return c
}

// pairOf is the key of an account at a client.
func pairOf(account, client [16]byte) (key [16]byte) {
	for i := range key {
		key[i] = account[i] ^ client[15-i]
	}
	return key
}

// by brings a device cookie along.
func by(c *guard.Charge, device [16]byte, issued time.Time) *guard.Charge {
	c.Device, c.Issued = device, issued
	pair := *of(c, guard.OnPair)
	pair.Key, pair.For = pairOf(c.Account, device), guard.KnownDevice
	c.Add(pair)
	return c
}

// of is the first subject of a kind, whether it counts or not.
func of(c *guard.Charge, kind guard.SubjectKind) *guard.Subject {
	all := c.Subjects()
	return &all[slices.IndexFunc(all, func(s guard.Subject) bool { return s.Kind == kind })]
}

func begin(t testing.TB, s *redisstore.Store, c *guard.Charge) *guard.Charge {
	t.Helper()
	must(t, s.Begin(t.Context(), c))
	return c
}

// end is an attempt from beginning to end; it must be let in.
func end(t testing.TB, s *redisstore.Store, c *guard.Charge, o guard.Outcome) *guard.Charge {
	t.Helper()
	if !begin(t, s, c).ID.Charged() {
		t.Fatalf("blocked: %+v", c.Subjects())
	}
	must(t, s.Settle(t.Context(), c, o))
	return c
}

// counts are of the address, the network, the account and the pair.
func counts(t testing.TB, s *redisstore.Store, c *guard.Charge) (n [4]int) {
	t.Helper()
	var usages [4]failures.Usage
	var subjects [4]failures.Subject
	for i := range subjects {
		subjects[i] = c.Subjects()[i].Subject
	}
	must(t, redisstore.CountersOf(s).Read(t.Context(), subjects[:], usages[:], nil))
	for i := range usages {
		n[i] = int(usages[i].Count)
	}
	return n
}

func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// atOnce does something n times in parallel, 200 at a time.
func atOnce(n int, do func(n int)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				do(i)
			}
		})
	}
	all.Wait()
}

// R1, over nodes: 500 guesses at once, and exactly the limit is charged.
// A blocked attempt is charged nowhere, and each charge is found again by
// another node.
func r1BurstOverThreeNodes(t *testing.T, on redisOf) {
	var nodes [3]*redisstore.Store
	for i := range nodes {
		nodes[i] = on.node(t, redisstore.Options{})
	}
	for account := range 5 {
		var charged atomic.Int64
		atOnce(500, func(n int) {
			c := attempt(account, 1000*account+n)
			if err := nodes[n%3].Begin(t.Context(), c); err != nil {
				t.Errorf("guess %d: %v", n, err)
			}
			if !c.ID.Charged() {
				return
			}
			charged.Add(1)
			if account%2 == 0 {
				if err := nodes[(n+1)%3].Settle(t.Context(), c, guard.Withdrawn); err != nil {
					t.Error(err)
				}
			}
		})
		if got := charged.Load(); account%2 == 1 && got != 10 || got < 10 {
			t.Errorf("%d charged", got)
		}
		all := 10 * (account % 2)
		for n := range 101 { // each network once
			all -= counts(t, nodes[0], attempt(account, 1000*account+5*n))[1]
		}
		want(t, "charges of networks beyond those of the account", all, 0)
		want(t, "charges of the account", counts(t, nodes[0], attempt(account, 1))[2], 10*(account%2))
	}
}

func refusalLeavesNothing(t *testing.T, on redisOf) {
	s := on.node(t, redisstore.Options{})
	for n := range 10 {
		end(t, s, attempt(1, n), guard.Failed)
	}
	c := begin(t, s, attempt(1, 100))
	want(t, "ID", c.ID, failures.ChargeID{})
	want(t, "full", of(c, guard.OnAccount).Usage.Over, failures.Mask(1))
	want(t, "failed", of(c, guard.OnAccount).Usage.Failed, failures.Mask(1))
	want(t, "counts", counts(t, s, attempt(1, 100)), [4]int{0, 0, 10, 0})
}

func outcomesLeaveWhatTheySay(t *testing.T, on redisOf) {
	s := on.node(t, redisstore.Options{})
	for i, c := range []struct {
		outcome guard.Outcome
		left    [4]int
	}{
		{guard.Failed, [4]int{1, 1, 1, 1}}, {guard.Succeeded, [4]int{}},
		{guard.Abandoned, [4]int{}}, {guard.Withdrawn, [4]int{}},
	} {
		end(t, s, attempt(i, 10*i), c.outcome)
		want(t, fmt.Sprint("left by ", c.outcome), counts(t, s, attempt(i, 10*i)), c.left)
	}
}

// R14: a known client is charged its pair alone; beyond its limits it is spent,
// and the attempt an unknown client's.
func knownClientHasLimits(t *testing.T, on redisOf) {
	var reported []trusted.Key
	s := on.node(t, redisstore.Options{Spent: func(_ context.Context, _, client trusted.Key, _ time.Time) {
		reported = append(reported, client)
	}})
	end(t, s, attempt(1, 1), guard.Succeeded)
	for range 3 {
		c := end(t, s, attempt(1, 1), guard.Failed)
		want(t, "status", c.Status, trusted.Known)
	}
	want(t, "counts", counts(t, s, attempt(1, 1)), [4]int{0, 0, 0, 3})
	c := end(t, s, attempt(1, 1), guard.Failed)
	want(t, "status beyond the budget", c.Status, trusted.Spent)
	want(t, "counts", counts(t, s, attempt(1, 1)), [4]int{1, 1, 1, 3}) // of the pair three are enough to know
	want(t, "clients reported", len(reported), 1)
	end(t, s, attempt(1, 1), guard.Succeeded)
	want(t, "status after a success, which refills no budget", begin(t, s, attempt(1, 1)).Status, trusted.Spent)
}

// A device vouches by its cookie before its address is asked, until it is spent
// or everything is forgotten.
func deviceVouchesUntilAReset(t *testing.T, on redisOf) {
	s := on.node(t, redisstore.Options{})
	at := func(address int, issued time.Time) *guard.Charge {
		return by(attempt(1, address), digest('d', 1), issued)
	}
	issued := time.Now().Add(-time.Minute)
	want(t, "client", begin(t, s, at(1, issued)).ClientKey(), trusted.Key(digest('d', 1)))
	must(t, s.Forget(t.Context(), digest('a', 1), trusted.Key{}, time.Now().Add(-time.Second)))
	c := begin(t, s, at(2, issued))
	want(t, "status after a reset", c.Status, trusted.Unknown)
	want(t, "client after a reset", c.ClientKey(), trusted.Key(digest('i', 2)))
	want(t, "status of a newer cookie", begin(t, s, at(3, time.Now())).Status, trusted.Known)
	must(t, redisstore.KnownClients{Store: s}.Spend(t.Context(), digest('a', 1), digest('d', 1), time.Now()))
	want(t, "status of a spent device", begin(t, s, at(4, time.Now())).Status, trusted.Unknown)
}

// What a node remembers saves work, and makes no client known.
func forgottenClientIsUnknownEverywhere(t *testing.T, on redisOf) {
	here, there := on.node(t, redisstore.Options{}), on.node(t, redisstore.Options{})
	end(t, here, attempt(1, 1), guard.Succeeded)
	must(t, there.Forget(t.Context(), digest('a', 1), digest('i', 1), time.Now()))
	c := begin(t, here, attempt(1, 1))
	want(t, "status at once at the other node", c.Status, trusted.Unknown)
	want(t, "counts", counts(t, here, attempt(1, 1)), [4]int{1, 1, 1, 1})
	want(t, "the account's key is still there", on.open(t).Exists(t.Context(), on.knownClientsOf(t, 1)).Val(), 1)
}

// A node that takes a client for spent, which another has forgotten since, returns how
// long an unknown client has to wait.
func forgottenSpentClientGetsTheDelay(t *testing.T, on redisOf) {
	clock := newClock()
	here, there := on.node(t, redisstore.Options{Clock: clock.Now}), on.node(t, redisstore.Options{Clock: clock.Now})
	at := func(address int) *guard.Charge {
		c := attempt(1, address)
		c.Now, of(c, guard.OnAddress).Limits = clock.Now(), limitSet(1, time.Hour)
		of(c, guard.OnAddress).Binds[trusted.Spent] = 0
		return c
	}
	must(t, redisstore.KnownClients{Store: here}.Spend(t.Context(), digest('a', 1), digest('i', 1), clock.Now()))
	end(t, here, at(1), guard.Failed)
	for i := range 9 {
		end(t, here, at(5*i+10), guard.Failed)
	}
	want(t, "refused by the account, which returns its known clients", begin(t, here, at(1)).ID.Charged(), false)
	must(t, there.Forget(t.Context(), digest('a', 1), digest('i', 1), clock.Now()))
	c := at(1)
	of(c, guard.OnAccount).Binds = [3]failures.Mask{} // a challenge was solved
	begin(t, here, c)
	want(t, "status", c.Status, trusted.Unknown)
	want(t, "refused", c.ID.Charged(), false)
	want(t, "told how long", of(c, guard.OnAddress).Usage.FreeIn > 0, true)
}

// clientsOf is the name of an account's known clients.
func (on redisOf) knownClientsOf(t testing.TB, account int) string {
	t.Helper()
	for _, name := range on.names(t, on.open(t)) {
		if strings.HasSuffix(name, "}p") {
			return name
		}
	}
	t.Fatalf("no known clients of account %d", account)
	return ""
}

// CAPTCHA mode asks for the client, and charges known ones alone.
func knownOnlyChargesNoUnknownClient(t *testing.T, on redisOf) {
	s := on.node(t, redisstore.Options{})
	end(t, s, attempt(1, 1), guard.Succeeded)
	for address, status := range map[int]trusted.Status{1: trusted.Known, 2: trusted.Unknown} {
		c := attempt(1, address)
		for i := range c.Subjects() {
			c.Subjects()[i].For &^= guard.UnknownClient
		}
		begin(t, s, c)
		want(t, "status", c.Status, status)
		want(t, "charged", c.ID.Charged(), status == trusted.Known)
		n := counts(t, s, attempt(1, address))
		want(t, "counts of the address and its network", n[0]+n[1], 0)
	}
}

// A node answers for an account that is closed, to anybody from anywhere but
// those at home, for a second; and again once it was unlocked here.
func closedAccountCostsNoTrip(t *testing.T, on redisOf) {
	now := newClock()
	client, seen := on.open(t), new(spy)
	client.AddHook(seen)
	s := newStore(t, client, on.prefix, redisstore.Options{Clock: now.Now})
	end(t, s, attempt(1, 1), guard.Succeeded)
	for n := range 10 {
		end(t, s, attempt(1, 100+n), guard.Failed)
		now.Advance(time.Millisecond)
	}
	begin(t, s, attempt(1, 200))
	before := seen.trips.Load()
	for n := range 100 {
		c := begin(t, s, attempt(1, 300+n))
		want(t, "charged", c.ID.Charged(), false)
		want(t, "full", of(c, guard.OnAccount).Usage.Failed, failures.Mask(1))
	}
	want(t, "trips", seen.trips.Load()-before, 0)
	want(t, "answered", s.Closed(), 100)
	want(t, "those at home", begin(t, s, attempt(1, 1)).ID.Charged(), true)
	now.Advance(time.Second)
	before = seen.trips.Load()
	begin(t, s, attempt(1, 400))
	if seen.trips.Load() == before {
		t.Error("believed for longer than a second")
	}
	must(t, s.Clear(t.Context(), attempt(1, 400).Subjects()))
	want(t, "charged at once when it was unlocked", begin(t, s, attempt(1, 400)).ID.Charged(), true)
}

// The node does not answer beyond the moment at which the first full limit has room.
func closedAccountOpensInTime(t *testing.T, on redisOf) {
	now := newClock()
	s := on.node(t, redisstore.Options{Clock: now.Now})
	for n := range 10 {
		end(t, s, attempt(1, n), guard.Failed)
	}
	now.Advance(time.Hour - 100*time.Millisecond)
	want(t, "charged", begin(t, s, attempt(1, 100)).ID.Charged(), false)
	c := begin(t, s, attempt(1, 101))
	want(t, "answered", s.Closed(), 1)
	now.Advance(of(c, guard.OnAccount).Usage.FreeIn)
	want(t, "charged when it is free", begin(t, s, attempt(1, 102)).ID.Charged(), true)
}

// Redis knows nothing of an account, and the node does: Redis is told first.
func lostKnownClientsAreRestored(t *testing.T, on redisOf) {
	asked := 0
	record := trusted.Record{Reset: time.Now().Add(-time.Hour).UnixMilli(), Entries: []trusted.Entry{
		{Client: digest('i', 1), Status: trusted.Known, Last: time.Now().UnixMilli()},
		{Client: digest('i', 2), Status: trusted.Spent, Last: time.Now().UnixMilli()},
		{Client: digest('i', 3), Status: trusted.Known, Last: time.Now().Add(-2 * time.Hour).UnixMilli()},
	}}
	s := on.node(t, redisstore.Options{Elsewhere: func(context.Context, *guard.Charge) (trusted.Record, bool) {
		asked++
		return record, true
	}})
	for client, status := range []trusted.Status{trusted.Unknown, trusted.Known, trusted.Spent, trusted.Unknown} {
		want(t, fmt.Sprint("client ", client), begin(t, s, attempt(1, client)).Status, status)
	}
	want(t, "asked", asked, 1)
	want(t, "counts of the known client", counts(t, s, attempt(1, 1))[3], 1)
	want(t, "counts of the account: three unknown clients", counts(t, s, attempt(1, 1))[2], 3)
}

// A login of a known client is two trips, with its device cookie from a new IP address, too; a
// failed attempt is one.
func loginIsTwoTrips(t *testing.T, on redisOf) {
	client, seen := on.open(t), new(spy)
	client.AddHook(seen)
	s := newStore(t, client, on.prefix, redisstore.Options{})
	must(t, s.Load(t.Context()))
	end(t, s, attempt(1, 1), guard.Succeeded)
	trips := func(c *guard.Charge, o guard.Outcome) int64 {
		before := seen.trips.Load()
		end(t, s, c, o)
		return seen.trips.Load() - before
	}
	want(t, "trips of a login of a known client", trips(attempt(1, 1), guard.Succeeded), 2)
	first := by(attempt(1, 4), trusted.Key{9}, attempt(1, 4).Now)
	want(t, "trips of a login with a device cookie", trips(first, guard.Succeeded), 2)
	want(t, "the device is known", first.AtDevice, true)
	want(t, "trips of an unknown client's login", trips(attempt(1, 2), guard.Succeeded), 2)
	want(t, "trips of a failed attempt", trips(attempt(1, 3), guard.Failed), 1)
	for _, keys := range seen.scripts() {
		for _, key := range keys {
			if tag(key) == "" || tag(key) != tag(keys[0]) {
				t.Errorf("one script has keys of several slots: %q", keys)
			}
		}
	}
}

func tag(key string) string {
	_, rest, _ := strings.Cut(key, "{")
	tag, _, _ := strings.Cut(rest, "}")
	return tag
}

// A spy sees what a client sends.
type spy struct {
	trips atomic.Int64
	mu    sync.Mutex
	sent  []redis.Cmder
}

func (s *spy) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *spy) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s *spy) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if strings.HasPrefix(cmds[0].Name(), "eval") || cmds[0].Name() == "del" { // and no greeting
			s.trips.Add(1)
			s.mu.Lock()
			s.sent = append(s.sent, cmds...)
			s.mu.Unlock()
		}
		return next(ctx, cmds)
	}
}

// scripts are the scripts that were run, by their keys.
func (s *spy) scripts() (all [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, cmd := range s.sent {
		if args := cmd.Args(); cmd.Name() == "evalsha" {
			keys := make([]string, args[2].(int))
			for i := range keys {
				keys[i] = args[3+i].(string)
			}
			all = append(all, keys)
		}
	}
	return all
}

// R23: keys are digests, and each expires by itself.
func r23KeysExpireAndHoldNoText(t *testing.T, on redisOf) {
	s, client := on.node(t, redisstore.Options{}), on.open(t)
	for n := range 30 {
		c := attempt(n/3, n)
		begin(t, s, c)
		must(t, s.Settle(t.Context(), c, []guard.Outcome{guard.Failed, guard.Succeeded, guard.Abandoned}[n%3]))
	}
	must(t, s.Forget(t.Context(), digest('a', 1), trusted.Key{}, time.Now()))
	all := on.names(t, client)
	if len(all) < 30 {
		t.Fatalf("only %d keys", len(all))
	}
	for _, name := range all {
		longest := time.Hour + time.Second
		if strings.HasSuffix(name, "p") {
			longest = trusted.DefaultTTL
		}
		if life := client.PTTL(t.Context(), name).Val(); life <= 0 || life > max(longest, trusted.DefaultTTL) {
			t.Errorf("%q lives for %v", name, life)
		}
		switch rest := strings.TrimPrefix(name, on.prefix); {
		case rest[0] != '{' || rest[17] != '}':
			t.Errorf("%q has no digest", name)
		case len(rest) != 18 && len(rest) != 19 && len(rest) != 30 && len(rest) != 31:
			t.Errorf("%q holds more than digests", name)
		}
	}
}

// SCRIPT FLUSH, a restart and a failover all leave a server without scripts.
func flushedScripts(t *testing.T, on redisOf) {
	s, client := on.node(t, redisstore.Options{}), on.open(t)
	stop := make(chan struct{})
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := eachMaster(t.Context(), client, func(ctx context.Context,
					c *redis.Client) error {
					return c.ScriptFlush(ctx).Err()
				}); err != nil {
					t.Error(err)
				}
			}
		}
	})
	var charged atomic.Int64
	atOnce(500, func(n int) {
		c := attempt(1, n)
		if err := s.Begin(t.Context(), c); err != nil {
			t.Error(err)
		}
		if c.ID.Charged() {
			charged.Add(1)
		}
	})
	close(stop)
	flushing.Wait()
	want(t, "charged", charged.Load(), 10)
}

// While a slot is moved its scripts run on neither server for a moment: a call
// waits for that, but for a quarter of a second at most. A move that takes longer,
// as on a busy machine, is an error, from which the node counts by itself; no
// failure is lost or counted twice all the same.
func resharding(t *testing.T, on redisOf, cluster *redistest.ClusterOf) {
	nodes := [2]*redisstore.Store{on.node(t, redisstore.Options{}), on.node(t, redisstore.Options{})}
	begin(t, nodes[0], attempt(1, 0))
	slot := on.open(t).ClusterKeySlot(t.Context(), "{"+tag(on.scripted(t))+"}").Val()
	stop := make(chan struct{})
	var guessing sync.WaitGroup
	var charged, guesses, gaveUp atomic.Int64
	for worker := range 6 {
		guessing.Go(func() {
			for n := worker; ; n += 6 {
				select {
				case <-stop:
					return
				default:
				}
				c := attempt(1, n)
				switch err := nodes[n%2].Begin(t.Context(), c); {
				case err != nil && strings.Contains(err.Error(), "TRYAGAIN"):
					gaveUp.Add(1)
				case err != nil:
					t.Errorf("guess %d: %v", n, err)
				}
				if c.ID.Charged() {
					charged.Add(1)
				}
				guesses.Add(1)
			}
		})
	}
	longest := time.Duration(0)
	for to := range 6 {
		began := time.Now()
		cluster.Move(t, int(slot), to%3)
		longest = max(longest, time.Since(began))
		seen := guesses.Load()
		redistest.Until(t, "guesses after the move", func() bool { return guesses.Load() > seen+50 })
	}
	close(stop)
	guessing.Wait()
	want(t, "charged", charged.Load()+1, 10)
	if n := gaveUp.Load(); n > 0 && longest < 200*time.Millisecond {
		t.Errorf("%d guesses were given up, and no move took longer than %v", n, longest)
	}
}

// scripted is the name of account 1's key.
func (on redisOf) scripted(t *testing.T) string {
	client, seen := on.open(t), new(spy)
	client.AddHook(seen)
	_, _ = newStore(t, client, on.prefix, redisstore.Options{}).Read(t.Context(), attempt(1, 0))
	return seen.scripts()[0][0]
}

// The bytes that Redis says a key takes (MEMORY USAGE), by how many failures it
// holds: at most 200 for ten, 600 for a hundred.
func TestMemoryOfAnAccountAndAnAddress(t *testing.T) {
	t.Parallel()
	client := redistest.Standalone(t).Client(t)
	on := redisOf{open: func(testing.TB) redis.UniversalClient { return client }, prefix: "ag:"}
	s := on.node(t, redisstore.Options{})
	// In this order: after longer values, Redis may give a short one 16 bytes more.
	for i, most := range []int64{120, 200, 600} {
		failed := []int{1, 10, 100}[i]
		on.expire(t, client)
		c := attempt(1, 1)
		for i := range c.Subjects() {
			c.Subjects()[i].Limits = wide
		}
		for range failed {
			end(t, s, c, guard.Failed)
		}
		names := on.names(t, client)
		want(t, "keys", len(names), 4)
		for _, name := range names {
			if bytes := client.MemoryUsage(t.Context(), name).Val(); bytes > most {
				t.Errorf("%d failures take %d bytes in %s", failed, bytes, name)
			}
		}
	}
}

// The scripts run as they stand in redis-cli.
func TestScriptsRunInRedisCLI(t *testing.T) {
	t.Parallel()
	server := redistest.Standalone(t)
	cli := func(want string, args ...string) {
		t.Helper()
		if got := redisCLI(t, server, args...); got != want {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	const home, limitSet, pair = "0123456789abcdef", "2 60000 2 / 1 0 1 / 2 60000 / ", "2 60000 2 / 0 1 0 / 2 60000 / "
	account := []string{"{a}", "{a}home", "{a}p", ",", "charge", "2", "5000", "61000", limitSet, "61000", pair, "0", "0",
		home, "0"}
	charge := func(now string) []string { return append(append([]string{"--eval", "charge.lua"}, account...), now) }
	cli("1000\n0\n1\n0\n0\n0\n0", charge("1000")...)
	cli("2000\n0\n1\n0\n0\n-2\n-2", charge("2000")...)
	cli("1", "--eval", "takeback.lua", "{a}", "{a}home", ",", "2000")
	cli("1", "--eval", "knownclients.lua", "{a}p", ",", "0", "60000", "10", "32", "3600000", "86400000", "remember",
		home, "1500", "1500")
	cli("3000\n1\n1\n1\n0\n-2", charge("3000")...)
	tagged := []string{"{b}", "{b}home", "{b}w", "{b}p", ",", "charge", "2", "5000", "61000", limitSet, "61000", pair, "0",
		"0", home, "0", "pw_u", "pw_k", "ho"}
	offer := func(now string) []string { return append(append([]string{"--eval", "charge.lua"}, tagged...), now) }
	ended := func(at, what string) []string {
		return []string{"--eval", "takeback.lua", "{b}", "{b}home", "{b}w", ",", at, "", "pw_u", what, "ho", "2100"}
	}
	cli("1000\n0\n1\n0\n0\n0\n0", offer("1000")...)
	cli("2000\n0\n1\n0\n1\n-2\n-2", offer("2000")...)
	cli("1", ended("2000", "wrong")...)
	cli("0", ended("1000", "unchecked")...)
	cli("1", ended("1000", "right")...)
	cli("3000\n0\n1\n0\n0\n0\n0", offer("3000")...)
	cli("0", "--eval", "spend.lua", "c", ",", "1000")
	cli("", "--eval", "ask.lua", "asked", ",", "5000", "1000")
	cli("here", "--eval", "ask.lua", "asked", ",", "5000", "1000", "here")
	cli("here\nthere", "--eval", "ask.lua", "asked", ",", "5000", "5999", "there")
	cli("there", "--eval", "ask.lua", "asked", ",", "5000", "6000")
}
