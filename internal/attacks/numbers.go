package attacks

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"authguard/guard"
	"authguard/internal/events"
)

// Counts are attempts by outcome.
type Counts struct {
	Failed     int64 `json:"failed"`
	Challenged int64 `json:"challenged"`
	Waited     int64 `json:"delayed"`
	Refused    int64 `json:"blocked"`   // or fake failure
	Succeeded  int64 `json:"succeeded"` // also from known clients; not counted as an attempt
	// Known counts attempts with a visible password, which not all integrations show. Repeated and Sprayed are among them.
	Known    int64 `json:"passwords_known"`
	Repeated int64 `json:"passwords_repeated"` // a repeated password of the account
	Sprayed  int64 `json:"passwords_sprayed"`  // a sprayed password
	// Solved counts attempts with a solved challenge, with whatever outcome.
	Solved int64 `json:"challenges_solved"`
}

// Attempts returns the failed and stopped attempts.
func (c Counts) Attempts() int64 { return c.Failed + c.Challenged + c.Waited + c.Refused }

func (c *Counts) add(o Counts) {
	c.Failed, c.Challenged, c.Waited, c.Refused = c.Failed+o.Failed, c.Challenged+o.Challenged, c.Waited+o.Waited,
		c.Refused+o.Refused
	c.Succeeded, c.Known, c.Repeated, c.Sprayed = c.Succeeded+o.Succeeded, c.Known+o.Known, c.Repeated+o.Repeated,
		c.Sprayed+o.Sprayed
	c.Solved += o.Solved
}

func countsOf(e *guard.Event, ending events.Ending) (c Counts) {
	if e.Reasons.Has(guard.ChallengeSolved) {
		c.Solved = 1
	}
	switch ending {
	case events.Succeeded:
		c.Succeeded = 1
		return c
	case events.Failed:
		c.Failed = 1
	case events.Challenged:
		c.Challenged = 1
	case events.Waited:
		c.Waited = 1
	case events.Refused, events.FakeFailure:
		c.Refused = 1
	default:
		return c
	}
	if e.Guess != 0 {
		c.Known = 1
	}
	if e.Repeat {
		c.Repeated = 1
	}
	if e.Sprayed {
		c.Sprayed = 1
	}
	return c
}

// The dimensions of the counts by name.
const (
	byAddress = iota
	byNetwork
	byAccount
	byPassword // distinct count only; no password is stored
	dimensions
)

const (
	topSlots = 64
	// mostColumns is the most columns of a plot; beyond that they become wider.
	mostColumns = 240
)

// Minutes are failed and stopped attempts over time, in columns of Each minutes.
type Minutes struct {
	Each   int64           `json:"each"`
	Counts map[int64]int64 `json:"counts"` // by Unix minute over Each
}

func (m *Minutes) add(minute, n int64) {
	if m.Counts == nil {
		m.Each, m.Counts = max(1, m.Each), map[int64]int64{}
	}
	m.Counts[minute/m.Each] += n
	for len(m.Counts) > mostColumns {
		m.widen()
	}
}

func (m *Minutes) widen() {
	wider := map[int64]int64{}
	for at, n := range m.Counts {
		wider[at/2] += n
	}
	m.Each, m.Counts = 2*m.Each, wider
}

func (m *Minutes) merge(o Minutes) {
	for m.Counts != nil && m.Each < o.Each {
		m.widen()
	}
	for at, n := range o.Counts {
		m.add(at*o.Each, n)
	}
}

// A Peak is the busiest minute; a lower bound for an attack longer than four hours.
type Peak struct {
	At       time.Time `json:"at,omitzero"`
	Attempts int64     `json:"attempts"`
}

// A Named is a name with a lower bound of its attempts.
type Named struct {
	Name     string `json:"name"`
	Attempts int64  `json:"attempts"`
}

// A part is one process's view of an attack, or the sum of several, as stored.
type part struct {
	Counts   Counts              `json:"counts"`
	Last     int64               `json:"last"` // ms
	Distinct [dimensions]int64   `json:"distinct"`
	Sketches [dimensions][]byte  `json:"sketches,omitempty"` // while it is running
	Busiest  [byPassword][]Named `json:"busiest"`
	Minutes  Minutes             `json:"minutes"`
	Peak     Peak                `json:"peak"`
}

// A tally counts the attempts that one process sees, in bounded memory.
type tally struct {
	counts   Counts
	last     time.Time
	distinct [dimensions]*events.Distinct
	busiest  [byPassword]*events.Top[int64]
	minutes  Minutes
	minute   Peak // the current one
	peak     Peak
}

