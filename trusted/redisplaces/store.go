package redisplaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/internal/redisepoch"
	"authguard/internal/redisscript"
	"authguard/trusted"
)

// Defaults of Options.
const (
	DefaultPrefix = "ag:"
	// DefaultRemembered takes about 30 MB when it is full.
	DefaultRemembered = 100_000
)

// Options configure a Store. The zero Options are the default.
type Options struct {
	// Prefix begins every key's name: one for each realm. Default
	// DefaultPrefix; braces are not allowed in it.
	Prefix string
	Limits trusted.Limits
	// Remembered is how many accounts with privileged places this node knows
	// without Redis, and as many again of others; default DefaultRemembered.
	Remembered int
}

// Store is a trusted.Store in Redis. It is safe for concurrent use. The client
// is the caller's to close.
type Store struct {
	client redis.UniversalClient
	prefix string
	limits trusted.Limits
	epoch  *redisepoch.Epoch
	known  *memory // records with a privileged place
	others *memory // the rest, the empty record among them
	// doubted are records that Redis says are gone. It may be Redis's memory
	// that is; see Refill.
	doubted *memory
}

var _ trusted.Store = (*Store)(nil)

// New returns the store of a realm. Nothing is sent to Redis yet.
func New(client redis.UniversalClient, o Options) (*Store, error) {
	var problems []error
	if client == nil {
		problems = append(problems, errors.New("client is missing"))
	}
	if o.Remembered < 0 {
		problems = append(problems, errors.New("remembered: must be at least 1"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		problems = append(problems, errors.New("prefix: must not hold a brace"))
	}
	problems = append(problems, o.Limits.Validate())
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("redisplaces: %w", err)
	}
	prefix, remembered := cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.Remembered, DefaultRemembered)
	return &Store{
		client: client, prefix: prefix, limits: o.Limits.WithDefaults(),
		epoch: redisepoch.New(client, prefix+"places"),
		known: newMemory(remembered), others: newMemory(remembered), doubted: newMemory(remembered),
	}, nil
}

// Start lets this node answer from what it remembers of an account, which is
// at most a second behind what other nodes do. Without it every question is
// put to Redis. Started already, it does nothing.
func (s *Store) Start() { s.epoch.Start() }

// Stop ends what Start started. It may be called twice, or without a Start.
func (s *Store) Stop() { s.epoch.Stop() }

// Load makes the store's script known to the server, or to every master.
func (s *Store) Load(ctx context.Context) error { return redisscript.Load(ctx, s.client, replace) }

// Limits are the bounds that hold, none of them zero.
func (s *Store) Limits() trusted.Limits { return s.limits }

// Prefix begins the names of the store's keys.
func (s *Store) Prefix() string { return s.prefix }

// Status implements trusted.Store.
func (s *Store) Status(ctx context.Context, account, place trusted.Key, now time.Time) (trusted.Status, error) {
	record, err := s.look(ctx, account)
	return record.Status(place, now, s.limits), err
}

// ResetAt implements trusted.Store.
func (s *Store) ResetAt(ctx context.Context, account trusted.Key) (time.Time, error) {
	record, err := s.look(ctx, account)
	return resetTime(&record), err
}

func resetTime(r *trusted.Record) time.Time {
	if r.Reset == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.Reset)
}

// look finds an account's record: in this node's memory if that is fresh, or
// in Redis.
func (s *Store) look(ctx context.Context, account trusted.Key) (trusted.Record, error) {
	if text, fresh := s.fresh(account); fresh {
		return decode(text)
	}
	number, _ := s.epoch.Now()
	text, err := s.client.Get(ctx, Name(s.prefix, account)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return trusted.Record{}, fmt.Errorf("redisplaces: reading a record: %w", err)
	}
	record, err := decode(text)
	if err == nil {
		s.remember(account, text, &record, number)
	}
	return record, err
}
