// Package passwords checks passwords so that the check itself gives nothing away
// and cannot be used as a weapon.
//
// A [Gate] lets only so many checks run at once, people at privileged places
// first (rule R19). A [Checker] does the same amount of work whether the account
// exists or not, is disabled or not, and however old its hash is (rule R12). It
// does not store hashes: that is left to others, such as package accounts.
package passwords

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Bounds of a password and of the work to check one.
const (
	// MaxBytes is the longest password: bcrypt reads no further, so that a
	// longer one would let in anybody who knows its beginning.
	MaxBytes = 72
	// DefaultCost is the cost of new hashes: about a fifth of a second.
	DefaultCost = 12
	// MaxCost bounds what an imported hash can make every login cost: each
	// step doubles it.
	MaxCost = 16

	hashLength = 60
)

var (
	// ErrTooLong says that a password is longer than MaxBytes. It says nothing
	// about the account.
	ErrTooLong = fmt.Errorf("passwords: longer than %d bytes", MaxBytes)
	// ErrNUL says that a password has a NUL in it. bcrypt's key is the password
	// and a NUL, repeated until it has 72 bytes: "p", NUL, "p" would be "p".
	ErrNUL = errors.New("passwords: a NUL character, at which bcrypt begins anew")
	// ErrHash says that a stored hash cannot be used: not bcrypt, or of a cost
	// above MaxCost. The check took as long as any other; answer like a wrong
	// password and tell the operator.
	ErrHash = errors.New("passwords: the stored hash cannot be used")
)

// Possible says whether a text can be anybody's password: nil, ErrTooLong or
// ErrNUL.
func Possible(password string) error {
	switch {
	case len(password) > MaxBytes:
		return ErrTooLong
	case strings.Contains(password, "\x00"):
		return ErrNUL
	}
	return nil
}

// A Stored is what is known of one account's password. The zero Stored is an
// account that does not exist.
type Stored struct {
	// Hash is bcrypt ($2a$, $2b$ or $2y$); empty if there is none.
	Hash string
	// Usable is false for a disabled account: the right password looks wrong.
	Usable bool
}

// A Compare is bcrypt.CompareHashAndPassword.
type Compare func(hash, password []byte) error

// A Checker compares passwords. It is safe for concurrent use. How many checks
// run at once is up to the Gate.
type Checker struct {
	compare Compare
	cost    int          // of new hashes
	target  atomic.Int32 // what every check costs
}

// NewChecker makes a Checker whose new hashes have the given cost; 0 is
// DefaultCost. A nil compare is bcrypt's; tests pass one that counts.
func NewChecker(cost int, compare Compare) (*Checker, error) {
	if cost == 0 {
		cost = DefaultCost
	}
	if cost < bcrypt.MinCost || cost > MaxCost {
		return nil, fmt.Errorf("passwords: bcrypt cost: must be from %d to %d, is %d", bcrypt.MinCost, MaxCost, cost)
	}
	if compare == nil {
		compare = bcrypt.CompareHashAndPassword
	}
	c := &Checker{compare: compare, cost: cost}
	c.target.Store(int32(cost))
	return c, nil
}

// Saw raises the cost of every check to that of a stored hash, if that is higher.
// Call it at the start with the highest of all: otherwise the first such login
// stands out from those before it. More than MaxCost counts as MaxCost.
func (c *Checker) Saw(cost int) {
	for {
		now := c.target.Load()
		next := int32(min(cost, MaxCost))
		if next <= now || c.target.CompareAndSwap(now, next) {
			return
		}
	}
}

// Check reports whether a password is the account's. Every call does the work of
// one bcrypt at the highest cost seen, 2^C rounds: a hash of a lower cost c is
// followed by dummies of the costs c, c+1 … C-1, and 2^c + (2^c + 2^(c+1) + … +
// 2^(C-1)) = 2^C. Errors are Possible's, at once, and ErrHash.
func (c *Checker) Check(stored Stored, password string) (bool, error) {
	if err := Possible(password); err != nil {
		return false, err
	}
	typed := []byte(password)
	cost, err := CostOf(stored.Hash)
	if stored.Hash == "" || err != nil {
		c.compare(dummy(int(c.target.Load())), typed)
		return false, err
	}
	c.Saw(cost)
	right := c.compare([]byte(stored.Hash), typed) == nil
	for pad, target := cost, int(c.target.Load()); pad < target; pad++ {
		c.compare(dummy(pad), typed)
	}
	return right && stored.Usable, nil
}

