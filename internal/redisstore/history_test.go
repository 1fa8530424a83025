package redisstore_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"authguard/failures"
	"authguard/failures/failurestest"
	"authguard/internal/redisstore"
)

// A pair of stores is given the same history, and must always say the same.
type pair struct {
	t             *testing.T
	rt            *rapid.T
	redis, memory failures.Store
	subjects      []failures.Subject
	open          []charged
	now           time.Duration
	// short: some window is shorter than PendingFor. Memory then counts an
	// undecided charge that has left the window as if it were in it, and Redis
	// does not, so that what has failed is not compared.
	short bool
}

// charged is a charge that may yet be settled.
type charged struct {
	at            time.Duration
	redis, memory failures.ChargeID
	subjects      []failures.Subject
}

func agreesWithMemory(t *testing.T, on redisOf) {
	c := newClock()
	client := on.open(t)
	store := redisstore.CountersOf(newStore(t, client, on.prefix, redisstore.Options{PendingFor: failurestest.PendingFor,
		Clock: c.Now}))
	rapid.Check(t, func(rt *rapid.T) {
		on.expire(t, client)
		memory, err := failures.NewMemory(failures.Config{
			PendingFor: failurestest.PendingFor, Retain: failurestest.Retain, Now: c.Now,
		})
		must(t, err)
		c.Advance(failurestest.PendingFor + time.Second) // no stamp of the run before is young
		p := &pair{t: t, rt: rt, redis: store, memory: memory, short: rapid.Bool().Draw(rt, "short")}
		p.subjects = drawSubjects(rt, p.short)
		for range rapid.IntRange(1, 40).Draw(rt, "steps") {
			step := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 400 * time.Millisecond, 3 * time.Second,
				20 * time.Second}).Draw(rt, "passes")
			c.Advance(step)
			p.now += step
			p.settleOld()
			p.step()
			p.compare()
		}
	})
}

// drawSubjects are an account's and a network's, and some kept with them.
func drawSubjects(rt *rapid.T, short bool) (all []failures.Subject) {
	for shard := range 2 {
		itself := failures.Key(digest('x', shard))
		for n := range rapid.IntRange(1, 4).Draw(rt, "subjects") {
			s := failures.Subject{Shard: itself, Key: itself, Limits: drawLimits(rt, short), Bind: failures.Every}
			if n > 0 {
				s.Key = digest('y', 10*shard+n)
			}
			if rapid.Bool().Draw(rt, "unpaced") {
				s.Bind &^= failures.BackoffBit
			}
			all = append(all, s)
		}
	}
	return all
}

func drawLimits(rt *rapid.T, short bool) *failures.Limits {
	backoff := failures.Backoff{}
	if rapid.Bool().Draw(rt, "paced") {
		backoff = failures.Backoff{After: rapid.IntRange(1, 3).Draw(rt, "after"), First: 300 * time.Millisecond,
			Max: 2 * time.Second, Window: 20 * time.Second}
	}
	shortest := int(failurestest.PendingFor / time.Millisecond)
	if short {
		shortest = 1
	}
	var limits []failures.Limit
	for range rapid.IntRange(1, 3).Draw(rt, "limits") {
		limits = append(limits, failures.Limit{
			Failures: rapid.IntRange(1, 20).Draw(rt, "failures"),
			Window:   time.Duration(rapid.IntRange(shortest, 60_000).Draw(rt, "window")) * time.Millisecond,
		})
	}
	drawn := failures.MustLimits(backoff, limits...)
	if rapid.Bool().Draw(rt, "after other limits") {
		return drawn.Keeping(limitSet(rapid.IntRange(1, 40).Draw(rt, "earlier failures"), 2*time.Minute))
	}
	return drawn
}

