package redisstore

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"authguard/captchamode"
)

var (
	//go:embed mode_flush.lua
	modeFlushLua string
	//go:embed mode_agree.lua
	modeAgreeLua string

	modeFlushScript = newScript(modeFlushLua)
	modeAgreeScript = newScript(modeAgreeLua)
)

const (
	// DefaultModeEvery is how often a node flushes.
	DefaultModeEvery = 250 * time.Millisecond
	// modeFlushWithin is the timeout of a flush in Run.
	modeFlushWithin = time.Second
	// modeTries bounds a flush that other nodes outrun. The next flush continues.
	modeTries = 5
	// modeStays is how long the state is kept after the last flush of any node, in addition to the
	// cool-down, so that a night without nodes loses nothing.
	modeStays = 24 * time.Hour
)

// ModeOptions configure NewMode. The zero ModeOptions are valid.
type ModeOptions struct {
	// Prefix begins every key's name, one for each realm, without braces. Default DefaultPrefix.
	Prefix string
	// Node identifies this process, also after a restart. Default: a random name.
	Node string
	// Every is how often Run flushes. Default DefaultModeEvery.
	Every time.Duration
	// OnError, if not nil, is called when a flush fails and the last did not, and with nil when
	// flushes succeed again. It must not block.
	OnError func(error)
}

// A Mode shares one captchamode.Mode with the other nodes. Each node answers from memory; several
// times a second it reports its counts in one script. All times are Redis's, because a node's clock
// may be wrong. Methods are safe for concurrent use.
//
// While Redis is unavailable, each node keeps the level and goes by its own failure rate (R22).
// Afterwards the higher level holds.
type Mode struct {
	client        redis.UniversalClient
	mode          *captchamode.Mode
	options       ModeOptions
	reports, kept string       // the names of the keys
	nodes         atomic.Int32 // when Redis last answered
	hurry         chan struct{}
	now           func() time.Time // Redis's, in tests

	mu      sync.Mutex // one flush at a time
	version string     // that was read or written last
	agreed  *captchamode.Agreed
	failed  bool
}

