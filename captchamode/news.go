package captchamode

// News is what a Mode has observed since it was asked before: what one node of
// a site tells the others.
type News struct {
	// Seconds are what was added, oldest first; at most the last minute.
	Seconds []Second
	// Back is what was taken back. It may have been added by another node.
	Back Counts
	// Tallies are how much addresses contributed, folded as the Mode does it
	// and in no order. If there are very many the rest comes with the next
	// News.
	Tallies []Tally
	// Share is how much one address may contribute to the whole site.
	Share int
}

// A Second is what was added in one second of the node's clock.
type Second struct {
	Unix  int64
	Added Counts
}

// A Tally is what the addresses that share a share have contributed.
type Tally struct {
	Bucket  uint16 // below TallyBuckets
	Counted uint16
}

const (
	// TallyBuckets is how many shares there are.
	TallyBuckets = 1 << 14
	// mostTallies keep what one News costs its reader small; a site where so
	// many addresses fail in a quarter of a second has crossed any threshold.
	mostTallies = 4096
)

// passedOn is how much of a second was handed out as news, and how much of that
// the other nodes have heard.
type passedOn struct {
	handed, heard [signs]int32
	back, backs   [signs]int32
}

// passed are the tallies that were handed out.
type passed struct {
	shares [TallyBuckets]uint64 // as they were then
	next   int                  // where to go on looking
	more   bool                 // there was no room for all
	last   []Second             // what was handed out with them
}

// News hands out what was observed since the last call. It is for a Mode that
// has joined; what was handed out has to be told before there is more, and then
// confirmed with Confirm.
func (m *Mode) News() News {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(m.now())
	n := News{Share: int(m.config.share(m.detector.threshold(&m.config)))}
	m.window.handOut(&n)
	if len(n.Seconds) > 0 || m.site.passed.more {
		m.site.passed.handOut(&m.shares, &n)
	}
	m.site.passed.last = n.Seconds
	return n
}

// Confirm notes that the other nodes have heard all that was handed out. What
// was refused, since the addresses had used up their shares elsewhere, counts
// here neither.
func (m *Mode) Confirm(refused []Tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.window.news {
		p := &m.window.news[i]
		p.heard, p.backs = p.handed, p.back
	}
	over := 0
	for _, t := range refused {
		m.site.passed.giveBack(&m.shares, t)
		over += int(t.Counted)
	}
	m.window.refuse(over, m.site.passed.last)
	m.refresh()
}

// TellAgain makes the next News hold all of the last minute: the others have
// lost what they heard.
func (m *Mode) TellAgain() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.window.news = [windowSeconds + 1]passedOn{}
	*m.site.passed = passed{}
}

func (w *window) handOut(n *News) {
	now := w.now.Load()
	for second := now - windowSeconds; second <= now; second++ {
		b, p := w.at(second), &w.news[second%(windowSeconds+1)]
		var new Counts
		for s := range signs {
			added, back := b.added[s].Load(), b.back[s].Load()
			new[s] = int(added - p.handed[s])
			n.Back[s] += int(back - p.back[s])
			p.handed[s], p.back[s] = added, back
		}
		if new != (Counts{}) {
			n.Seconds = append(n.Seconds, Second{second, new})
		}
	}
}

// refuse takes off what was over some shares, the newest first.
func (w *window) refuse(over int, of []Second) {
	for i := len(of) - 1; i >= 0 && over > 0; i-- {
		second := of[i].Unix
		now := w.now.Load()
		fallen := second > now || second < now-windowSeconds // this second is another one now
		b, p := w.at(second), &w.news[second%(windowSeconds+1)]
		for s := range signs {
			n := min(over, of[i].Added[s])
			over -= n
			if !fallen {
				b.back[s].Add(int32(n))
				p.back[s] += int32(n)
				p.backs[s] += int32(n)
			}
		}
	}
	w.settle()
}

// heard is how much of the window the other nodes know of.
func (w *window) heard() (total int) {
	for i := range w.news {
		for s := range signs {
			total += int(w.news[i].heard[s] - w.news[i].backs[s])
		}
	}
	return total
}

func (p *passed) handOut(s *shares, n *News) {
	p.more = false
	for range TallyBuckets {
		i := p.next % TallyBuckets
		was, is := p.shares[i], s.table[i].Load()
		if was != is {
			if len(n.Tallies) == mostTallies {
				p.more = true
				return
			}
			p.shares[i] = is
			if new := contributedSince(was, is); new > 0 {
				n.Tallies = append(n.Tallies, Tally{uint16(i), new})
			}
		}
		p.next = i + 1
	}
}

// giveBack makes room in a share again, in the minutes in which it was handed
// out.
func (p *passed) giveBack(s *shares, t Tally) {
	i := t.Bucket % TallyBuckets
	told := p.shares[i]
	now := min(uint64(t.Counted), told&shareMask)
	before := min(uint64(t.Counted)-now, told>>shareBits&shareMask)
	p.shares[i] = told - now - before<<shareBits
	for {
		was := s.table[i].Load()
		is := was
		switch was>>(2*shareBits) - told>>(2*shareBits) {
		case 0:
			is -= now + before<<shareBits
		case 1:
			is -= now << shareBits
		}
		if s.table[i].CompareAndSwap(was, is) {
			return
		}
	}
}

// contributedSince is how much was added to a share of the table.
func contributedSince(was, is uint64) uint16 {
	before, now := is>>shareBits&shareMask, is&shareMask
	switch is>>(2*shareBits) - was>>(2*shareBits) {
	case 0:
		return uint16(now - was&shareMask)
	case 1:
		return uint16(min(before-was&shareMask+now, shareMask))
	}
	return uint16(min(before+now, shareMask))
}

// Second is the running second of the Mode's clock.
func (m *Mode) Second() int64 { return m.now().Unix() }