func (p *pair) step() {
	switch what := rapid.IntRange(0, 11).Draw(p.rt, "what"); {
	case what == 0:
		one := p.subjects[rapid.IntRange(0, len(p.subjects)-1).Draw(p.rt, "cleared"):][:1]
		part := rapid.SampledFrom([]failures.Mask{failures.Every, failures.BackoffBit, failures.BackoffBit}).Draw(p.rt,
			"part")
		must(p.t, p.redis.Clear(p.t.Context(), one, part))
		must(p.t, p.memory.Clear(p.t.Context(), one, part))
		for i := range p.open { // what is cleared is not settled any more
			if part == failures.BackoffBit {
				break
			}
			p.open[i].subjects = slices.DeleteFunc(p.open[i].subjects,
				func(s failures.Subject) bool { return s.Key == one[0].Key })
		}
	case what < 4 && len(p.open) > 0:
		p.settle(rapid.IntRange(0, len(p.open)-1).Draw(p.rt, "settled"), rapid.Bool().Draw(p.rt, "succeeded"))
	default:
		p.offer()
	}
}

// settleOld decides what is about to count as a failure by its age: Memory
// would still count it among the undecided.
func (p *pair) settleOld() {
	for i := len(p.open) - 1; i >= 0; i-- {
		if p.now-p.open[i].at >= failurestest.PendingFor {
			p.settle(i, false)
		}
	}
}

func (p *pair) settle(i int, succeeded bool) {
	c := p.open[i]
	p.open = slices.Delete(p.open, i, i+1)
	end := failures.Store.Failed
	if succeeded {
		end = failures.Store.TakeBack
	}
	must(p.t, end(p.redis, p.t.Context(), c.redis, c.subjects))
	must(p.t, end(p.memory, p.t.Context(), c.memory, c.subjects))
}

func (p *pair) offer() {
	from := rapid.IntRange(0, len(p.subjects)-1).Draw(p.rt, "from")
	to := rapid.IntRange(from+1, len(p.subjects)).Draw(p.rt, "to")
	chosen := p.subjects[from:to]
	a, b := make([]failures.Usage, len(chosen)), make([]failures.Usage, len(chosen))
	at, err := p.redis.Charge(p.t.Context(), chosen, a)
	must(p.t, err)
	then, err := p.memory.Charge(p.t.Context(), chosen, b)
	must(p.t, err)
	if at.Charged() != then.Charged() || !p.equal(a, b) {
		p.rt.Fatalf("Charge at %v: Redis %v, %+v\nmemory %v, %+v", p.now, at, a, then, b)
	}
	if at.Charged() {
		p.fills(at.Full, chosen, a)
		p.open = append(p.open, charged{p.now, at, then, slices.Clone(chosen)})
	}
}

// fills holds what a charge said against what it did: it filled a limit of those subjects
// that are full in another way than before.
func (p *pair) fills(told uint8, subjects []failures.Subject, before []failures.Usage) {
	after, really := make([]failures.Usage, len(subjects)), uint8(0)
	must(p.t, p.redis.Read(p.t.Context(), subjects, after, nil))
	for i := range subjects {
		if after[i].Over&^before[i].Over != 0 {
			really |= 1 << i
		}
	}
	if told != really {
		p.rt.Fatalf("Charge at %v: filled %b, and says %b; before %+v\nafter %+v", p.now, really, told, before, after)
	}
}

// compare asks both stores for everything.
func (p *pair) compare() {
	a, b := make([]failures.Usage, len(p.subjects)), make([]failures.Usage, len(p.subjects))
	must(p.t, p.redis.Read(p.t.Context(), p.subjects, a, nil))
	must(p.t, p.memory.Read(p.t.Context(), p.subjects, b, nil))
	if !p.equal(a, b) {
		p.rt.Fatalf("Read at %v: Redis %+v\nmemory %+v", p.now, a, b)
	}
}

func (p *pair) equal(a, b []failures.Usage) bool {
	return slices.EqualFunc(a, b, func(a, b failures.Usage) bool {
		if p.short {
			a.Failed, b.Failed = 0, 0
		}
		return a == b
	})
}
