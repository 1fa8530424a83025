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

// A Server locates Redis. Only Addresses is required.
type Server struct {
	// Addresses are host:port of the server, of some nodes of a Cluster, or of the Sentinels.
	Addresses []string
	Cluster   bool
	// Master is the master's name at the Sentinels; empty without Sentinels.
	Master string

	Username, Password string
	// SentinelUsername and SentinelPassword are for the Sentinels themselves.
	SentinelUsername, SentinelPassword string
	// TLS encrypts the connections. It may be nil.
	TLS *tls.Config
	// Timed, if not nil, is called after each round trip. It must not block.
	Timed func(ctx context.Context, took time.Duration)
}

// connections to each server at most.
const connections = 64

// Connect returns a client whose connections and commands time out after patience. It sends
// nothing; the caller closes it. No command is sent twice, because a charge would count twice.
func Connect(s Server, patience time.Duration) redis.UniversalClient {
	client := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: s.Addresses, IsClusterMode: s.Cluster, MasterName: s.Master,
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

// timed is a hook around commands and pipelines.
type timed func(ctx context.Context, took time.Duration)

// DialHook implements redis.Hook. Dialing is part of the round trip.
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

// A call is one run of a script or, without one, a command in args. Keys and args are strings or
// numbers; all keys have one hash slot.
type call struct {
	script *script
	keys   []any
	args   []any
	reply  any
	err    error
}

const (
	// retryFor is how long a call is repeated while its keys move between servers of a Cluster.
	// Neither server runs it then, and both say so.
	retryFor   = 250 * time.Millisecond
	retryAfter = 2 * time.Millisecond
)

// A sender sends commands in one round trip, or fails before it sent any. Each command keeps its
// own error.
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

// once is a command that the client does not repeat, because a charge would count twice: after one
// TRYAGAIN of a Cluster, go-redis ran a whole pipeline four times. It does follow MOVED and ASK.
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// run makes all calls in one round trip. It repeats only those that Redis did not run, because
// their script was unknown or their slot is moving. It returns the first error; other calls may
// have run.
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

// notRun returns the calls to repeat. If keys are moving, it waits first.
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

// command uses the script's digest or, if the server does not know it, the text.
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

// pipelines is the number of pipelines at a time: enough that Redis works while answers are read.
const pipelines = 4

// callersPerPipeline bounds a pipeline: during a flood, a longer one would exceed the time limit.
const callersPerPipeline = 64

// A batcher sends the commands of concurrent callers in shared pipelines, which saves system calls
// on both sides: with a pipeline for each of 50 concurrent attempts, a node made less than half as
// many (BenchmarkAttempt). A caller sends at once if there are few pipelines; later callers wait,
// and one of them sends for all when a pipeline ends. It is safe for concurrent use.
//
// go-redis's AutoPipeline (experimental in 9.23) is as fast, but splits the scripts of one attempt
// over pipelines.
type batcher struct {
	send sender

	mu      sync.Mutex
	waiting []*request
	running int
}

// newBatcher returns a batcher for a client, which bounds the time of a pipeline. Waiting for a
// pipeline does not count.
func newBatcher(client redis.UniversalClient) *batcher { return &batcher{send: direct(client)} }

// A request has the commands of one caller.
type request struct {
	cmds []*redis.Cmd
	// others are sent in the same pipeline, if this caller sends.
	others []*request
	// turn is true if this caller sends, false once the commands were sent.
	turn chan bool
}

// enqueue sends commands and waits for the answers, even if ctx ends meanwhile: half a charge must
// be taken back.
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

// start reports whether the request may begin a pipeline; otherwise the request waits.
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

// next passes the pipeline to the waiting requests.
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

// All keys in Redis, each after the realm's prefix ("ag:" by default):
//
//	{S}          charges of the subject S that is a shard: an account, a network
//	{S}K         charges of a subject kept with it: a pair, an IP address
//	{S}p         the known clients of account S
//	{S}v         the accounts that log in from IP address S (Addresses), stored like known clients
//	asked        the subjects at which attempts wait (ask.lua): a sorted set
//	{S}d, {S}Kd  which young charges of a subject have failed (memory.go): a hash
//	{S}w         the tags of the last passwords of account S, for a day: 24 bits of each
//	c:ID         a used challenge
//	s:ID         a settled ticket of the decision API
//	lifeN        a random text that is lost with all other data (site.go)
//	keys         the nodes' signature: the layout's number, and the fingerprint of their keys
//	{PREFIXmode}counted  what each node has counted for CAPTCHA mode: a hash
//	{PREFIXmode}agreed   the state of CAPTCHA mode, with its version: a hash
//	{PREFIXspray}seen    the latest wrong passwords of all unknown clients (spray.lua): a string
//	{PREFIXspray}found   the passwords used for spraying: a hash
//
// S is the first 12 bytes of the shard's digest, K the first 9 of the subject's, ID all 16, in
// base64; multiples of three need no padding. Digests are keyed, so an attacker cannot aim at a
// collision, and no input is in a name (R23). Two of 2³² shards share 12 bytes once in 2³³ sites,
// and two of a million IP addresses that tried one account 9 bytes once in 2³³ accounts. They would
// count together, which is stricter. Short names save 8 of about 120 bytes a key.
//
// The braces enclose the hash tag: all keys of an account have one slot of a Cluster, as have all
// of a network.
//
// Charges are a string (charge.lua), which lives for the longest window of the limits and a second.
// Tags are a string. Known clients are a sorted set with two members each (knownclients.lua), which
// lives until they expire; a known account always has one.
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

func (s *Store) sprayKeys() []any {
	tag := s.prefix + "{" + s.prefix + "spray}"
	return []any{tag + "seen", tag + "found"}
}

// idKey is the key of a challenge or a ticket.
func idKey(prefix string, id [16]byte) string {
	return prefix + base64.RawURLEncoding.EncodeToString(id[:])
}
