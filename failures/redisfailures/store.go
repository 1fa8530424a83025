package redisfailures

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/failures"
	"authguard/internal/redisepoch"
	"authguard/internal/redisscript"
	"authguard/trusted/redisplaces"
)

// Defaults of Options.
const (
	DefaultPrefix      = "ag:"
	DefaultPendingFor  = 5 * time.Second
	DefaultRetain      = 24 * time.Hour
	DefaultClosedBytes = 32 << 20
)

const (
	maxSubjects = 8 // in one call
	// settleWithin is how long a charge may take to be taken back although its
	// caller has gone.
	settleWithin = time.Second
)

// Options configure a Store. The zero Options are the default.
type Options struct {
	// Prefix begins every key's name: one for each realm. Short is cheap.
	// Default DefaultPrefix; braces are not allowed in it.
	Prefix string
	// PendingFor is the longest that a password check takes: an older charge
	// is a failure. Default DefaultPendingFor.
	PendingFor time.Duration
	// Retain is how long a charge may matter: the longest window of any ladder
	// used with this store. A key lives as long after its last charge.
	// Default DefaultRetain.
	Retain time.Duration
	// SplitPlaces sends one script for each place, not one for all of them.
	// It is so with a *redis.ClusterClient; set it where a proxy hides a
	// cluster behind one address.
	SplitPlaces bool
	// ClosedBytes bounds what this node remembers of closed keys; default
	// DefaultClosedBytes.
	ClosedBytes int
	// Places are the privileged places of the same realm, in the same Redis.
	// Only ChargeAs needs them.
	Places *redisplaces.Store

	// Clock stands in for Redis's and this node's in tests, which cannot move
	// either. Nil outside of them.
	Clock func() time.Time
}

// Store is a failures.Store in Redis. It is safe for concurrent use. The client
// is the caller's to close; it should be made with MaxRetries -1, since a
// charge that is sent twice counts twice.
type Store struct {
	client  redis.UniversalClient
	bundler *redisscript.Bundler // for what many do at once
	prefix  string
	split   bool
	places  *redisplaces.Store
	retain  atomic.Int64 // milliseconds
	pending atomic.Int64 // milliseconds
	plans   plans
	scripts fixed
	decided *decided
	closed  *closed
	epoch   *redisepoch.Epoch
	counts  counts

	now      func() time.Time // this node's clock, for durations only
	clockLua string           // how a script reads Redis's
	clock    func() time.Time // see Options
}

var _ failures.Store = (*Store)(nil)

// New returns the store of a realm. Nothing is sent to Redis yet.
func New(client redis.UniversalClient, o Options) (*Store, error) {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.PendingFor = cmp.Or(o.PendingFor, DefaultPendingFor)
	o.Retain = cmp.Or(o.Retain, DefaultRetain)
	o.ClosedBytes = cmp.Or(o.ClosedBytes, DefaultClosedBytes)
	if err := errors.Join(o.validate(client), validWindows(o.Retain, o.PendingFor)); err != nil {
		return nil, err
	}
	_, cluster := client.(*redis.ClusterClient)
	s := &Store{
		client: client, bundler: redisscript.NewBundler(client), prefix: o.Prefix, split: o.SplitPlaces || cluster, places: o.Places,
		decided: newDecided(), closed: newClosed(o.ClosedBytes),
		epoch: redisepoch.New(client, o.Prefix+"unlocks"),
		now:   time.Now, clockLua: clockLua,
	}
	if o.Clock != nil {
		s.now, s.clock, s.clockLua = o.Clock, o.Clock, toldClockLua
	}
	s.scripts = newFixed(s.clockLua)
	s.retain.Store(o.Retain.Milliseconds())
	s.pending.Store(o.PendingFor.Milliseconds())
	return s, nil
}

func (o *Options) validate(client redis.UniversalClient) error {
	var errs []error
	if client == nil {
		errs = append(errs, errors.New("redisfailures: client is missing"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		errs = append(errs, errors.New("redisfailures: Prefix must not hold a brace"))
	}
	if o.ClosedBytes < 0 {
		errs = append(errs, errors.New("redisfailures: ClosedBytes must not be negative"))
	}
	if o.Places != nil && o.Places.Prefix() != o.Prefix {
		errs = append(errs, fmt.Errorf("redisfailures: Prefix %q and that of Places, %q, must be equal", o.Prefix, o.Places.Prefix()))
	}
	return errors.Join(errs...)
}

func validWindows(retain, pendingFor time.Duration) error {
	var errs []error
	for what, d := range map[string]time.Duration{"Retain": retain, "PendingFor": pendingFor} {
		if d < time.Millisecond || d > failures.MaxWindow {
			errs = append(errs, fmt.Errorf("redisfailures: %s must be from 1ms to %v, not %v", what, failures.MaxWindow, d))
		}
	}
	return errors.Join(errs...)
}

// Configure changes how long a charge may matter and how long a password check
// may take, for what is charged from now on.
func (s *Store) Configure(retain, pendingFor time.Duration) error {
	if err := validWindows(retain, pendingFor); err != nil {
		return err
	}
	s.retain.Store(retain.Milliseconds())
	s.pending.Store(pendingFor.Milliseconds())
	return nil
}

// PendingFor is the longest that a password check takes.
func (s *Store) PendingFor() time.Duration { return time.Duration(s.pending.Load()) * time.Millisecond }

// Start lets this node answer for keys that it knows to be closed, until
// another node unlocks one. Without it every charge is put to Redis. Started
// already, it does nothing.
func (s *Store) Start() { s.epoch.Start() }

// Stop ends what Start started. It may be called twice, or without a Start.
func (s *Store) Stop() { s.epoch.Stop() }

// Load makes the scripts that need no ladder, and those of this node's charges
// so far, known to the server, or to every master. Nothing breaks without it.
func (s *Store) Load(ctx context.Context) error {
	scripts := []*redisscript.Script{s.scripts.read, s.scripts.clear, s.scripts.takeBack}
	s.plans.scripts.Range(func(_, script any) bool {
		scripts = append(scripts, script.(*redisscript.Script))
		return true
	})
	return redisscript.Load(ctx, s.client, scripts...)
}

// Counts are what the store did, since it was made.
type Counts struct {
	// Closed is how many charges were refused without a call to Redis.
	Closed uint64
	// TakenBack is how many places were charged and, since another place
	// refused, failed or turned out not to matter, taken back.
	TakenBack uint64
	// Lost is how often a privileged place's address was charged and that could
	// not be taken back.
	Lost uint64
}

type counts struct{ closed, takenBack, lost atomic.Uint64 }

// Counts tells what the store did.
func (s *Store) Counts() Counts {
	return Counts{Closed: s.counts.closed.Load(), TakenBack: s.counts.takenBack.Load(), Lost: s.counts.lost.Load()}
}

// clockArgs are the last arguments of every script: none, but in tests.
func (s *Store) clockArgs() []any {
	if s.clock == nil {
		return nil
	}
	return []any{s.clock().UnixMilli()}
}

func check(subjects []failures.Subject, standings []failures.Usage, asked bool) error {
	if len(subjects) > maxSubjects || asked && len(standings) < len(subjects) {
		return fmt.Errorf("redisfailures: %d subjects with %d standings; at most %d subjects, with as many standings",
			len(subjects), len(standings), maxSubjects)
	}
	return nil
}
