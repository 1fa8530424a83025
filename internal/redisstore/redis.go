package redisstore

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Server says where Redis is. The zero values of all but Addresses are one
// server without a password.
type Server struct {
	// Addresses are host:port: of the server, of any of a Cluster's nodes, or
	// of the Sentinels.
	Addresses []string
	// Cluster is for a Redis Cluster.
	Cluster bool
	// Master is how the Sentinels call the master; empty without Sentinels.
	Master string

	Username, Password string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// TLS encrypts the connections; nil: plain.
	TLS *tls.Config
	// Database is a number; a Cluster has only 0.
	Database int
	// Timed is told of each trip, when it ends, how long it took. It must not block. Nil:
	// nobody is told.
	Timed func(ctx context.Context, took time.Duration)
}

// connections to each server at most: every one of them waits for one answer,
// and Redis gives tens of thousands a second.
const connections = 64

// Connect makes a client that waits as long as patience for a connection and
// for an answer. It sends nothing yet, and is the caller's to close. No command
// is ever sent twice: a charge would count twice.
func Connect(s Server, patience time.Duration) redis.UniversalClient {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addresses, IsClusterMode: s.Cluster, MasterName: s.Master, DB: s.Database,
		Username: s.Username, Password: s.Password,
		SentinelUsername: s.SentinelUsername, SentinelPassword: s.SentinelPassword, TLSConfig: s.TLS,
		MaxRetries: -1, ContextTimeoutEnabled: true, PoolSize: connections,
		DialTimeout: patience, ReadTimeout: patience, WriteTimeout: patience, PoolTimeout: patience,
		DialerRetries: 1, DisableIdentity: true,
	})
	if s.Timed != nil {
		client.AddHook(timed(s.Timed))
	}
	return client
}

// timed is a hook around every command and pipeline.
type timed func(ctx context.Context, took time.Duration)

// DialHook leaves dialling alone: it is part of the trip that needs it.
func (timed) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (t timed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		defer t.since(ctx, time.Now())
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (t timed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		defer t.since(ctx, time.Now())
		return next(ctx, cmds)
	}
}

func (t timed) since(ctx context.Context, began time.Time) { t(ctx, time.Since(began)) }

// A script is the text of a .lua file.
type script struct {
	text   string
	digest string
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it, no secret
	return &script{text: text, digest: hex.EncodeToString(sum[:])}
}

// A call is one run of a script; or a plain command, all of it in args, if
// there is no script. Keys and args are strings or numbers; all keys of a call
// lie in one slot.
type call struct {
	script *script
	keys   []any
	args   []any
	// reply and err are what came of it.
	reply any
	err   error
}

const (
	// retryFor is how long a call is repeated while its keys move between two
	// servers of a Cluster: neither runs it then, and says so.
	retryFor   = 250 * time.Millisecond
	retryAfter = 2 * time.Millisecond
)

// A sender sends commands in one round trip, or fails before it sent any. Each
// command keeps its own error.
type sender func(context.Context, []*redis.Cmd) error

// direct sends commands in a pipeline of their own.
func direct(client redis.UniversalClient) sender {
	return func(ctx context.Context, cmds []*redis.Cmd) error {
		pipe := client.Pipeline()
		for _, cmd := range cmds {
			_ = pipe.Process(ctx, once{cmd})
		}
		_, _ = pipe.Exec(ctx)
		return nil
	}
}

// once is a command that the client never repeats by itself: a charge would
// count twice. In a Cluster one TRYAGAIN made go-redis run a whole pipeline four
// times. MOVED and ASK, after which nothing was done, it does follow.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run makes all calls in one round trip. Only those that were surely not run,
// because their script was not known (any more) or their slot is being moved,
// are sent again. It returns the first error of any; the other calls may have
// been run all the same.
func run(ctx context.Context, send sender, calls ...*call) error {
	var until time.Time
	for left := calls; len(left) > 0; left = notRun(ctx, left, &until) {
		cmds := make([]*redis.Cmd, len(left))
		for i, c := range left {
			cmds[i] = c.command(ctx)
		}
		err := send(ctx, cmds)
		for i, c := range left {
			if c.err = err; err == nil {
				c.reply, c.err = cmds[i].Result()
			}
		}
	}
	for _, c := range calls {
		if c.err != nil && !errors.Is(c.err, redis.Nil) {
			return c.err
		}
	}
	return nil
}

