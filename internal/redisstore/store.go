// Package redisstore keeps in Redis all that the nodes of a site share: charges
// and known places (Store), used-up challenges and settled tickets (Spent), and
// CAPTCHA mode. It is the same for one server, for a master behind Sentinels and
// for a Cluster.
//
// Everything of an account lies in one slot, as does everything of a network.
// An attempt is one script for each, in one pipeline; if one refuses, what the
// other charged is taken back. A login from a known place is two trips: begin
// and settle. Windows go by Redis's clock, the age of places by the
// node's. layout.go names every key.
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
	// Places bound what is remembered of one account.
	Places trusted.Limits
	// Elsewhere is asked for an account that Redis does not know: it may have
	// lost its memory. What it says is written to Redis before the attempt is
	// decided. Nil: nobody is asked.
	Elsewhere func(context.Context, *guard.Charge) (trusted.Record, bool)
	// Spent, if not nil, is told of a place whose budget is used up.
	Spent func(ctx context.Context, account, place trusted.Key, now time.Time)

	// Keys is the fingerprint of the keys file, which all nodes have in common; empty: the
	// others' do not matter.
	Keys string
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
	known   *known
	misses  misses
	node    string           // names this store in decided.go
	lives   [probes]string   // of the masters, as last probed
	now     func() time.Time // this node's clock, for durations only
}

var _ guard.Store = (*Store)(nil)

