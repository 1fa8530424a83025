package captchamode

import (
	"crypto/rand"
	"slices"
	"time"
)

// Several nodes are one site. Several times a second each reports what it has
// counted, and gets the sum of all reports and what the nodes have agreed on. The
// first node to find that the level has to change proposes it; once that is
// written, the others apply what they read. So there is no leader, and each switch
// has one author. All times are the site's: those of whatever carries the reports.

// Agreed is what the nodes of a site have agreed on. The zero Agreed is nothing.
type Agreed struct {
	Version string `json:"-"` // another one each time that they agree on something
	Detector
	// Number counts the changes of the level. By made the last one: that node
	// records it and raises the alarm.
	Number  int64    `json:"number"`
	By      string   `json:"by,omitzero"`
	Minutes []Minute `json:"minutes"`
}

// An Answer is what a node gets for its report.
type Answer struct {
	To     Report // that report
	Now    time.Time
	Nodes  int     // that have reported in the last seconds, this one among them
	All    Report  // the sum over all nodes; of the pressure those that agree on Cleared
	Agreed *Agreed // nil if there is nothing, or nothing that makes sense
}

// fleet is what a Mode knows of the other nodes.
type fleet struct {
	node     string
	hurry    func()
	together bool          // the last report was answered
	agreed   Agreed        // what this node goes by; no Version before the first answer
	ahead    time.Duration // the site's clock less this node's
	judged   Level         // this node's level at its last Merge
	clearing bool          // a person has cleared the pressure here, and the others may not know
	cleared  bool          // or on another node, and this one has not told of it yet

	// As of the last answer: when it came, how many nodes there were, and the
	// pressure on this one and on all others.
	at           time.Time
	nodes        int
	mine, others Counts
}

// alone reports whether the node was one of several and gets no answer any more.
func (f *fleet) alone() bool { return !f.together && f.agreed.Version != "" }

// Merge decides between what the nodes have agreed on and what one of them would
// say. apart means that its own level came about without the others.
func Merge(agreed *Agreed, own Agreed, apart bool) Agreed {
	switch {
	case agreed == nil: // lost, or never there
		return own
	case agreed.Version == own.Version: // nobody has spoken since
		own.Minutes = agreed.Minutes
		return own
	}
	m := *agreed
	if own.Week.known() > m.Week.known() { // a version that did not know it wrote last, or one that began anew
		m.Week = own.Week
	}
	if own.Version == "" || !apart && agreed.follows(&own) {
		return m
	}
	m.Number = max(m.Number, own.Number)
	if own.Learned > m.Learned {
		m.Normal, m.Recent, m.Usual, m.Most, m.Learned = own.Normal, own.Recent, own.Usual, own.Most, own.Learned
	}
	m.Weight, m.Least = max(m.Weight, own.Weight), max(m.Least, own.Least)
	m.Ended, m.Calmed = later(m.Ended, own.Ended), later(m.Calmed, own.Calmed)
	m.Cleared = later(m.Cleared, own.Cleared)
	switch {
	case own.Level > m.Level:
		m.Level, m.Low, m.Quiet = own.Level, own.Low, own.Quiet
	case own.Level == m.Level && own.Low.IsZero() && m.Low.IsZero():
		m.Quiet = min(m.Quiet, own.Quiet)
	case own.Level == m.Level && (own.Low.IsZero() || !m.Low.IsZero() && own.Low.After(m.Low)):
		m.Low, m.Quiet = own.Low, own.Quiet
	}
	return m
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Join makes the Mode one of the nodes of a site. node names this process and
// no other; hurry asks for a report soon. It is called with the lock held and must
// not block. Call Join once, before anything is observed. Until the first answer
// the Mode goes by itself.
func (m *Mode) Join(node string, hurry func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.node, m.fleet.hurry = node, hurry
}

// Report returns what this node has counted. Call Merge with the answer, or
// GoAlone if there is none, before the next Report.
func (m *Mode) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	r := m.window.Report
	r.Corrected = slices.DeleteFunc(slices.Clone(r.Corrected), func(one CorrectedTypo) bool { return m.window.now-one.At > correctedWithin })
	r.Cleared = m.detector.Cleared
	return r
}