// Hash makes a new hash, $2a$ at the configured cost. Errors are those of
// Possible.
func (c *Checker) Hash(password string) (string, error) {
	if err := Possible(password); err != nil {
		return "", err
	}
	hash, err := bcrypt.GenerateFromPassword([]byte(password), c.cost)
	if err != nil {
		return "", fmt.Errorf("passwords: hash: %w", err)
	}
	return string(hash), nil
}

// CostOf is the cost of a bcrypt hash; 0 and no error for an empty one. The error
// is ErrHash.
func CostOf(hash string) (int, error) {
	if hash == "" {
		return 0, nil
	}
	if kind := KindOf(hash); kind != "bcrypt" {
		return 0, fmt.Errorf("%w: it is %s, not bcrypt", ErrHash, kind)
	}
	cost, err := bcrypt.Cost([]byte(hash))
	switch {
	case err != nil || len(hash) != hashLength || !salted(hash[7:]):
		return 0, fmt.Errorf("%w: broken bcrypt hash", ErrHash)
	case cost > MaxCost:
		return 0, fmt.Errorf("%w: bcrypt cost %d is above %d", ErrHash, cost, MaxCost)
	}
	return cost, nil
}

// salted reports whether what follows the cost is bcrypt's base64. bcrypt would
// reject a stray character without doing the work, which the time would tell.
func salted(rest string) bool {
	for _, c := range rest {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '/':
		default:
			return false
		}
	}
	return true
}

// dummy is a hash of no known password. Any salt will do: only the work counts,
// the answer is thrown away.
func dummy(cost int) []byte {
	return fmt.Appendf(nil, "$2a$%02d$%s", cost, "abcdefghijklmnopqrstuuC7rGJ3WZ0V5n0pGdN8o2m4x6y8z0A2O")
}

// KindOf names the kind of a password hash by its prefix: "bcrypt", or what an
// operator would call it, for messages.
func KindOf(hash string) string {
	for _, kind := range []struct{ prefix, name string }{
		{"$2a$", "bcrypt"}, {"$2b$", "bcrypt"}, {"$2y$", "bcrypt"},
		{"$2x$", "bcrypt of the broken kind $2x$"},
		{"$apr1$", "Apache MD5 (apr1)"}, {"$1$", "MD5 crypt"}, {"$5$", "SHA-256 crypt"}, {"$6$", "SHA-512 crypt"},
		{"{SHA}", "SHA-1"}, {"{SSHA}", "salted SHA-1"}, {"$argon2", "Argon2"}, {"$scrypt$", "scrypt"},
		{"$y$", "yescrypt"}, {"$pbkdf2", "PBKDF2"}, {"pbkdf2_", "Django PBKDF2"}, {"$P$", "phpass"},
	} {
		if strings.HasPrefix(hash, kind.prefix) {
			return kind.name
		}
	}
	if len(hash) == 13 && salted(hash) {
		return "DES crypt"
	}
	return "no known hash (plain text?)"
}

// Defaults of a GateConfig.
const (
	DefaultQueue   = 1000
	DefaultMaxWait = 5 * time.Second
)

// A GateConfig configures a Gate. The zero GateConfig is the default.
type GateConfig struct {
	AtOnce  int              // checks that run at the same time; default one per CPU
	Queue   int              // how many may wait; default DefaultQueue
	MaxWait time.Duration    // how long; default DefaultMaxWait
	Now     func() time.Time // measures how long a check takes; default time.Now
}

// A Gate lets in so many at once and queues the rest: privileged places before
// strangers, and first come first served among equals. A privileged place that
// finds the queue full takes the place of the stranger who came last. It is safe
// for concurrent use and has no goroutine of its own.
type Gate struct {
	config GateConfig

	mu      sync.Mutex
	running int
	classes [2]list.List // of *waiter: privileged, strangers
	typical time.Duration
}

const (
	privileged = iota
	strangers
)

// A waiter stands in a queue. ready gets nil when it may go in, or why not; it
// is out of the queue then.
type waiter struct {
	ready chan error
	class int
	place *list.Element
}

// ErrOverloaded says that there was no room for a check. An *Overload wraps it.
var ErrOverloaded = errors.New("passwords: too many password checks at once")

// An Overload is the error of an attempt that was shed. Nothing was checked.
type Overload struct {
	// RetryAfter is about how long the queue takes to drain, 1 s to 1 min.
	RetryAfter time.Duration
}

