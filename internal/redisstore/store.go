// Package redisstore keeps in Redis all that the nodes of a site share: charges
// and known places (Store), used-up challenges and settled tickets (Spent), and
// CAPTCHA mode. It is the same for one server, for a master behind Sentinels and
// for a Cluster.
//
// Everything of an account lies in one slot, as does everything of a network.
// An attempt is one script for each, in one pipeline; if one refuses, what the
// other charged is taken back. A login from a known place is two trips: begin
// and settle. Windows go by Redis's clock, the age of places by the
// node's. redis.go names every key.
//
// The store fails where Redis does. What a node does then is the business of
// internal/nodes.
package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/guard"
	"authguard/trusted"
)

// DefaultPendingFor is that of Options.
const DefaultPendingFor = 5 * time.Second

// Options configure a Store. The zero Options are the default.
type Options struct {
	// Prefix begins every key's name: one for each realm. Short is cheap.
	// Default DefaultPrefix; braces are not allowed in it.
	Prefix string
	// PendingFor is the longest that a password check takes: an older charge
	// is a failure. Default DefaultPendingFor.
	PendingFor time.Duration
	// KnownClients bound what is remembered of one account.
	KnownClients trusted.Limits
	// Elsewhere is asked for an account that Redis does not know: it may have
	// lost its memory. What it says is written to Redis before the attempt is
	// decided. Nil: nobody is asked.
	Elsewhere func(context.Context, *guard.Charge) (trusted.Record, bool)
	// Spent, if not nil, is told of a place whose budget is used up.
	Spent func(ctx context.Context, account, client trusted.Key, now time.Time)

	// Keys is the fingerprint of the keys file, which all nodes have in common; empty: the
	// others' do not matter.
	Keys string
	// Refused, if not nil, is why this node must not count in this Redis, beside what Probe
	// finds there; nil: it may.
	Refused func() error
	// OnEmptied, if not nil, hears that Redis has lost what it knew. It must not block.
	OnEmptied func()

	// Sprays are what this node knows of passwords that are sprayed, which Share
	// keeps up to date. Nil: what Share learns is for this store alone.
	Sprays *failures.Sprays
	// OnSpray, if not nil, is told of each password that is found to be sprayed,
	// on one node. It must not block.
	OnSpray func(failures.Spray)

	// Clock stands in for Redis's and this node's in tests, which cannot move
	// either. Nil outside of them.
	Clock func() time.Time
}

// Store is a guard.Store in Redis. It is safe for concurrent use. The client is
// the caller's to close; see Connect.
type Store struct {
	client  redis.UniversalClient
	batcher *batcher
	prefix  string
	limits  trusted.Limits
	pending atomic.Int64 // milliseconds
	options Options
	memory  *memory
	misses  misses
	node    string           // names this store in memory.go
	lives   [probes]string   // of the masters, as last probed
	name    atomic.Value     // the first of them
	now     func() time.Time // this node's clock, for durations only
}

var _ guard.Store = (*Store)(nil)

var (
	//go:embed charge.lua
	chargeLua string
	//go:embed takeback.lua
	takeBackLua string
	//go:embed knownclients.lua
	knownClientsLua string
	//go:embed spend.lua
	spendLua string
	//go:embed spray.lua
	sprayLua string
	//go:embed ask.lua
	askLua string

	chargeScript       = newScript(chargeLua)
	takeBackScript     = newScript(takeBackLua)
	knownClientsScript = newScript(knownClientsLua)
	spendScript        = newScript(spendLua)
	sprayScript        = newScript(sprayLua)
	askScript          = newScript(askLua)
)

