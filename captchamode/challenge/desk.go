package challenge

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
)

// A Issuer issues challenges, and checks each at most once (R17). It stores nothing
// of a challenge until it is spent, so a flood of issued ones costs no memory and
// pushes out nobody's. Safe for concurrent use; nothing to close.
type Issuer struct {
	sealer     *sealer
	spent      Spent
	makers     atomic.Pointer[makers]
	policy     atomic.Pointer[policy]
	onFallback func(kind string, err error)
	now        func() time.Time
	galleries  map[string]*gallery // by extension
}

// makers are who makes challenges. They are replaced, never changed.
type makers struct {
	builtIn Provider
	picture Illustrated // nil: nobody draws
	byKind  map[string]Provider
}

type policy struct {
	preferred string
	ttl       time.Duration
}

// providerWait is how long a provider may take; then it counts as broken, and the
// built-in one takes its place.
const providerWait = 2 * time.Second

// New returns a desk, or every problem with the config.
func New(config Config) (*Issuer, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	providers, err := config.byKind()
	if err != nil {
		return nil, err
	}
	sealer, err := newSealer(config.Secret, config.Spent.Epoch())
	if err != nil {
		return nil, err
	}
	d := &Issuer{
		sealer: sealer, spent: config.Spent, onFallback: config.OnFallback, now: config.Now,
		galleries: map[string]*gallery{},
	}
	picture, _ := config.BuiltIn.(Illustrated)
	d.makers.Store(&makers{config.BuiltIn, picture, providers})
	for ext := range mediaTypes {
		d.galleries[ext] = newGallery(config.Renders, config.Kept)
	}
	if err := d.Set(config.Preferred, config.TTL); err != nil {
		return nil, err
	}
	return d, nil
}

// Illustrate gives a desk that has no pictures a provider of them, which takes the
// built-in one's place: whoever can show a picture calls it before the first
// challenge. A desk that has pictures stays as it is.
func (d *Issuer) Illustrate(picture Illustrated) {
	was := d.makers.Load()
	if was.picture != nil || was.byKind[picture.Kind()] != nil {
		return
	}
	now := &makers{picture, picture, maps.Clone(was.byKind)}
	now.byKind[picture.Kind()] = picture
	d.makers.CompareAndSwap(was, now) // who came first has done the same
}

// Set changes the preferred kind and the lifetime of challenges issued from now
// on. Those issued before keep what was sealed in them. An error changes
// nothing.
func (d *Issuer) Set(preferred string, ttl time.Duration) error {
	if d.makers.Load().byKind[preferred] == nil {
		return fmt.Errorf("challenge: preferred kind: there is no provider of kind %q", preferred)
	}
	if ttl < MinTTL || ttl > MaxTTL {
		return fmt.Errorf("challenge: ttl: must be from %s to %s", MinTTL, MaxTTL)
	}
	d.policy.Store(&policy{preferred, ttl})
	return nil
}

// slowestKey is how long a slow core takes for one key of a proof of work, with bad luck:
// one that did 106 keys a second, times the 1.6 of the unluckiest one in twenty. A
// challenge lives until that is done, or its owner could never solve it.
const slowestKey = 16 * time.Millisecond

// Issue makes a challenge that is good for its bond only. counted is sealed in it
// and returned by [Desk.Check]: whether the caller has charged the challenge to
// anything. A broken provider is replaced by the built-in one (R18); an error
// means that this one failed too.
func (d *Issuer) Issue(ctx context.Context, bond Binding, counted bool) (Challenge, error) {
	policy := d.policy.Load()
	expires := time.UnixMilli(d.now().Add(policy.ttl).UnixMilli()).UTC()
	s := sealed{kind: policy.preferred, expires: expires, binding: bond, counted: counted}
	rand.Read(s.nonce[:]) // never fails: it ends the program instead
	puzzle, err := d.pose(ctx, &s)
	if err != nil {
		return Challenge{}, err
	}
	s.orImage, s.andImage, s.work = puzzle.OrImage, puzzle.AndImage, puzzle.Work
	if slow := time.Duration(puzzle.Work) * slowestKey; slow > policy.ttl {
		s.expires = s.expires.Add(min(slow, MaxTTL) - policy.ttl)
	}
	return d.present(s, puzzle), nil
}

// pose asks the preferred provider, then the built-in one, and notes in s which
// of them answered. What needs a picture is not asked where nobody draws one.
func (d *Issuer) pose(ctx context.Context, s *sealed) (Puzzle, error) {
	m := d.makers.Load()
	puzzle, err := m.poseAs(ctx, d.sealer, *s)
	if err == nil && (!puzzle.AndImage || m.picture != nil) {
		return puzzle, nil
	}
	if ctx.Err() == nil && s.kind != m.builtIn.Kind() {
		if err != nil {
			d.onFallback(s.kind, err)
		}
		s.kind = m.builtIn.Kind()
		puzzle, err = m.poseAs(ctx, d.sealer, *s)
	}
	if err != nil {
		return Puzzle{}, fmt.Errorf("challenge: issuing a challenge of kind %q: %w", s.kind, err)
	}
	return puzzle, nil
}

func (m *makers) poseAs(ctx context.Context, with *sealer, s sealed) (Puzzle, error) {
	if s.kind != m.builtIn.Kind() { // that one asks nobody, so it cannot hang
		limited, cancel := context.WithTimeout(ctx, providerWait)
		defer cancel()
		ctx = limited
	}
	return m.byKind[s.kind].Issue(ctx, with.task(s, s.kind))
}

func (d *Issuer) present(s sealed, puzzle Puzzle) Challenge {
	challenge := Challenge{ID: d.sealer.seal(s), Kind: s.kind, Expires: s.expires, PoW: puzzle.PoW, Remote: puzzle.Remote}
	if d.illustrated(s) {
		challenge.Image = "/captcha/" + challenge.ID + ".png"
		challenge.Audio = "/captcha/" + challenge.ID + ".wav"
	}
	return challenge
}

// PictureAlone reports whether a solve has an answer to the picture of a
// challenge that asked for work, and no work. Whoever checks it should bound how
// often that will do.
func (d *Issuer) PictureAlone(solve Solution) bool {
	s, reason := d.find(solve.ID)
	return reason == Unchecked && s.work > 0 && solve.Work == ""
}

// illustrated reports whether a picture solves this challenge.
func (d *Issuer) illustrated(s sealed) bool {
	picture := d.makers.Load().picture
	return picture != nil && (s.orImage || s.kind == picture.Kind())
}