// notRun returns the calls to send again, after a little while if that is for
// keys on their way.
func notRun(ctx context.Context, calls []*call, until *time.Time) (again []*call) {
	moving := false
	for _, c := range calls {
		if c.unknown() || c.moving() {
			again = append(again, c)
		}
		moving = moving || c.moving()
	}
	if !moving {
		return again
	}
	if until.IsZero() {
		*until = time.Now().Add(retryFor)
	}
	timer := time.NewTimer(retryAfter)
	defer timer.Stop()
	select {
	case <-timer.C:
		if time.Now().Before(*until) {
			return again
		}
	case <-ctx.Done():
	}
	return nil
}

// command is by the script's digest or, if the server does not know that, with
// its text.
func (c *call) command(ctx context.Context) *redis.Cmd {
	if c.script == nil {
		return redis.NewCmd(ctx, c.args...)
	}
	verb, text := "evalsha", c.script.digest
	if c.unknown() {
		verb, text = "eval", c.script.text
	}
	args := make([]any, 0, 3+len(c.keys)+len(c.args))
	args = append(append(args, verb, text, len(c.keys)), c.keys...)
	return redis.NewCmd(ctx, append(args, c.args...)...)
}

func (c *call) unknown() bool { return c.err != nil && redis.HasErrorPrefix(c.err, "NOSCRIPT") }

func (c *call) moving() bool {
	return c.err != nil && (redis.HasErrorPrefix(c.err, "TRYAGAIN") ||
		redis.HasErrorPrefix(c.err, "MOVED") || redis.HasErrorPrefix(c.err, "ASK"))
}

// pipelines is how many pipelines a batcher has under way at once: enough that
// Redis has work while answers to other work are being read.
const pipelines = 4

// callersPerPipeline is how many callers' commands one pipeline carries at most: a flood
// must not make one so long that it looks as if Redis hung.
const callersPerPipeline = 64

// A batcher sends the commands of concurrent callers in shared pipelines, which saves system
// calls on both sides. A caller that finds few pipelines under way sends one at once; later
// callers wait, and one of them sends all their commands when a pipeline ends. With a pipeline
// for each of 50 concurrent attempts, a node made less than half as many attempts
// (BenchmarkAttempt). It is safe for concurrent use.
//
// go-redis's AutoPipeline (experimental in 9.23) is as fast, but splits the scripts of one
// attempt over pipelines.
type batcher struct {
	send sender

	mu      sync.Mutex
	waiting []*request
	running int
}

// newBatcher returns a batcher of a client, which bounds how long a pipeline may
// take. Waiting for a turn is not Redis's slowness.
func newBatcher(client redis.UniversalClient) *batcher { return &batcher{send: direct(client)} }

// A request is the commands of one caller.
type request struct {
	cmds []*redis.Cmd
	// others are sent along, if it is for the caller to send.
	others []*request
	// turn is true if it is for the caller to send them, false once they were.
	turn chan bool
}

// enqueue sends commands and returns when each has its answer or error. It fails
// only if ctx has ended before. Whoever gives up later still hears what came of
// the commands: half a charge must be taken back.
func (b *batcher) enqueue(ctx context.Context, cmds []*redis.Cmd) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r := &request{cmds: cmds}
	if !b.start(r) && !<-r.turn {
		return nil
	}
	b.flush(r)
	return nil
}

// start lets a request begin a pipeline, or makes it wait.
func (b *batcher) start(r *request) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.running < pipelines {
		b.running++
		return true
	}
	r.turn = make(chan bool, 1)
	b.waiting = append(b.waiting, r)
	return false
}

// flush sends a request and those that go along.
func (b *batcher) flush(own *request) {
	cmds := own.cmds
	for _, r := range own.others {
		cmds = append(cmds, r.cmds...)
	}
	sent := false
	defer func() {
		if !sent { // the client panics
			for _, cmd := range cmds {
				cmd.SetErr(errUnsent)
			}
		}
		for _, r := range own.others {
			r.turn <- false
		}
		b.next()
	}()
	_ = b.send(context.Background(), cmds) // each command has its own error
	sent = true
}