// Error implements error.
func (o *Overload) Error() string {
	return fmt.Sprintf("%v; try again in %v", ErrOverloaded, o.RetryAfter)
}

// Unwrap is ErrOverloaded.
func (o *Overload) Unwrap() error { return ErrOverloaded }

// NewGate makes an open Gate.
func NewGate(config GateConfig) (*Gate, error) {
	var problems []error
	if config.AtOnce < 0 {
		problems = append(problems, errors.New("at_once: must be at least 1"))
	}
	if config.Queue < 0 {
		problems = append(problems, errors.New("queue: must be at least 1"))
	}
	if config.MaxWait < 0 {
		problems = append(problems, errors.New("max_wait: must be more than 0"))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return &Gate{config: config.withDefaults(), typical: 250 * time.Millisecond}, nil
}

func (c GateConfig) withDefaults() GateConfig {
	if c.AtOnce == 0 {
		c.AtOnce = runtime.GOMAXPROCS(0)
	}
	if c.Queue == 0 {
		c.Queue = DefaultQueue
	}
	if c.MaxWait == 0 {
		c.MaxWait = DefaultMaxWait
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	return c
}

// Enter waits for its turn. Without an error the caller checks one password and
// then calls leave, once or more. The error is an *Overload if there is no room
// or no turn in time, and ctx's if that ends first.
func (g *Gate) Enter(ctx context.Context, isPrivileged bool) (leave func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &waiter{ready: make(chan error, 1), class: strangers}
	if isPrivileged {
		w.class = privileged
	}
	if err := g.queue(w); err != nil {
		return nil, err
	}
	if err := g.wait(ctx, w); err != nil {
		return nil, err
	}
	return g.leave(), nil
}

// Waiting is how many checks run and how many wait, privileged and not.
func (g *Gate) Waiting() (running, privilegedOnes, strangerOnes int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.running, g.classes[privileged].Len(), g.classes[strangers].Len()
}

// queue lets w in at once if there is room, which means that nobody waits.
func (g *Gate) queue(w *waiter) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < g.config.AtOnce {
		g.running++
		w.ready <- nil
		return nil
	}
	if g.queued() >= g.config.Queue && !g.pushOut(w.class) {
		return g.overload()
	}
	w.place = g.classes[w.class].PushBack(w)
	return nil
}

// pushOut makes room for a privileged place, at the cost of the stranger who
// came last and has waited least.
func (g *Gate) pushOut(class int) bool {
	youngest := g.classes[strangers].Back()
	if class != privileged || youngest == nil {
		return false
	}
	g.answer(youngest.Value.(*waiter), g.overload())
	return true
}

func (g *Gate) wait(ctx context.Context, w *waiter) error {
	timer := time.NewTimer(g.config.MaxWait)
	defer timer.Stop()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
		return g.giveUp(w, ctx.Err())
	case <-timer.C:
		return g.giveUp(w, nil)
	}
}

// giveUp takes w out of the queue. If its turn has come in the meantime, it goes
// to the next one. A nil reason is the overload.
func (g *Gate) giveUp(w *waiter, reason error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if reason == nil {
		reason = g.overload()
	}
	if w.place != nil {
		g.answer(w, reason)
	}
	if err := <-w.ready; err != nil {
		return err
	}
	g.next()
	return reason
}

// leave gives the caller's turn back, once.
func (g *Gate) leave() func() {
	entered := g.config.Now()
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.typical += (g.config.Now().Sub(entered) - g.typical) / 16
		g.next()
	})
}

// next hands a free turn on, or keeps it for whoever comes.
func (g *Gate) next() {
	for class := range g.classes {
		if first := g.classes[class].Front(); first != nil {
			g.answer(first.Value.(*waiter), nil)
			return
		}
	}
	g.running--
}

func (g *Gate) answer(w *waiter, err error) {
	g.classes[w.class].Remove(w.place)
	w.place = nil
	w.ready <- err
}

func (g *Gate) queued() int { return g.classes[privileged].Len() + g.classes[strangers].Len() }

func (g *Gate) overload() error {
	drained := g.typical * time.Duration(g.queued()+1) / time.Duration(g.config.AtOnce)
	whole := (drained + time.Second - 1).Truncate(time.Second)
	return &Overload{RetryAfter: min(max(whole, time.Second), time.Minute)}
}
