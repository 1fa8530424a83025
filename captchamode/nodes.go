package captchamode

import (
	"crypto/rand"
	"slices"
	"time"
)

// The nodes of a site report their counts several times a second, and get the sums and the state
// that all share. Each computes the next state from the same sums. The first one to write a change
// is its author, and the others apply what they read, so there is no leader. All times are the
// site's: those of the store that carries the reports.

// Agreed is the state that the nodes share. The zero Agreed is none.
type Agreed struct {
	Version string `json:"-"` // another one each time that they agree on something
	Detector
	// Number counts the changes of the level. By is the node that made the last one: it records and
	// alerts it.
	Number  int64    `json:"number"`
	By      string   `json:"by,omitzero"`
	Minutes []Minute `json:"minutes"`
}

// An Answer is the answer to a report.
type Answer struct {
	To     Report // that report
	Now    time.Time
	Nodes  int     // that have reported in the last seconds, this one among them
	All    Report  // the sum over all nodes; of the failure rate, over those that agree on Cleared
	Agreed *Agreed // nil if there is nothing, or nothing that makes sense
}

// Merge merges the shared state with that of one node. apart means that the node's level was
// reached without the others.
func Merge(agreed *Agreed, own Agreed, apart bool) Agreed {
	switch {
	case agreed == nil: // lost, or never there
		return own
	case agreed.Version == own.Version: // no node has written since
		own.Minutes = agreed.Minutes
		return own
	}
	m := *agreed
	if own.Week.known() > m.Week.known() { // the last writer did not know it
		m.Week = own.Week
	}
	if own.Version == "" || !apart && agreed.follows(&own) {
		return m
	}
	m.Number = max(m.Number, own.Number)
	if own.Learned > m.Learned {
		m.Normal, m.Recent, m.Usual, m.Most, m.Learned = own.Normal, own.Recent, own.Usual, own.Most, own.Learned
		m.Daily = own.Daily
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

// Join makes the Mode one of a site's nodes. node identifies this process; hurry asks for a report
// soon, is called with the lock held and must not block. Call Join once, before anything is
// observed. Until the first answer the Mode goes by itself.
func (m *Mode) Join(node string, hurry func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.node, m.fleet.hurry = node, hurry
}

// Report returns this node's counts. Before the next Report, call Merge with the answer, or GoAlone
// if there is none.
func (m *Mode) Report() Report {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance()
	r := m.window.Report
	r.Corrected = slices.DeleteFunc(slices.Clone(r.Corrected), func(one CorrectedTypo) bool {
		return m.window.now-one.At > correctedWithin
	})
	r.Cleared = m.detector.Cleared
	return r
}

// Merge takes the answer to a report. It returns the state to write and then to Apply, nil if there
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
	if f.clearing && said != nil { // it was written before the reset
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
	if next.Version = rand.Text(); next.Level != was.Level || next.Steady != was.Steady ||
		next.Daily.Elevated != was.Daily.Elevated {
		next.Number, next.By = next.Number+1, f.node
	}
	return &next
}

// Apply applies the shared state.
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
	case own > f.judged && own > a.Level: // risen since Merge: the next report has it
		m.detector.rise(&m.config, own, now)
	case cleared && m.detector.Level < m.last.Level:
		m.switchTo(m.override, ByClearing, true, now)
	default:
		m.follow(a.By != f.node, now)
	}
	m.show()
}

// GoAlone notes that a report was not answered. The level stays; the node now compares its own
// failure rate with its share of the threshold.
func (m *Mode) GoAlone() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fleet.together = false
	m.see(m.advance())
}

// knows is this node's state of the site.
func (m *Mode) knows() Agreed {
	own := m.fleet.agreed
	own.Detector, own.Minutes = m.detector, m.minutes
	return own
}

func (a *Agreed) valid() bool {
	return a.Version != "" && a.Detector.valid() && len(a.Minutes) <= keepMinutes
}

// follows reports whether a was made from b. It was not if the store lost writes in between.
func (a *Agreed) follows(b *Agreed) bool {
	return a.Learned >= b.Learned && (a.Number > b.Number || a.Number == b.Number && a.By == b.By)
}

// same reports whether nothing has to be written.
func (a *Agreed) same(b *Agreed) bool {
	return a.Level == b.Level && a.Low.Equal(b.Low) && a.Quiet == b.Quiet && a.Learned == b.Learned &&
		a.Normal == b.Normal && a.Steady == b.Steady && a.Week.known() == b.Week.known() &&
		a.Daily.Elevated == b.Daily.Elevated && a.Cleared.Equal(b.Cleared) &&
		minutes(a.Minutes).running().Equal(minutes(b.Minutes).running())
}

// lateReports is how long after a minute its reports may come.
const lateReports = 2 * time.Second

// lookAlone is look without the other nodes. What came since the last answer counts against this
// node's share of the threshold. The site's failure rate of before fades within a minute and counts
// against the whole threshold, so that a short silence is no attack.
func (m *Mode) lookAlone(now time.Time) {
	f, left := &m.fleet, max(0, 1-now.Sub(m.fleet.at).Seconds()/windowSeconds)
	own := float64(m.window.FailureRate.Total())
	since := own - float64(f.mine.times(left).Total())
	whole := float64(m.window.FailureRate.plus(f.others.times(left)).Total())
	m.detector.see(&m.config, m.threshold(), max(since, whole/float64(f.nodes)), own, now)
}
