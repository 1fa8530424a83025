package captchamode

import (
	"crypto/rand"
	"slices"
	"time"
)

// A stage is how a Mode stands to the other nodes of its site.
type stage uint8

const (
	unjoined stage = iota // there are no others
	joining               // none has been heard: the Mode goes by itself
	together              // the level is the site's
	alone                 // none is heard any more: own signs, part of the limits
)

// site is what a Mode knows of the other nodes. It is under the Mode's lock.
type site struct {
	stage  stage
	node   string
	hurry  func()
	passed *passed

	nodes    int           // last seen, this one among them
	ahead    time.Duration // the site's clock less this node's
	pressure Counts        // on the whole site
	agreed   Site          // the last version that this node went by

	// strayed means that the level came about here and the site has not heard
	// of it; late that it came about after Hear had looked.
	strayed, late bool
}

// Heard is what the keeper of the site says.
type Heard struct {
	Now   time.Time // by its clock
	Nodes int       // seen in the last seconds
	// Pressure is that of the last minute on the whole site. Running and Last
	// are what was added in the running minute and the one before.
	Pressure, Running, Last Counts
	// Site is what was agreed; nil if the keeper knows nothing (any more).
	Site *Site
}

// Join makes the Mode one of the nodes of a site. node names this process and
// no other; hurry is called, with the lock held, when the site should be told
// soon. It must not block. Join is called once, before anything is observed.
//
// Whoever keeps the site then takes News to it and brings back what it says:
// Hear, Agree, and GoAlone when it does not answer. Until it is heard for the
// first time the Mode goes by itself.
func (m *Mode) Join(node string, hurry func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.site = site{stage: joining, node: node, hurry: hurry, nodes: 1, passed: new(passed)}
}

// Hear takes in what the site says and what follows from it. If that is
// something new, it is returned: it holds once the keeper has put it in the
// place of what was heard, and then Agree is to be told. Otherwise the Mode has
// agreed already, and Hear returns nil.
func (m *Mode) Hear(h Heard) *Site {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	m.advance(now)
	s := &m.site
	if s.stage == alone {
		s.strayed = true
	}
	s.late, s.ahead, s.pressure, s.nodes = false, h.Now.Sub(now), h.Pressure, max(1, h.Nodes)
	was := s.agreed
	if h.Site != nil && h.Site.valid() {
		was = *h.Site
	} else {
		h.Site = nil
	}
	next := m.reconcile(h.Site, h.Now)
	next.Minutes = slices.Clone(next.Minutes)
	next.pass(&m.config, next.Level != Attack || m.force.Word == ForcedOff, m.on.Load(), h.Last, h.Running, h.Now)
	d := next.detector()
	d.see(&m.config, h.Pressure.Total(), h.Now)
	next.set(d)
	if h.Site != nil && next.is(&was) {
		m.agree(next)
		return nil
	}
	next.Seq, next.Node = was.Seq+1, s.node
	if next.Level != was.Level {
		next.Switches, next.By = next.Switches+1, s.node
	}
	return &next
}

// is reports whether nothing has to be written to make t of s.
func (s *Site) is(t *Site) bool {
	return s.Level == t.Level && s.Low.Equal(t.Low) && s.Learned == t.Learned && s.Normal == t.Normal &&
		s.Running().Equal(t.Running())
}

// reconcile is what holds of what the site says and this node knows.
func (m *Mode) reconcile(said *Site, now time.Time) Site {
	own, s := m.knowledge(), &m.site
	switch {
	case said == nil: // lost: what this node knows is all there is
		own.Epoch = rand.Text()
		return own
	case !s.strayed && said.follows(&s.agreed):
		return *said
	case said.Same(&s.agreed): // nobody has spoken since: here is what came of it
		own.Minutes = said.Minutes
		return own
	}
	own.coolDown(&m.config, now)
	return said.merged(&own)
}

// knowledge is what this node would say of the site.
func (m *Mode) knowledge() Site {
	own, d := m.site.agreed, m.detector
	if !d.Low.IsZero() {
		d.Low = d.Low.Add(m.site.ahead).UTC()
	}
	own.set(d)
	own.Minutes = m.minutes
	return own
}

// Agree makes what Hear returned the level of this node: the keeper has it.
func (m *Mode) Agree(s Site) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agree(s)
}

func (m *Mode) agree(said Site) {
	s, was := &m.site, m.detector.Level
	now := m.now()
	m.advance(now)
	s.stage, s.agreed, s.strayed = together, said, s.late
	m.minutes, m.detector = slices.Clone(said.Minutes), said.detector()
	if !said.Low.IsZero() {
		m.detector.Low = said.Low.Add(-s.ahead)
	}
	if s.late && was > said.Level {
		m.detector.Level, m.detector.Low = was, time.Time{}
	}
	m.refresh()
	if s.late || m.detector.Level == m.told.level {
		m.show(m.force)
		return
	}
	m.switchTo(m.force, m.cause(), said.By != s.node, now)
}

// GoAlone notes that the site does not answer. The level stays; from now on
// this node goes by its own signs, against thresholds divided by the nodes that
// were last seen. What the site had heard of before still counts against the
// whole threshold only, so that a short silence is no attack.
func (m *Mode) GoAlone() {
	now := m.now()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.site.stage == together {
		m.site.stage, m.site.strayed = alone, true
	}
	m.advance(now)
	m.see(now)
}

// look has the detector look at the pressure that this node may judge by. While
// the nodes are together that can only raise the level: how much more there is
// elsewhere, and when it is over, the site says.
func (m *Mode) look(now time.Time) {
	was, own := m.detector.Level, m.window.counts().Total()
	switch m.site.stage {
	case together:
		m.detector.raise(&m.config, m.sure())
	case alone:
		rising := own - m.window.heard()
		if sure := m.sure(); float64(sure) > m.detector.threshold(&m.config) {
			rising = sure
		}
		m.detector.seePart(&m.config, m.threshold(), rising, own, now)
	default:
		m.detector.see(&m.config, own, now)
	}
	if m.detector.Level > was {
		m.site.strayed, m.site.late = true, true
	}
}

// threshold is the one that this node goes by.
func (m *Mode) threshold() float64 {
	on := m.detector.threshold(&m.config)
	if m.site.stage == alone {
		on = max(1, on/float64(m.site.nodes))
	}
	return on
}

// sure is the pressure that there is on the site at least: no more than this
// node's own, since shares may be used up elsewhere, and no more than the site's
// with what it has not heard yet, since what was counted here may have been
// taken back elsewhere.
func (m *Mode) sure() int {
	own := m.window.counts().Total()
	return min(own, m.site.pressure.Total()+own-m.window.heard())
}

// own is how much this node must have counted itself for look to see a pressure
// of alarm.
func (m *Mode) own(alarm float64) float64 {
	heard, said := float64(m.window.heard()), float64(m.site.pressure.Total())
	switch m.site.stage {
	case together:
		return max(alarm, alarm+heard-said)
	case alone:
		whole := m.detector.threshold(&m.config)
		return min(alarm+heard, max(whole, whole+heard-said))
	}
	return alarm
}

// pressure is that of the last minute, of the whole site as far as is known.
func (m *Mode) pressure() Counts {
	if m.site.stage == together && m.site.pressure.Total() >= m.sure() {
		return m.site.pressure
	}
	return m.window.counts()
}