// New returns the store of a realm. Nothing is sent to Redis yet.
func New(client redis.UniversalClient, o Options) (*Store, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.PendingFor = cmp.Or(o.PendingFor, DefaultPendingFor)
	if o.Sprays == nil {
		o.Sprays = failures.NewSprays(nil)
	}
	var problems []error
	if client == nil {
		problems = append(problems, errors.New("client is missing"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		problems = append(problems, errors.New("prefix must not hold a brace"))
	}
	s := &Store{client: client, prefix: o.Prefix, limits: o.KnownClients.WithDefaults(), options: o, memory: newMemory(),
		node: rand.Text(), now: time.Now}
	if o.Clock != nil {
		s.now = o.Clock
	}
	problems = append(problems, o.KnownClients.Validate(), s.Configure(o.PendingFor))
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	s.batcher = newBatcher(client)
	return s, nil
}

// Configure changes how long a password check may take, for what is charged
// from now on.
func (s *Store) Configure(pendingFor time.Duration) error {
	if pendingFor < time.Millisecond || pendingFor > failures.MaxWindow {
		return fmt.Errorf("redisstore: PendingFor must be from 1ms to %v, not %v", failures.MaxWindow, pendingFor)
	}
	s.pending.Store(pendingFor.Milliseconds())
	return nil
}

// Closed is how many attempts were refused without asking Redis.
func (s *Store) Closed() uint64 { return s.memory.avoided.Load() }

// Settle implements guard.Store. A failure is written in two cases only, since the
// charge is there already: its charge filled a limit (memory.go), or it repeats a
// password. If Redis fails then, the password counts once more.
func (s *Store) Settle(ctx context.Context, c guard.Charge, o guard.Outcome) (err error) {
	if !c.ID.Charged() {
		return nil
	}
	stands := o == guard.Failed
	switch {
	case o == guard.Succeeded:
		err = s.succeeded(ctx, &c)
	case o != guard.Failed:
		stands, err = s.withdraw(ctx, &c, unchecked)
	case c.Repeat:
		if back, failed := s.withdraw(ctx, &c, wrong); failed == nil {
			stands = back
		}
	}
	if stands {
		s.failed(ctx, &c)
	}
	if err != nil {
		return fmt.Errorf("redisstore: settling: %w", err)
	}
	return nil
}

// counted are the numbers of the subjects that count for the client, those of the account's
// shard last.
func counted(c *guard.Charge) (all []uint8, account int) {
	ofAccount := func(one *guard.Subject) bool {
		return c.Account != (trusted.Key{}) && one.Shard == failures.Key(c.Account)
	}
	for _, last := range []bool{false, true} {
		account = len(all)
		for i := range c.Subjects() {
			if one := &c.Subjects()[i]; c.Counts(one) && ofAccount(one) == last {
				all = append(all, uint8(i))
			}
		}
	}
	return all, account
}

// failed notes a charge that stands.
func (s *Store) failed(ctx context.Context, c *guard.Charge) {
	if c.Sprayable() {
		s.misses.add(c.SprayAccounts, report{Miss: c.Miss(c.Spray)})
	}
	all, _ := counted(c)
	for _, i := range all {
		one := &c.Subjects()[i]
		s.memory.fail(stampOf(&c.ID, int(i)), one.Key, s.pendingFor())
		if c.ID.Full&(1<<i) != 0 {
			_ = s.writeFailures(ctx, one.Shard, one.Key) // else an attempt asks for it
		}
	}
}

// succeeded is one round trip. The pair is charged always, and its delay begins anew.
func (s *Store) succeeded(ctx context.Context, c *guard.Charge) error {
	all, account := counted(c)
	calls := s.takeBackCalls(c, all, true)
	last := calls[len(calls)-1]
	if account < len(all) && c.Tag != 0 {
		s.addTag(last, c, right)
	}
	known, changed := s.rememberCall(c)
	if changed {
		calls = append(calls, known)
	}
	if err := run(ctx, s.batcher.enqueue, calls...); err != nil {
		return err
	}
	if c.Tag != 0 && c.Sprayable() {
		s.corrected(c, last.reply)
	}
	s.unblock(c, all)
	s.memory.unblock(failures.Key(c.Account))
	if full(known) {
		return trusted.ErrFull
	}
	if changed && c.Address != (trusted.Key{}) {
		s.memory.known.Add(clientOf{c.Account, c.Address}, struct{}{})
	}
	return nil
}

// remembering makes the call that makes the client known, if there is anything to change.
func (s *Store) rememberCall(c *guard.Charge) (known *call, changed bool) {
	var changes []change
	if c.Account != (trusted.Key{}) && c.Address != (trusted.Key{}) {
		changes = append(changes, change{what: remember, client: c.Address, at: c.Now.UnixMilli()})
	}
	if c.Account != (trusted.Key{}) && c.Device != (trusted.Key{}) && !c.AtDevice {
		changes = append(changes, change{what: forget, client: c.Device})
	}
	return s.changeCall(s.knownClientsKey(c.Account), s.limits.MaxClients, c.Now, changes...), len(changes) > 0
}

// full reports whether knownclients.lua found no room to remember a place.
func full(c *call) bool { return c.reply == int64(0) }

// What became of a password, for takeback.lua.
const (
	wrong     = "wrong"
	right     = "right"
	unchecked = "unchecked"
)

// noting makes a call that takes back an account's charge say what became of the
// password.
func (s *Store) addTag(one *call, c *guard.Charge, what string) {
	if len(one.args) == 1 {
		one.args = append(one.args, "") // no backoff begins anew
	}
	one.keys = append(one.keys, s.tagsKey(c.Account))
	one.args = append(one.args, tagBytes(c.TagAt(c.ClientKey(), c.Status)), what, clientBytes(c.ClientKey()), s.clock())
}

// withdraw takes back an attempt's charge, unless the script for the account says
// that it stands: see failures.Memory.Repeated and Drop.
func (s *Store) withdraw(ctx context.Context, c *guard.Charge, what string) (stands bool, err error) {
	all, account := counted(c)
	if c.Tag == 0 || what == unchecked && c.Repeat || account == len(all) {
		return false, s.takeBack(ctx, c, all)
	}
	own := s.takeBackCalls(c, all[account:], false)[0]
	s.addTag(own, c, what)
	if err := run(ctx, s.batcher.enqueue, own); err != nil {
		return false, err
	}
	if answer, _ := own.reply.([]any); len(answer) == 0 || answer[0] != int64(1) {
		return true, nil
	}
	s.unblock(c, all[account:])
	return false, s.takeBack(ctx, c, all[:account])
}

// unblock notes that these subjects may have room.
func (s *Store) unblock(c *guard.Charge, which []uint8) {
	for _, i := range which {
		s.memory.unblock(c.Subjects()[i].Key)
	}
}

// Read implements guard.Store.
func (s *Store) Read(ctx context.Context, c guard.Charge) (guard.Charge, guard.Used, error) {
	var used guard.Used
	for i := range c.Subjects() {
		c.Subjects()[i].Usage = failures.Usage{}
	}
	if err := s.try(ctx, &trip{Charge: &c, what: reading, used: &used}, true); err != nil {
		return c, used, fmt.Errorf("redisstore: reading: %w", err)
	}
	return c, used, nil
}

// Clear implements guard.Store. Another node may still refuse for a second.
func (s *Store) Clear(ctx context.Context, subjects []guard.Subject) error {
	calls := make([]*call, len(subjects))
	for i := range subjects {
		calls[i] = &call{args: []any{"del", s.subjectKey(subjects[i].Shard, subjects[i].Key)}}
	}
	if err := run(ctx, s.batcher.enqueue, calls...); err != nil {
		return fmt.Errorf("redisstore: clearing: %w", err)
	}
	for i := range subjects {
		s.memory.clear(subjects[i].Key)
	}
	return nil
}

// Forget implements guard.Store.
func (s *Store) Forget(ctx context.Context, account, client trusted.Key, now time.Time) error {
	what := forget
	if client == (trusted.Key{}) {
		what = reset
	}
	return s.changeKnownClients(ctx, account, now, change{what: what, client: client, at: now.UnixMilli()})
}

// takeBack removes a charge from some of its subjects.
func (s *Store) takeBack(ctx context.Context, c *guard.Charge, which []uint8) error {
	if err := run(ctx, s.batcher.enqueue, s.takeBackCalls(c, which, false)...); err != nil {
		return err
	}
	s.unblock(c, which)
	return nil
}

// takingBack makes a call for each shard of the subjects. With resetDelay, the pair's backoff begins
// anew.
func (s *Store) takeBackCalls(c *guard.Charge, which []uint8, resetDelay bool) (calls []*call) {
	byShard := map[failures.Key]*call{}
	for _, i := range which {
		one := &c.Subjects()[i]
		own := byShard[one.Shard]
		if own == nil {
			own = &call{script: takeBackScript, args: []any{stampOf(&c.ID, int(i))}}
			byShard[one.Shard] = own
			calls = append(calls, own)
		}
		own.keys = append(own.keys, s.subjectKey(one.Shard, one.Key))
		if resetDelay && one.Kind == guard.OnPair {
			own.args = append(own.args, len(own.keys))
		}
	}
	return calls
}

func (s *Store) pendingFor() uint32 { return uint32(s.pending.Load()) }

func (s *Store) clock() any {
	if s.options.Clock == nil {
		return ""
	}
	return s.options.Clock().UnixMilli()
}

// What knownclients.lua can do.
const (
	remember    = "remember"
	spend       = "spend"
	forget      = "forget"
	reset       = "reset"
	mergeClient = "merge"
	mergeSpent  = "merge-spent"
	mergeResets = "merge-reset"
)

// A change of an account's places, at a time in milliseconds.
type change struct {
	what   string
	client trusted.Key
	at     int64
	first  int64 // when the place was first used; 0: at that time
}

// recordOf reads what charge.lua says of all places.
func recordOf(reply any) *trusted.Record {
	r := new(trusted.Record)
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		member, _ := list[i].(string)
		score, _ := list[i+1].(string)
		at, _ := strconv.ParseInt(score, 10, 64)
		e := trusted.Entry{Status: trusted.Known, First: at, Last: at}
		switch kind := member[copy(e.Client[:], member):]; {
		case member == "r":
			r.Reset = at
			continue
		case kind == "f": // no rule that a node goes by reads it
			continue
		case kind == "s":
			e.Status = trusted.Spent
		}
		r.Entries = append(r.Entries, e)
	}
	return r
}

// merge takes in another copy of what is known of an account's places.
func (s *Store) merge(ctx context.Context, account trusted.Key, record *trusted.Record, now time.Time) error {
	changes := []change{{what: mergeResets, at: record.Reset}}
	entries := slices.Clone(record.Entries)
	slices.SortFunc(entries, func(a, b trusted.Entry) int { return int(a.Last - b.Last) })
	for _, e := range entries {
		what := mergeClient
		if e.Status == trusted.Spent {
			what = mergeSpent
		}
		changes = append(changes, change{what, e.Client, e.Last, e.First})
	}
	return s.changeKnownClients(ctx, account, now, changes...)
}

func (s *Store) changeKnownClients(ctx context.Context, account trusted.Key, now time.Time, changes ...change) error {
	for _, one := range changes {
		needs := one.what != reset && one.what != mergeResets
		if account == (trusted.Key{}) || needs && one.client == (trusted.Key{}) {
			return trusted.ErrNoKey
		}
	}
	known := s.changeCall(s.knownClientsKey(account), s.limits.MaxClients, now, changes...)
	if err := run(ctx, s.batcher.enqueue, known); err != nil {
		return fmt.Errorf("redisstore: changing known clients: %w", err)
	}
	s.memory.unblock(failures.Key(account))
	if full(known) {
		return trusted.ErrFull
	}
	return nil
}

func (s *Store) changeCall(key string, most int, now time.Time, changes ...change) *call {
	c := &call{script: knownClientsScript, keys: []any{key}}
	c.args = append(c.args, s.since(now), s.limits.TTL.Milliseconds(), most, trusted.MaxSpent,
		trusted.NewFor.Milliseconds(), trusted.LongStanding.Milliseconds())
	for i := range changes {
		one := &changes[i]
		c.args = append(c.args, one.what, one.client[:], one.at, cmp.Or(one.first, one.at))
	}
	return c
}

// since is when a place was last used that has just expired.
func (s *Store) since(now time.Time) int64 { return now.Add(-s.limits.TTL).UnixMilli() }

// Addresses is a trusted.AddressStore in Redis, for processes without an SQL database.
type Addresses struct{ *Store }

var _ trusted.AddressStore = Addresses{}

// Record implements trusted.AddressStore.
func (a Addresses) Record(ctx context.Context, address trusted.Key, now time.Time) (trusted.Record, error) {
	return a.record(ctx, a.accountsKey(address), now)
}

// Remember implements trusted.AddressStore.
func (a Addresses) Remember(ctx context.Context, address, account trusted.Key, now time.Time) error {
	login := change{what: remember, client: account, at: now.UnixMilli()}
	c := a.changeCall(a.accountsKey(address), a.limits.OfAddress().MaxClients, now, login)
	if err := run(ctx, a.batcher.enqueue, c); err != nil {
		return fmt.Errorf("redisstore: counting the accounts of an IP address: %w", err)
	}
	return nil
}

// record reads what knownclients.lua has written.
func (s *Store) record(ctx context.Context, key string, now time.Time) (trusted.Record, error) {
	all, err := s.client.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return trusted.Record{}, fmt.Errorf("redisstore: reading %s: %w", key, err)
	}
	var told []any
	for _, z := range all {
		told = append(told, z.Member, strconv.FormatInt(int64(z.Score), 10))
	}
	record := recordOf(told)
	return record.Live(now, s.limits), nil
}
