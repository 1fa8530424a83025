package challenge

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// renderWait is how long a picture or sound waits for its turn.
	renderWait = 2 * time.Second
	// maxFetches is how often the picture of one challenge is given out, and as
	// often its sound: players fetch a sound in pieces.
	maxFetches = 100
	// maxWaiting is how many pictures wait for one address, and maxKept how many
	// are kept for it: a class behind one address gets all of its own at once.
	maxWaiting, maxKept = 64, 64
)

// A gallery makes pictures, or sounds, and keeps them: each once, so many at a
// time, the addresses in turn and one at a time for each. So whoever asks for
// thousands waits for his own only (R26). The addresses are those that the
// challenges were issued to: nobody can ask in another's name.
type gallery struct {
	mu    sync.Mutex
	free  int // renders that may begin
	room  int // bytes that may still be kept
	shown map[[nonceLen]byte]*picture
	lines map[[16]byte]*line
	turns []*line   // that wait for a render, the next first
	kept  list.List // of *picture, oldest first
}

// A line is what there is for one address.
type line struct {
	address [16]byte
	busy    bool // one is being rendered
	queued  bool // it is among the turns
	waiting []*picture
	kept    []*list.Element
}

// A picture is one challenge's: waiting, being made, or kept.
type picture struct {
	nonce   [nonceLen]byte
	of      *line
	render  func() ([]byte, error)
	fetched int
	asking  int           // how many wait for it
	done    chan struct{} // closed once body and err are set
	body    []byte
	err     error
}

func newGallery(renders, room int) *gallery {
	return &gallery{free: renders, room: room, shown: map[[nonceLen]byte]*picture{}, lines: map[[16]byte]*line{}}
}

// get returns a challenge's picture, which render makes if it is not there.
func (g *gallery) get(ctx context.Context, s *sealed, render func() ([]byte, error)) ([]byte, error) {
	p, err := g.ask(s, render)
	if err != nil {
		return nil, err
	}
	late := time.NewTimer(renderWait)
	defer late.Stop()
	select {
	case <-p.done:
		return p.body, p.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = ErrBusy
	}
	g.leave(p)
	return nil, err
}

// ask finds the picture, or puts it in its address's line.
func (g *gallery) ask(s *sealed, render func() ([]byte, error)) (*picture, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.shown[s.nonce]
	if p == nil {
		of := g.lines[s.binding.Address]
		if of == nil {
			of = &line{address: s.binding.Address}
			g.lines[of.address] = of
		}
		if len(of.waiting) >= maxWaiting {
			return nil, ErrBusy
		}
		p = &picture{nonce: s.nonce, of: of, render: render, done: make(chan struct{})}
		g.shown[p.nonce] = p
		of.waiting = append(of.waiting, p)
		g.next(of)
	}
	if p.fetched >= maxFetches {
		return nil, ErrBusy
	}
	p.fetched++
	p.asking++
	return p, nil
}

// leave is for whoever waits no longer. A picture that nobody waits for is not
// made.
func (g *gallery) leave(p *picture) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p.asking--
	if i := slices.Index(p.of.waiting, p); i >= 0 && p.asking == 0 {
		p.of.waiting = slices.Delete(p.of.waiting, i, i+1)
		delete(g.shown, p.nonce)
		g.tidy(p.of)
	}
}

// next puts a line that has something to be made among the turns, and begins
// what may begin.
func (g *gallery) next(of *line) {
	if len(of.waiting) > 0 && !of.busy && !of.queued {
		of.queued = true
		g.turns = append(g.turns, of)
	}
	for g.free > 0 && len(g.turns) > 0 {
		first := g.turns[0]
		g.turns, first.queued = g.turns[1:], false
		if len(first.waiting) == 0 { // they have all left
			g.tidy(first)
			continue
		}
		p := first.waiting[0]
		first.waiting, first.busy = first.waiting[1:], true
		g.free--
		go g.make(p)
	}
}

func (g *gallery) make(p *picture) {
	body, err := p.render()
	g.mu.Lock()
	defer g.mu.Unlock()
	p.body, p.err, p.render = body, err, nil
	close(p.done)
	g.free++
	p.of.busy = false
	if err != nil {
		delete(g.shown, p.nonce)
	} else {
		g.keep(p)
	}
	g.next(p.of)
	g.tidy(p.of)
}

// keep keeps a picture. The oldest ones make room: of its own address if that
// has its share, then of all.
func (g *gallery) keep(p *picture) {
	p.of.kept = append(p.of.kept, g.kept.PushBack(p))
	g.room -= len(p.body)
	if len(p.of.kept) > maxKept {
		g.drop(p.of)
	}
	for g.room < 0 {
		g.drop(g.kept.Front().Value.(*picture).of)
	}
}

// drop forgets a line's oldest picture.
func (g *gallery) drop(of *line) {
	p := g.kept.Remove(of.kept[0]).(*picture)
	of.kept = of.kept[1:]
	g.room += len(p.body)
	delete(g.shown, p.nonce)
	g.tidy(of)
}

// tidy forgets a line with nothing in it.
func (g *gallery) tidy(of *line) {
	if !of.busy && !of.queued && len(of.waiting) == 0 && len(of.kept) == 0 {
		delete(g.lines, of.address)
	}
}