// NewMode makes mode one of a site's nodes. It sends nothing; until the first flush the mode goes
// by itself. A node that flushes before it serves starts with the site's state.
//
// The mode must be new: not joined, nothing observed. It may have been restored.
func NewMode(client redis.UniversalClient, mode *captchamode.Mode, o ModeOptions) (*Mode, error) {
	o.Prefix, o.Node, o.Every = cmp.Or(o.Prefix, DefaultPrefix), cmp.Or(o.Node, rand.Text()),
		cmp.Or(o.Every, DefaultModeEvery)
	var errs []error
	if client == nil || mode == nil {
		errs = append(errs, errors.New("redisstore: the mode needs a client and a captchamode.Mode"))
	}
	if strings.ContainsAny(o.Prefix, "{}") {
		errs = append(errs, errors.New("redisstore: Prefix must not hold a brace"))
	}
	if o.Every < 0 {
		errs = append(errs, errors.New("redisstore: Every must be positive"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	tag := o.Prefix + "{" + o.Prefix + "mode}"
	m := &Mode{
		client: client, mode: mode, options: o, hurry: make(chan struct{}, 1),
		reports: tag + "counted", kept: tag + "agreed",
	}
	m.nodes.Store(1)
	mode.Join(o.Node, func() {
		select {
		case m.hurry <- struct{}{}:
		default:
		}
	})
	return m, nil
}

// Run flushes until ctx ends, and once afterwards. The mode then goes by itself.
func (m *Mode) Run(ctx context.Context) {
	tick := time.NewTicker(m.options.Every)
	defer tick.Stop()
	for running := true; running; {
		select {
		case <-ctx.Done():
			running = false
		case <-tick.C:
		case <-m.hurry:
		}
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), modeFlushWithin)
		_ = m.Flush(within) // OnError is called
		cancel()
	}
	m.mode.GoAlone()
}

// Nodes is the number of nodes that flushed within three seconds of the last answer, at least 1.
func (m *Mode) Nodes() int { return int(m.nodes.Load()) }

// Flush reports this node's counts and applies the site's level. After an error the mode goes by
// itself.
func (m *Mode) Flush(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	for try, done := 0, false; !done && err == nil && try < modeTries; try++ {
		done, err = m.exchange(ctx)
	}
	if err != nil {
		err = fmt.Errorf("redisstore: writing the failure rate: %w", err)
		m.mode.GoAlone()
	}
	if failed := err != nil; failed != m.failed {
		m.failed = failed
		if m.options.OnError != nil {
			m.options.OnError(err)
		}
	}
	return err
}

// exchange reports once and writes the new state. It returns false if another node has written
// meanwhile.
func (m *Mode) exchange(ctx context.Context) (done bool, err error) {
	answer, err := m.report(ctx, m.mode.Report())
	if err != nil {
		return false, err
	}
	m.nodes.Store(int32(max(1, answer.Nodes)))
	next := m.mode.Merge(answer)
	if next == nil {
		return true, nil
	}
	state, err := json.Marshal(next)
	if err != nil {
		return false, err
	}
	stays := time.Duration(m.mode.State().CoolDown) + modeStays
	reply, err := m.run(ctx, modeAgreeScript, []any{m.kept}, m.version, next.Version, state, stays.Milliseconds())
	if err != nil || reply != int64(1) {
		return false, err
	}
	m.version, m.agreed = next.Version, next
	m.mode.Apply(*next)
	return true, nil
}

func (m *Mode) report(ctx context.Context, r captchamode.Report) (captchamode.Answer, error) {
	corrected := make([]string, len(r.Corrected))
	for i, one := range r.Corrected {
		corrected[i] = fmt.Sprintf("%x:%x", one.Pair, one.At)
	}
	reset := int64(0)
	if !r.Cleared.IsZero() {
		reset = r.Cleared.UnixMilli()
	}
	args := []any{m.options.Node, m.version, strings.Join(corrected, " "), reset, r.Minute.Unix() / 60}
	for _, counts := range []captchamode.Counts{r.FailureRate, r.Running, r.Last} {
		for _, n := range counts {
			args = append(args, n)
		}
	}
	if m.now != nil {
		args = append(args, m.now().UnixMilli())
	}
	reply, err := m.run(ctx, modeFlushScript, []any{m.reports, m.kept}, args...)
	if err != nil {
		return captchamode.Answer{}, err
	}
	answer, err := m.read(reply)
	answer.To = r
	return answer, err
}

var errModeAnswer = errors.New("not an answer of mode_flush.lua")

// read reads an answer of mode_flush.lua.
func (m *Mode) read(reply any) (answer captchamode.Answer, err error) {
	const signs = len(captchamode.Counts{})
	var n [2 + 3*signs]int
	list, ok := reply.([]any)
	if !ok || len(list) != len(n)+3 {
		return answer, errModeAnswer
	}
	for i := range n {
		v, ok := list[i].(int64)
		if !ok {
			return answer, errModeAnswer
		}
		n[i] = int(v)
	}
	counts := func(of int) captchamode.Counts { return captchamode.Counts(n[2+of*signs:]) }
	version, _ := list[len(n)].(string)
	if version != m.version {
		state, _ := list[len(n)+1].(string)
		m.version, m.agreed = version, new(captchamode.Agreed)
		if json.Unmarshal([]byte(state), m.agreed) == nil {
			m.agreed.Version = version // without one it makes no sense, and is written anew
		}
	}
	now := time.UnixMilli(int64(n[0])).UTC()
	return captchamode.Answer{
		Now: now, Nodes: n[1], Agreed: m.agreed,
		All: captchamode.Report{
			FailureRate: counts(0), Minute: now.Truncate(time.Minute), Running: counts(1), Last: counts(2),
			Corrected: correctedTypos(list[len(n)+2]),
		},
	}, nil
}

// correctedTypos reads the typos that all nodes report, without what is invalid.
func correctedTypos(reply any) (all []captchamode.CorrectedTypo) {
	text, _ := reply.(string)
	for _, word := range strings.Fields(text) {
		var one captchamode.CorrectedTypo
		if n, err := fmt.Sscanf(word, "%x:%x", &one.Pair, &one.At); err == nil && n == 2 {
			all = append(all, one)
		}
	}
	return all
}

func (m *Mode) run(ctx context.Context, script *script, keys []any, args ...any) (any, error) {
	c := &call{script: script, keys: keys, args: args}
	err := run(ctx, direct(m.client), c)
	return c.reply, err
}
