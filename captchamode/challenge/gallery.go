package challenge

import (
	"container/list"
	"context"
	"slices"
	"sync"
	"time"
)

const (
	renderWait = 2 * time.Second
	// maxFetches is how often one challenge's image can be fetched, and its audio: players fetch audio in parts.
	maxFetches = 100
	// maxWaiting and maxKept are the waiting and cached images per IP address: a class of users behind one address gets
	// all images at once.
	maxWaiting, maxKept = 64, 64
)

// A gallery renders and caches images, or audio. It renders each once, a limited number concurrently, one per IP
// address, and the addresses take turns. A client that requests thousands delays only itself (R26). The address is
// the one in the challenge, so attackers cannot use another client's.
type gallery struct {
	mu    sync.Mutex
	free  int // available renders
	room  int // bytes left in the cache
	shown map[[nonceLen]byte]*picture
	lines map[[16]byte]*line
	turns []*line   // with images to render, the next one first
	kept  list.List // of *picture, oldest first
}

// A line is the queue and cache of one IP address.
type line struct {
	address [16]byte
	busy    bool // an image is being rendered
	queued  bool // in turns
	waiting []*picture
	kept    []*list.Element
}

// A picture is one challenge's image or audio: waiting, being rendered, or cached.
type picture struct {
	nonce   [nonceLen]byte
	of      *line
	render  func() ([]byte, error)
	fetched int
	asking  int           // number of waiting requests
	done    chan struct{} // closed after body and err are set
	body    []byte
	err     error
}

func newGallery(renders, room int) *gallery {
	return &gallery{free: renders, room: room, shown: map[[nonceLen]byte]*picture{}, lines: map[[16]byte]*line{}}
}

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

// ask returns the image, or queues it for its IP address.
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

// leave ends a request's wait. An image without waiting requests is not rendered.
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

// next queues a line that has images to render, and starts renders as available.
func (g *gallery) next(of *line) {
	if len(of.waiting) > 0 && !of.busy && !of.queued {
		of.queued = true
		g.turns = append(g.turns, of)
	}
	for g.free > 0 && len(g.turns) > 0 {
		first := g.turns[0]
		g.turns, first.queued = g.turns[1:], false
		if len(first.waiting) == 0 { // all requests have left
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

// keep caches an image. It evicts the oldest: first of the same IP address if that exceeds maxKept, then of all.
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

func (g *gallery) drop(of *line) {
	p := g.kept.Remove(of.kept[0]).(*picture)
	of.kept = of.kept[1:]
	g.room += len(p.body)
	delete(g.shown, p.nonce)
	g.tidy(of)
}

func (g *gallery) tidy(of *line) {
	if !of.busy && !of.queued && len(of.waiting) == 0 && len(of.kept) == 0 {
		delete(g.lines, of.address)
	}
}