var (
	//go:embed charge.lua
	chargeLua string
	//go:embed takeback.lua
	takeBackLua string
	//go:embed places.lua
	placesLua string
	//go:embed spend.lua
	spendLua string
	//go:embed crowd.lua
	crowdLua string
	//go:embed spray.lua
	sprayLua string
	//go:embed ask.lua
	askLua string

	chargeScript   = newScript(chargeLua)
	takeBackScript = newScript(takeBackLua)
	placesScript   = newScript(placesLua)
	spendScript    = newScript(spendLua)
	crowdScript    = newScript(crowdLua)
	sprayScript    = newScript(sprayLua)
	askScript      = newScript(askLua)
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
	s := &Store{client: client, prefix: o.Prefix, limits: o.Places.WithDefaults(), options: o, known: newKnown(), node: rand.Text(), now: time.Now}
	if o.Clock != nil {
		s.now = o.Clock
	}
	problems = append(problems, o.Places.Validate(), s.Configure(o.PendingFor))
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
func (s *Store) Closed() uint64 { return s.known.answered.Load() }

// Settle implements guard.Store. A failure is written in two cases only, since the
// charge is there already: its charge filled a limit (decided.go), or it repeats a
// password. If Redis fails then, the password counts once more.
func (s *Store) Settle(ctx context.Context, c guard.Charge, o guard.Outcome) (err error) {
	if !c.ID.Charged() {
		return nil
	}
	all := c.Subjects()
	first, last := c.Counted()
	stands := o == guard.Failed
	switch {
	case o == guard.Succeeded:
		err = s.succeeded(ctx, &c, all[first:last], &all[guard.PairSubject])
	case o != guard.Failed:
		stands, err = s.withdraw(ctx, &c, all[first:last], unseen)
	case c.Repeat:
		if back, failed := s.withdraw(ctx, &c, all[first:last], wrong); failed == nil {
			stands = back
		}
	}
	if stands {
		s.failed(ctx, &c, all[:], first, last)
	}
	if err != nil {
		return fmt.Errorf("redisstore: settling: %w", err)
	}
	return nil
}

// failed notes a charge that stands.
func (s *Store) failed(ctx context.Context, c *guard.Charge, all []failures.Subject, first, last uint8) {
	s.missed(c)
	s.known.fail(c.ID, all[first:last], s.pendingFor())
	for i := first; i < last; i++ {
		if c.ID.Full&(1<<i) != 0 {
			_ = s.publish(ctx, all[i].Shard, all[i].Key) // else an attempt asks for it
		}
	}
}

// succeeded is one trip. The pair is charged always, and its delay begins anew.
func (s *Store) succeeded(
	ctx context.Context, c *guard.Charge, charged []failures.Subject, pair *failures.Subject,
) error {
	calls := s.takingBack(c.ID, charged, pair)
	account := calls[len(calls)-1]
	if c.Tag != 0 {
		s.noting(account, c, right)
	}
	var known []change
	if !c.Nobodys {
		known = append(known, change{what: remember, place: c.Address, at: c.Now.UnixMilli()})
	}
	if c.Device != (trusted.Key{}) && !c.AtDevice {
		known = append(known, change{what: forget, place: c.Device})
	}
	places := s.changing(c.Account, c.Now, known...)
	if len(known) > 0 {
		calls = append(calls, places)
	}
	if err := run(ctx, s.batcher.enqueue, calls...); err != nil {
		return err
	}
	if c.Tag != 0 {
		s.madeGood(c, account.reply)
	}
	s.known.opened(charged...)
	s.known.accounts.Remove(c.Account)
	if full(places) {
		return trusted.ErrFull
	}
	if !c.Nobodys {
		s.known.privileged.Add(placeOf{c.Account, c.Address}, struct{}{})
	}
	return nil
}

// full reports whether places.lua found no room to remember a place.
func full(c *call) bool { return c.reply == int64(0) }

// What became of a password, for takeback.lua.
const (
	wrong  = "wrong"
	right  = "right"
	unseen = "unseen"
)

// noting makes a call that takes back an account's charge say what became of the
// password.
func (s *Store) noting(one *call, c *guard.Charge, what string) {
	if len(one.args) == 1 {
		one.args = append(one.args, "") // no backoff begins anew
	}
	one.keys = append(one.keys, s.tagsKey(c.Account))
	one.args = append(one.args, tagBytes(c.TagAt(c.Place(), c.Status)), what, placeBytes(c.Place()), s.clock())
}

// withdraw takes back an attempt's charge, unless the script for the account says
// that it stands: see failures.Memory.Repeated and Withdrawn.
func (s *Store) withdraw(
	ctx context.Context, c *guard.Charge, charged []failures.Subject, what string,
) (stands bool, err error) {
	if c.Tag == 0 || what == unseen && c.Repeat {
		return false, s.takeBack(ctx, c.ID, charged)
	}
	of := failures.Key(c.Account)
	first := slices.IndexFunc(charged, func(one failures.Subject) bool { return one.Shard == of })
	account := s.takingBack(c.ID, charged[first:], nil)[0]
	s.noting(account, c, what)
	if err := run(ctx, s.batcher.enqueue, account); err != nil {
		return false, err
	}
	if answer, _ := account.reply.([]any); len(answer) == 0 || answer[0] != int64(1) {
		return true, nil
	}
	s.known.opened(charged[first:]...)
	return false, s.takeBack(ctx, c.ID, charged[:first])
}

// Read implements guard.Store.
func (s *Store) Read(ctx context.Context, c guard.Charge) (guard.Charge, guard.Used, error) {
	var used guard.Used
	c.Usage = [len(c.Usage)]failures.Usage{}
	if err := s.try(ctx, &c, &used, true); err != nil {
		return c, used, fmt.Errorf("redisstore: reading: %w", err)
	}
	return c, used, nil
}

// Clear implements guard.Store. Another node may still refuse for a second.
func (s *Store) Clear(ctx context.Context, c guard.Charge) error {
	all := c.Subjects()
	return s.clear(ctx, all[c.First:c.Last])
}

// Forget implements guard.Store.
func (s *Store) Forget(ctx context.Context, account, place trusted.Key, now time.Time) error {
	what := forget
	if place == (trusted.Key{}) {
		what = reset
	}
	return s.changePlaces(ctx, account, now, change{what: what, place: place, at: now.UnixMilli()})
}

func (s *Store) clear(ctx context.Context, subjects []failures.Subject) error {
	calls := make([]*call, len(subjects))
	for i := range subjects {
		calls[i] = s.deleting(&subjects[i])
	}
	if err := run(ctx, s.batcher.enqueue, calls...); err != nil {
		return fmt.Errorf("redisstore: clearing: %w", err)
	}
	s.known.cleared(subjects...)
	return nil
}

func (s *Store) deleting(subject *failures.Subject) *call {
	return &call{args: []any{"del", s.subjectKey(subject.Shard, subject.Key)}}
}

// takeBack removes a charge from subjects.
func (s *Store) takeBack(ctx context.Context, id failures.ChargeID, subjects []failures.Subject) error {
	if err := run(ctx, s.batcher.enqueue, s.takingBack(id, subjects, nil)...); err != nil {
		return err
	}
	s.known.opened(subjects...)
	return nil
}

// takingBack makes a call for each shard of the subjects. The backoff of one of them
// begins anew, unless that is nil.
func (s *Store) takingBack(id failures.ChargeID, subjects []failures.Subject, anew *failures.Subject) (calls []*call) {
	byShard := map[failures.Key]*call{}
	for i := range subjects {
		shard := subjects[i].Shard
		c := byShard[shard]
		if c == nil {
			c = &call{script: takeBackScript, args: []any{stampOf(id, shard)}}
			byShard[shard] = c
			calls = append(calls, c)
		}
		c.keys = append(c.keys, s.subjectKey(shard, subjects[i].Key))
		if anew != nil && subjects[i].Key == anew.Key {
			c.args = append(c.args, len(c.keys))
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

// What places.lua can do.
const (
	remember    = "remember"
	spend       = "spend"
	forget      = "forget"
	reset       = "reset"
	mergePlace  = "merge"
	mergeSpent  = "merge-spent"
	mergeResets = "merge-reset"
)

// A change of an account's places, at a time in milliseconds.
type change struct {
	what  string
	place trusted.Key
	at    int64
	first int64 // when the place was first used; 0: at that time
}

// recordOf reads what charge.lua says of all places.
func recordOf(told any) (r trusted.Record) {
	list, _ := told.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		member, _ := list[i].(string)
		score, _ := list[i+1].(string)
		at, _ := strconv.ParseInt(score, 10, 64)
		e := trusted.Entry{Status: trusted.Privileged, First: at, Last: at}
		switch kind := member[copy(e.Place[:], member):]; {
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
		what := mergePlace
		if e.Status == trusted.Spent {
			what = mergeSpent
		}
		changes = append(changes, change{what, e.Place, e.Last, e.First})
	}
	return s.changePlaces(ctx, account, now, changes...)
}

func (s *Store) changePlaces(ctx context.Context, account trusted.Key, now time.Time, changes ...change) error {
	for _, one := range changes {
		needs := one.what != reset && one.what != mergeResets
		if account == (trusted.Key{}) || needs && one.place == (trusted.Key{}) {
			return trusted.ErrNoKey
		}
	}
	places := s.changing(account, now, changes...)
	if err := run(ctx, s.batcher.enqueue, places); err != nil {
		return fmt.Errorf("redisstore: changing known clients: %w", err)
	}
	s.known.accounts.Remove(account)
	if full(places) {
		return trusted.ErrFull
	}
	return nil
}

func (s *Store) changing(account trusted.Key, now time.Time, changes ...change) *call {
	c := &call{script: placesScript, keys: []any{s.placesKey(account)}}
	c.args = append(c.args, s.since(now), s.limits.TTL.Milliseconds(), s.limits.Places, trusted.MaxSpent,
		trusted.NewFor.Milliseconds(), trusted.LongStanding.Milliseconds())
	for i := range changes {
		one := &changes[i]
		c.args = append(c.args, one.what, one.place[:], one.at, cmp.Or(one.first, one.at))
	}
	return c
}

// since is when a place was last used that has just expired.
func (s *Store) since(now time.Time) int64 { return now.Add(-s.limits.TTL).UnixMilli() }