func newTally(hash func(string) uint64) *tally {
	t := new(tally)
	for i := range t.distinct {
		t.distinct[i] = events.NewDistinct(hash)
	}
	for i := range t.busiest {
		t.busiest[i] = events.NewTop[int64](topSlots)
	}
	return t
}

func (t *tally) add(e *guard.Event, ending events.Ending) {
	c := countsOf(e, ending)
	t.counts.add(c)
	if c.Attempts() == 0 {
		return
	}
	if e.At.After(t.last) {
		t.last = e.At
	}
	t.minutes.add(e.At.Unix()/60, 1)
	if start := e.At.Truncate(time.Minute); !t.minute.At.Equal(start) {
		t.minute = Peak{At: start}
	}
	if t.minute.Attempts++; t.minute.Attempts > t.peak.Attempts {
		t.peak = t.minute
	}
	for i, name := range namesOf(e) {
		if name == "" {
			continue
		}
		t.distinct[i].Add(name)
		if i < byPassword {
			if n := t.busiest[i].Of(name); n != nil {
				*n++
			}
		}
	}
}

func namesOf(e *guard.Event) (names [dimensions]string) {
	if e.Address.IsValid() {
		names[byAddress], names[byNetwork] = addressOf(e.Address), networkOf(e.Address)
	}
	names[byAccount] = events.Escape(e.Account)
	if e.Guess != 0 {
		names[byPassword] = strconv.FormatUint(uint64(e.Guess), 36)
	}
	return names
}

// addressOf returns what the guard counts as one address, networkOf the network around it.
func addressOf(a netip.Addr) string {
	address, _ := events.PrefixesOf(a)
	if address.IsSingleIP() {
		return address.Addr().String()
	}
	return address.String()
}

func networkOf(a netip.Addr) string {
	_, network := events.PrefixesOf(a)
	return network.String()
}

func (t *tally) part() part {
	p := part{Counts: t.counts, Last: t.last.UnixMilli(), Minutes: Minutes{t.minutes.Each, maps.Clone(t.minutes.Counts)},
		Peak: t.peak}
	for i, d := range t.distinct {
		p.Distinct[i], p.Sketches[i] = int64(d.Count()), d.Save()
	}
	for i, top := range t.busiest {
		for name, n := range top.All() {
			p.Busiest[i] = append(p.Busiest[i], Named{name, *n})
		}
	}
	p.trim()
	return p
}

func (p *part) trim() {
	for i := range p.Busiest {
		slices.SortFunc(p.Busiest[i], func(a, b Named) int {
			return cmp.Or(cmp.Compare(b.Attempts, a.Attempts), strings.Compare(a.Name, b.Name))
		})
		p.Busiest[i] = p.Busiest[i][:min(topSlots, len(p.Busiest[i]))]
	}
}

// merge adds up parts. Without a part's sketches, its distinct count is a lower bound of the sum.
func merge(parts ...part) (sum part) {
	whole := func(string) uint64 { return 0 } // only loaded hashes are counted
	sums := [byPassword]map[string]int64{}
	for i := range sums {
		sums[i] = map[string]int64{}
	}
	var sketches [dimensions]*events.Distinct
	for i := range sketches {
		sketches[i] = events.NewDistinct(whole)
	}
	for _, p := range parts {
		sum.Counts.add(p.Counts)
		sum.Last = max(sum.Last, p.Last)
		sum.Minutes.merge(p.Minutes)
		if p.Peak.Attempts > sum.Peak.Attempts {
			sum.Peak = p.Peak
		}
		for i := range p.Distinct {
			sum.Distinct[i] = max(sum.Distinct[i], p.Distinct[i])
			sketches[i].Load(p.Sketches[i])
		}
		for i, all := range p.Busiest {
			for _, one := range all {
				sums[i][one.Name] += one.Attempts
			}
		}
	}
	for i, s := range sketches {
		sum.Distinct[i], sum.Sketches[i] = max(sum.Distinct[i], int64(s.Count())), s.Save()
	}
	for i := range sums {
		for name, n := range sums[i] {
			sum.Busiest[i] = append(sum.Busiest[i], Named{name, n})
		}
	}
	sum.trim()
	sum.findPeak()
	return sum
}

// findPeak finds the busiest minute of all nodes together, while columns are minutes.
func (p *part) findPeak() {
	for at, n := range p.Minutes.Counts {
		if start := time.Unix(at*60, 0); p.Minutes.Each == 1 && (n > p.Peak.Attempts || n == p.Peak.Attempts &&
			start.Before(p.Peak.At)) {
			p.Peak = Peak{start, n}
		}
	}
}