// Merge takes in the answer to a report. It returns what the nodes should agree on
// now, which is to replace what was read and then to be given to Apply; nil if there
// is nothing to write.
func (m *Mode) Merge(n Answer) *Agreed {
	m.mu.Lock()
	defer m.mu.Unlock()
	f, said := &m.fleet, n.Agreed
	f.ahead = n.Now.Sub(m.now())
	now := m.advance()
	if f.alone() {
		m.lookAlone(now)
	}
	if said != nil && !said.valid() {
		said = nil
	}
	if said != nil && said.Cleared.After(m.detector.Cleared) {
		f.cleared = true
		m.empty()
		m.detector.clear(said.Cleared)
		n.To.FailureRate, n.All.FailureRate = m.window.FailureRate, m.window.FailureRate
	}
	for _, one := range n.All.Corrected {
		m.unsentCorrections.add(&m.window, one)
	}
	f.judged = m.detector.Level
	next := Merge(said, m.knows(), f.alone() || f.judged > f.agreed.Level)
	if f.clearing && said != nil { // whatever it says was before that
		number := max(said.Number, next.Number)
		next = m.knows()
		next.Minutes, next.Number = said.Minutes, number
	}
	f.at, f.nodes = now, max(1, n.Nodes)
	f.mine, f.others = n.To.FailureRate, n.All.FailureRate.plus(n.To.FailureRate.times(-1))

	d, passed, all := &next.Detector, minutes(slices.Clone(next.Minutes)), float64(n.All.FailureRate.Total())
	passed.pass(&m.config, d, true, &n.All, now.Add(-lateReports))
	d.see(&m.config, d.threshold(&m.config, n.All.FailureRate[Login]), all, all, now)
	next.Minutes = passed
	was := &f.agreed
	if said != nil {
		if was = said; next.same(said) {
			m.apply(next, now)
			return nil
		}
	}
	if next.Version = rand.Text(); next.Level != was.Level || next.Steady != was.Steady {
		next.Number, next.By = next.Number+1, f.node
	}
	return &next
}

// Apply makes what the nodes have agreed on the level of this one.
func (m *Mode) Apply(a Agreed) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.apply(a, m.advance())
}

func (m *Mode) apply(a Agreed, now time.Time) {
	f, own, cleared := &m.fleet, m.detector.Level, m.fleet.cleared
	f.together, f.agreed, f.clearing, f.cleared = true, a, false, false
	m.minutes, m.detector = slices.Clone(a.Minutes), a.Detector
	switch {
	case own > f.judged && own > a.Level: // risen since Merge: the next report tells
		m.detector.rise(&m.config, own, now)
	case cleared && m.detector.Level < m.last.Level:
		m.switchTo(m.override, ByClearing, true, now)
	default:
		m.follow(a.By != f.node, now)
	}
	m.show()
}

// GoAlone notes that a report was not answered. The level stays; from now on this
// node goes by its own pressure, against its part of the threshold.
func (m *Mode) GoAlone() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.together = false
	m.see(m.advance())
}

// knows is what this node would say of the site.
func (m *Mode) knows() Agreed {
	own := m.fleet.agreed
	own.Detector, own.Minutes = m.detector, m.minutes
	return own
}

func (a *Agreed) valid() bool {
	return a.Version != "" && a.Detector.valid() && len(a.Minutes) <= keepMinutes
}

// follows reports whether a was made from b. It was not if two nodes have written
// to a server that had lost something.
func (a *Agreed) follows(b *Agreed) bool {
	return a.Learned >= b.Learned && (a.Number > b.Number || a.Number == b.Number && a.By == b.By)
}

// same reports whether a and b say the same, so that nothing has to be written.
func (a *Agreed) same(b *Agreed) bool {
	return a.Level == b.Level && a.Low.Equal(b.Low) && a.Quiet == b.Quiet && a.Learned == b.Learned &&
		a.Normal == b.Normal && a.Steady == b.Steady && a.Week.known() == b.Week.known() &&
		a.Cleared.Equal(b.Cleared) && minutes(a.Minutes).running().Equal(minutes(b.Minutes).running())
}

// lateReports is how long nodes may take to report what they counted in a minute
// that is over.
const lateReports = 2 * time.Second

// lookAlone is look without the others. What has come since the last answer counts
// against this node's part of the threshold. What was known of the whole site then
// fades within a minute and still counts against the whole threshold, so that a
// short silence is no attack.
func (m *Mode) lookAlone(now time.Time) {
	f, left := &m.fleet, max(0, 1-now.Sub(m.fleet.at).Seconds()/windowSeconds)
	own := float64(m.window.FailureRate.Total())
	since := own - float64(f.mine.times(left).Total())
	whole := float64(m.window.FailureRate.plus(f.others.times(left)).Total())
	m.detector.see(&m.config, m.threshold(), max(since, whole/float64(f.nodes)), own, now)
}