var errUnsent = errors.New("redisstore: not sent")

// next hands the pipeline to the first that waits, with those next in line.
func (b *batcher) next() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) == 0 {
		b.running--
		return
	}
	first, n := b.waiting[0], min(len(b.waiting), callersPerPipeline)
	first.others, b.waiting = b.waiting[1:n:n], b.waiting[n:]
	first.turn <- true
}

// Every key that authguard has in Redis, each after the realm's prefix ("ag:"
// unless configured):
//
//	{S}          charges of the subject S that is a shard: an account, a network
//	{S}K         charges of a subject kept with it: a pair, an address
//	{S}p         the places of account S
//	{S}v         the accounts that log in from address S (Addresses), as its places
//	asked        the subjects at which attempts wait (asm.lua): a sorted set
//	{S}d, {S}Kd  which young charges of a subject have failed (memory.go): a hash
//	{S}w         the tags of the last passwords of account S, for a day: 24 bits of each
//	c:ID         a challenge that was used up
//	s:ID         a ticket of the decision API that was settled
//	lifeN        a random text for as long as Redis keeps what it knows (site.go)
//	keys         the nodes' signature: the layout's number, and the fingerprint of their keys
//	{PREFIXmode}counted  what each node has counted for CAPTCHA mode: a hash
//	{PREFIXmode}agreed   what the nodes have agreed on about it: a hash
//	{PREFIXspray}seen    the latest wrong passwords of all strangers (spray.lua): a string
//	{PREFIXspray}found   which passwords are sprayed: a hash
//
// S is the first 12 bytes of the shard's digest, K the first 9 of the
// subject's, ID all 16, in base64: multiples of three need no padding. Digests
// are keyed, so nobody can aim at a collision, and nothing that anybody typed is
// in a name. By chance two of 2³² shards share 12 bytes once in 2³³ sites, and
// two of a million addresses that tried one account 9 bytes once in 2³³
// accounts; they would count callersPerPipeline, which is stricter. A shorter name saves
// 8 bytes of some 120 in a key.
//
// What stands in braces is a key's hash tag: all keys of an account lie in one
// slot of a Cluster, as do all of a network, and an attempt touches two slots.
//
// Charges are a string of the newest (charge.lua; 5 bytes more where a login has let
// the delay of a pair with failures begin anew), which lives as long as its
// ladder's longest window and a second. Tags are a string, too. Places
// are a sorted set with two members for each (knownclients.lua), which lives as long as a
// privilege; an account that is known always has one.
const (
	shardBytes   = 12
	subjectBytes = 9
	// DefaultPrefix begins every key.
	DefaultPrefix = "ag:"
)

func (s *Store) shardKey(shard [16]byte) []byte {
	b := make([]byte, 0, len(s.prefix)+32)
	b = append(append(b, s.prefix...), '{')
	return append(base64.RawURLEncoding.AppendEncode(b, shard[:shardBytes]), '}')
}

// subjectKey is the key of a subject's charges.
func (s *Store) subjectKey(shard, subject [16]byte) string {
	b := s.shardKey(shard)
	if subject != shard {
		b = base64.RawURLEncoding.AppendEncode(b, subject[:subjectBytes])
	}
	return string(b)
}

func (s *Store) knownClientsKey(account [16]byte) string {
	return string(append(s.shardKey(account), 'p'))
}

func (s *Store) accountsKey(address [16]byte) string {
	return string(append(s.shardKey(address), 'v'))
}

func (s *Store) tagsKey(account [16]byte) string {
	return string(append(s.shardKey(account), 'w'))
}

// sprayKeys are those of spray.lua.
func (s *Store) sprayKeys() []any {
	tag := s.prefix + "{" + s.prefix + "spray}"
	return []any{tag + "seen", tag + "found"}
}

// idKey is the key of a challenge or a ticket.
func idKey(prefix string, id [16]byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(id[:])
}
