package nodes

import (
	"slices"
	"sync"
	"time"

	"authguard/failures"
)

// A history is what this node did. Its charges are those that still stand, but
// for the marks among them, for a Redis that has lost its memory. Its journal is what Redis has not heard of
// yet. Both are in order and bounded: at the bound the oldest tenth goes. Safe
// for concurrent use.
type history struct {
	mu      sync.Mutex
	charges []charge
	journal []deed
	passed  int // deeds that have left the journal's head
	telling int // deeds, counted like passed, that may be with Redis by now
}

// Bounds: about 25 MB each.
const (
	mostCharges = 100_000
	mostDeeds   = 100_000
)

// A charge is one attempt's, or a mark that all earlier ones of some subjects
// were cleared.
type charge struct {
	at       failures.ChargeID
	n        uint8
	clears   bool
	failed   bool // this node was told so
	subjects [4]failures.Subject
}

func (c *charge) of() []failures.Subject { return c.subjects[:c.n] }

// A deed is something that Redis has to be told.
type deed struct {
	what what
	charge
}

type what uint8

const (
	charged what = iota
	tookBack
	cleared
)

func chargeOf(at failures.ChargeID, subjects []failures.Subject) charge {
	c := charge{at: at}
	c.n = uint8(copy(c.subjects[:], subjects))
	return c
}

func (c *charge) without(drop func(*failures.Subject) bool) charge {
	rest := charge{at: c.at, failed: c.failed}
	for _, of := range c.of() {
		if !drop(&of) {
			rest.subjects[rest.n] = of
			rest.n++
		}
	}
	return rest
}

func oneOf(subjects []failures.Subject) func(*failures.Subject) bool {
	return func(one *failures.Subject) bool {
		return slices.ContainsFunc(subjects, func(of failures.Subject) bool { return of.Key == one.Key && of.Shard == one.Shard })
	}
}

// charged keeps a charge. Unheard, here and below, says that Redis does not
// know of it.
func (h *history) charged(at failures.ChargeID, subjects []failures.Subject, unheard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(chargeOf(at, subjects))
	if unheard {
		h.owe(charged, at, subjects)
	}
}

// lookBack is how many charges may be made while one is being checked.
const lookBack = 10_000

// failed notes that a charge is a failure: one of which this node is never told
// was settled by another node, or by nobody.
func (h *history) failed(at failures.ChargeID, subjects []failures.Subject) {
	if len(subjects) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	isFirst := oneOf(subjects[:1])
	for i := len(h.charges) - 1; i >= max(0, len(h.charges)-lookBack); i-- {
		if c := &h.charges[i]; c.at == at && slices.ContainsFunc(c.of(), func(of failures.Subject) bool { return isFirst(&of) }) {
			c.failed = true
			return
		}
	}
}

// tookBack forgets a charge, or that of some of its subjects.
func (h *history) tookBack(at failures.ChargeID, subjects []failures.Subject, unheard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.charges) - 1; i >= 0; i-- {
		if h.charges[i].at != at {
			continue
		}
		rest := h.charges[i].without(oneOf(subjects))
		if rest.n < h.charges[i].n {
			h.charges[i] = rest
			break
		}
	}
	if unheard && !h.cancel(at, subjects) {
		h.owe(tookBack, at, subjects)
	}
}

// cancel takes a charge that Redis has not heard of out of the journal, or that
// of some of its subjects.
func (h *history) cancel(at failures.ChargeID, subjects []failures.Subject) bool {
	first := max(0, h.telling-h.passed, len(h.journal)-lookBack)
	for i := len(h.journal) - 1; i >= first; i-- {
		d := &h.journal[i]
		if d.what != charged || d.at != at {
			continue
		}
		if rest := d.without(oneOf(subjects)); int(d.n-rest.n) == len(subjects) {
			d.charge = rest
			return true
		}
	}
	return false
}

// cleared forgets all charges of some subjects. Every login clears its pair, so
// it is only written down here: looking through all charges took a millisecond.
func (h *history) cleared(subjects []failures.Subject, unheard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mark := chargeOf(0, subjects)
	mark.clears = true
	h.add(mark)
	if unheard {
		h.owe(cleared, 0, subjects)
	}
}

// add keeps a charge or a mark. Where there is no room, what no longer stands
// goes first.
func (h *history) add(c charge) {
	if len(h.charges) >= mostCharges {
		h.charges = stillStanding(h.charges)
		h.charges = bounded(h.charges, mostCharges*9/10)
	}
	h.charges = append(h.charges, c)
}

// stillStanding leaves out, in place, what was taken back or cleared later, and
// the marks that say so.
func stillStanding(charges []charge) []charge {
	type location struct{ place, key failures.Key }
	gone := make(map[location]bool)
	first := len(charges)
	for i := len(charges) - 1; i >= 0; i-- {
		c := charges[i]
		if c.clears {
			for _, of := range c.of() {
				gone[location{of.Shard, of.Key}] = true
			}
			continue
		}
		if len(gone) > 0 {
			c = c.without(func(of *failures.Subject) bool { return gone[location{of.Shard, of.Key}] })
		}
		if c.n > 0 {
			first--
			charges[first] = c
		}
	}
	n := copy(charges, charges[first:])
	clear(charges[n:])
	return charges[:n]
}

func (h *history) owe(w what, at failures.ChargeID, subjects []failures.Subject) {
	before := len(h.journal)
	h.journal = append(bounded(h.journal, mostDeeds), deed{w, chargeOf(at, subjects)})
	h.passed += before + 1 - len(h.journal)
}

func bounded[T any](list []T, most int) []T {
	if len(list) < most {
		return list
	}
	kept := copy(list, list[most/10:])
	clear(list[kept:])
	return list[:kept]
}

// standing copies the charges that a Redis that has lost some groups has to be
// told again, and counts the deeds that they make needless. Those that were made
// before a time and are not known to have failed are left out: another node has
// taken them back, as likely as not, and must not see them again.
func (h *history) standing(lost func(*failures.Subject) bool, before time.Time) (charges []charge, deeds int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charges = stillStanding(h.charges)
	for i := range h.charges {
		if !h.charges[i].failed && h.charges[i].at.Time().Before(before) {
			continue
		}
		if c := h.charges[i].without(func(of *failures.Subject) bool { return !lost(of) }); c.n > 0 {
			charges = append(charges, c)
		}
	}
	return charges, len(h.journal) + h.passed
}

// needless drops from the journal's deeds, up to the number that standing
// gave, what concerns the groups that were told all anew.
func (h *history) needless(deeds int, lost func(*failures.Subject) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range min(len(h.journal), max(deeds-h.passed, 0)) {
		h.journal[i].charge = h.journal[i].without(lost)
	}
}

// next are the oldest deeds, up to most.
func (h *history) next(most int) (deeds []deed, upTo int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	deeds = slices.Clone(h.journal[:min(most, len(h.journal))])
	h.telling = len(deeds) + h.passed
	return deeds, h.telling
}

// heard drops the deeds up to what next gave.
func (h *history) heard(upTo int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(max(upTo-h.passed, 0), len(h.journal))
	h.journal = slices.Delete(h.journal, 0, n)
	h.passed += n
}

// unheard is how many deeds the journal holds.
func (h *history) unheard() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.journal)
}
