// Package redisstore keeps in Redis what the nodes of a site share: charges and known clients
// (Store), used challenges and settled tickets (Spent), and CAPTCHA mode. One server, Sentinel and
// Cluster work alike.
//
// All keys of an account have one hash slot, as have all keys of a network. An attempt is one
// script for each slot, in one pipeline; if one script blocks, the charges of the others are taken
// back. A login of a known client takes two round trips, begin and settle. Windows follow Redis's
// clock, the expiry of known clients the node's. redis.go names every key.
//
// The store fails if Redis fails; see internal/nodes.
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

// DefaultPendingFor is the default of Options.PendingFor.
const DefaultPendingFor = 5 * time.Second

// Options configure a Store. The zero Options are the default.
type Options struct {
	// Prefix begins every key's name, one for each realm, without braces. Default DefaultPrefix.
	Prefix string
	// PendingFor is the longest time of a password check: an older charge is a failure. Default
	// DefaultPendingFor.
	PendingFor time.Duration
	// KnownClients bound the known clients of an account.
	KnownClients trusted.Limits
	// Elsewhere returns the known clients of an account that Redis does not know, because it may have
	// lost its data. They are written to Redis before the attempt is decided. It may be nil.
	Elsewhere func(context.Context, *guard.Charge) (trusted.Record, bool)
	// Spent, if not nil, is called for a known client that exceeded its limits.
	Spent func(ctx context.Context, account, client trusted.Key, now time.Time)

	// Keys is the fingerprint of the keys file that all nodes share. Empty: it is not compared.
	Keys string
	// Refused, if not nil, returns why this node must not count in this Redis, in addition to what
	// Probe finds.
	Refused func() error
	// OnEmptied, if not nil, is called when Redis has lost its data. It must not block.
	OnEmptied func()
	// Seen is Store.Seen of an earlier process, so that a loss before the first Probe is noticed. Empty: unknown.
	Seen string

	// Sprays are the passwords used for spraying, which Share keeps up to date. Default: the store's
	// own.
	Sprays *failures.Sprays
	// OnSpray, if not nil, is called on one node for each password found to be used for spraying. It
	// must not block.
	OnSpray func(failures.Spray)

	// Clock replaces Redis's and this node's clock in tests.
	Clock func() time.Time
}

// Store is a guard.Store in Redis. It is safe for concurrent use. The caller closes the client; see
// Connect.
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
	seen    atomic.Value     // the same as a text
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

// New returns the store of a realm. It sends nothing to Redis.
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
	copy(s.lives[:], strings.Fields(o.Seen))
	s.seen.Store(strings.TrimSpace(o.Seen))
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

// Configure changes the longest time of a password check, for new charges.
func (s *Store) Configure(pendingFor time.Duration) error {
	if pendingFor < time.Millisecond || pendingFor > failures.MaxWindow {
		return fmt.Errorf("redisstore: PendingFor must be from 1ms to %v, not %v", failures.MaxWindow, pendingFor)
	}
	s.pending.Store(pendingFor.Milliseconds())
	return nil
}

// Closed is the number of attempts that were blocked without a round trip.
func (s *Store) Closed() uint64 { return s.memory.avoided.Load() }

// Settle implements guard.Store. The charge exists already, so a failure is written only if its
// charge filled a limit (memory.go) or repeats a password. If Redis fails then, the password counts
// once more.
func (s *Store) Settle(ctx context.Context, c *guard.Charge, o guard.Outcome) (err error) {
	if !c.ID.Charged() {
		return nil
	}
	stands := o == guard.Failed
	switch {
	case o == guard.Succeeded:
		err = s.succeeded(ctx, c)
	case o != guard.Failed:
		stands, err = s.withdraw(ctx, c, unchecked)
	case c.Repeat:
		if back, failed := s.withdraw(ctx, c, wrong); failed == nil {
			stands = back
		}
	}
	if stands {
		s.failed(ctx, c)
	}
	if err != nil {
		return fmt.Errorf("redisstore: settling: %w", err)
	}
	return nil
}

// counted returns the counted subjects, those of the account's shard last, and where these begin.
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

// succeeded takes one round trip. The pair is always charged, and its delay is reset.
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

// rememberCall returns the call that makes the client known, and whether it changes anything.
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

// full reports whether knownclients.lua found no room for a known client.
func full(c *call) bool { return c.reply == int64(0) }

// Results of a password check, for takeback.lua.
const (
	wrong     = "wrong"
	right     = "right"
	unchecked = "unchecked"
)

// addTag adds the password's tag and result to a call that takes back an account's charge.
func (s *Store) addTag(one *call, c *guard.Charge, what string) {
	if len(one.args) == 1 {
		one.args = append(one.args, "") // no backoff begins anew
	}
	one.keys = append(one.keys, s.tagsKey(c.Account))
	one.args = append(one.args, tagBytes(c.TagAt(c.ClientKey(), c.Status)), what, clientBytes(c.ClientKey()), s.clock())
}

// withdraw takes back the charge unless the account's script reports that it stands; see
// failures.Memory.Repeated and Drop.
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

func (s *Store) unblock(c *guard.Charge, which []uint8) {
	for _, i := range which {
		s.memory.unblock(c.Subjects()[i].Key)
	}
}

// Read implements guard.Store.
func (s *Store) Read(ctx context.Context, c *guard.Charge) (used guard.Used, err error) {
	c.Reset()
	if err := s.try(ctx, &trip{Charge: c, what: reading, used: &used}, true); err != nil {
		return used, fmt.Errorf("redisstore: reading: %w", err)
	}
	return used, nil
}

// Clear implements guard.Store. Other nodes may block for believeFor.
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

func (s *Store) takeBack(ctx context.Context, c *guard.Charge, which []uint8) error {
	if err := run(ctx, s.batcher.enqueue, s.takeBackCalls(c, which, false)...); err != nil {
		return err
	}
	s.unblock(c, which)
	return nil
}

// takeBackCalls returns a call for each shard of the subjects. With resetDelay, it resets the
// pair's delay.
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

// Operations of knownclients.lua.
const (
	remember    = "remember"
	spend       = "spend"
	forget      = "forget"
	reset       = "reset"
	mergeClient = "merge"
	mergeSpent  = "merge-spent"
	mergeResets = "merge-reset"
)

// A change of an account's known clients, at a time in milliseconds.
type change struct {
	what   string
	client trusted.Key
	at     int64
	first  int64 // first use; 0: at that time
}

// recordOf reads the known clients in an answer of charge.lua.
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

// merge adds the known clients of another copy.
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

// since is the last use of a client that has just expired, in milliseconds.
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

func (s *Store) record(ctx context.Context, key string, now time.Time) (trusted.Record, error) {
	all, err := s.client.ZRangeWithScores(ctx, key, 0, -1).Result()
	if err != nil {
		return trusted.Record{}, fmt.Errorf("redisstore: reading %s: %w", key, err)
	}
	var entries []any
	for _, z := range all {
		entries = append(entries, z.Member, strconv.FormatInt(int64(z.Score), 10))
	}
	record := recordOf(entries)
	return record.Live(now, s.limits), nil
}
