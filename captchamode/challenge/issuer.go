package challenge

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
)

// An Issuer issues challenges, and checks each at most once (R17). It stores nothing before a challenge is spent, so
// a flood of issued challenges uses no memory and evicts none. Safe for concurrent use; it need not be closed.
type Issuer struct {
	sealer     *sealer
	spent      Spent
	makers     atomic.Pointer[makers]
	preferred  atomic.Pointer[string]
	onFallback func(kind string, err error)
	now        func() time.Time
	galleries  map[string]*gallery // by file extension
}

// makers are the providers. They are replaced, never modified.
type makers struct {
	builtIn Provider
	picture Illustrated // nil: there are no images
	byKind  map[string]Provider
}

// providerWait is the time limit of a provider. After that it counts as failed, and the built-in provider replaces
// it.
const providerWait = 2 * time.Second

// New returns an Issuer, or all problems with the config.
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
	if err := d.Set(config.Preferred); err != nil {
		return nil, err
	}
	return d, nil
}

// Illustrate sets a provider of images as the built-in one, if the Issuer has none. Integrations that can show images
// call it before the first challenge.
func (d *Issuer) Illustrate(picture Illustrated) {
	was := d.makers.Load()
	if was.picture != nil || was.byKind[picture.Kind()] != nil {
		return
	}
	now := &makers{picture, picture, maps.Clone(was.byKind)}
	now.byKind[picture.Kind()] = picture
	d.makers.CompareAndSwap(was, now) // a concurrent call has done the same
}

// Set changes the preferred kind of future challenges. On an error, it changes nothing.
func (d *Issuer) Set(preferred string) error {
	if d.makers.Load().byKind[preferred] == nil {
		return fmt.Errorf("challenge: preferred kind: there is no provider of kind %q", preferred)
	}
	d.preferred.Store(&preferred)
	return nil
}

// slowestKey is the time per key on a slow core with 106 keys a second, times 1.6 for the unluckiest of twenty
// clients. A challenge lives that long for each key, or such a client could never solve it.
const slowestKey = 16 * time.Millisecond

// Issue creates a challenge that is valid for this binding only. Whether the caller has charged it (counted) is
// sealed in it, and returned by [Issuer.Check]. If a provider fails, the built-in one replaces it (R18); an error
// means that it failed too.
func (d *Issuer) Issue(ctx context.Context, bond Binding, counted bool) (Challenge, error) {
	expires := time.UnixMilli(d.now().Add(TTL).UnixMilli()).UTC()
	s := sealed{kind: *d.preferred.Load(), expires: expires, binding: bond, counted: counted}
	rand.Read(s.nonce[:]) // never fails: it ends the program instead
	puzzle, err := d.pose(ctx, &s)
	if err != nil {
		return Challenge{}, err
	}
	s.orImage, s.andImage, s.work = puzzle.OrImage, puzzle.AndImage, puzzle.Work
	if bond.ImageSolved && puzzle.AndImage {
		s.orImage, s.andImage = false, false
	}
	if slow := time.Duration(puzzle.Work) * slowestKey; slow > TTL {
		s.expires = s.expires.Add(min(slow, MaxTTL) - TTL)
	}
	return d.present(s, puzzle), nil
}

// pose asks the preferred provider and sets s.kind. The built-in one replaces it if it fails, or needs an image and
// there are none.
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
	if s.kind != m.builtIn.Kind() { // the built-in provider makes no requests
		limited, cancel := context.WithTimeout(ctx, providerWait)
		defer cancel()
		ctx = limited
	}
	return m.byKind[s.kind].Issue(ctx, with.task(s, s.kind))
}

func (d *Issuer) present(s sealed, puzzle Puzzle) Challenge {
	challenge := Challenge{ID: d.sealer.seal(s), Kind: s.kind, Expires: s.expires, PoW: puzzle.PoW, Remote: puzzle.Remote}
	if puzzle.AndImage && !s.andImage {
		challenge.Kind = KindPoW
	}
	if d.illustrated(s) {
		challenge.Image = "/captcha/" + challenge.ID + ".png"
		challenge.Audio = "/captcha/" + challenge.ID + ".wav"
	}
	return challenge
}

// Admit stores that a challenge with this binding was solved ahead of its attempt, for TTL: see [Issuer.Carry]. It
// replaces an earlier one. The store is bounded, and each entry costs a solution, so no entry is evicted (R26).
func (d *Issuer) Admit(ctx context.Context, bond Binding) error {
	id := d.sealer.admission(bond)
	_, err := d.spent.Take(ctx, id)
	if err == nil {
		_, err = d.spent.Spend(ctx, id, d.now().Add(TTL))
	}
	if err != nil {
		return fmt.Errorf("challenge: storing an admission: %w", err)
	}
	return nil
}

// Carry takes what Admit stored for the same address, purpose and level, once over all nodes. The result solves a new
// challenge with this binding; it is zero if there was nothing. For counted, see [Issuer.Issue].
func (d *Issuer) Carry(ctx context.Context, bond Binding, counted bool) (Solution, error) {
	taken, err := d.spent.Take(ctx, d.sealer.admission(bond))
	if err != nil {
		return Solution{}, fmt.Errorf("challenge: taking an admission: %w", err)
	}
	if !taken {
		return Solution{}, nil
	}
	return d.Solved(bond, counted), nil
}

// Solved returns a solution for this binding to a client that has solved another challenge of the same price.
func (d *Issuer) Solved(bond Binding, counted bool) Solution {
	s := sealed{kind: d.makers.Load().builtIn.Kind(), expires: d.now().Add(TTL), binding: bond, counted: counted,
		solved: true}
	rand.Read(s.nonce[:])
	return Solution{ID: d.sealer.seal(s), Answer: "solved"}
}

// PictureAlone reports whether a solution to a challenge with proof of work has only the image's digits. The caller
// should limit how often that is accepted.
func (d *Issuer) PictureAlone(solve Solution) bool {
	s, reason := d.find(solve.ID)
	return reason == Unchecked && s.work > 0 && solve.Work == ""
}

// illustrated reports whether the image's digits solve this challenge.
func (d *Issuer) illustrated(s sealed) bool {
	picture := d.makers.Load().picture
	return picture != nil && (s.orImage || s.kind == picture.Kind())
}
