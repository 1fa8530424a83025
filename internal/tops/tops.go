// Package tops finds what comes most often, and counts what is distinct, among
// more names than could be kept. Memory is bounded whatever strangers make up.
package tops

import (
	"hash/maphash"
	"iter"
	"math/rand/v2"

	"github.com/axiomhq/hyperloglog"
)

// A Top keeps a tally of each of the names that come most often. It is
// Space-Saving (Metwally and others, 2005) with one change: a new name takes the
// slot of the rarest one not always but with a probability of one in that one's
// count (randomised admission, Ben Basat and others, 2017). With the plain
// algorithm and 256 slots, 600,000 made-up names push out every name that came
// less than 2,300 times; with this one, less than about 70 times. Make one with
// New; it is not safe for concurrent use.
type Top[T any] struct {
	places  map[string]int
	keys    []string
	tallies []T
	weights []int32 // apart, so that looking for the rarest touches little memory
	draw    func(below int32) int32
}

// New returns a Top of at most so many names.
func New[T any](slots int) *Top[T] {
	return &Top[T]{places: make(map[string]int), keys: make([]string, 0, slots), draw: rand.Int32N}
}

// Seeded is New for what comes to the same each time, with the same source and the
// same names.
func Seeded[T any](slots int, source rand.Source) *Top[T] {
	t := New[T](slots)
	t.draw = rand.New(source).Int32N
	return t
}

// Of counts a name and returns its tally, or nil if it gets no slot this time. A
// tally begins at zero whenever its name gets a slot, so what is added up in it
// is a lower bound. It may be used until the next call.
func (t *Top[T]) Of(name string) *T {
	place, ok := t.places[name]
	switch {
	case ok:
	case len(t.keys) < cap(t.keys):
		place = len(t.keys)
		t.keys, t.tallies, t.weights = append(t.keys, name), append(t.tallies, *new(T)), append(t.weights, 0)
	default:
		place = t.rarest()
		if t.draw(t.weights[place]+1) > 0 {
			return nil
		}
		delete(t.places, t.keys[place])
		t.keys[place], t.tallies[place] = name, *new(T)
	}
	t.places[name] = place
	t.weights[place]++
	return &t.tallies[place]
}

func (t *Top[T]) rarest() (place int) {
	for i, w := range t.weights {
		if w < t.weights[place] {
			place = i
		}
	}
	return place
}

// All are the names with their tallies, in no order.
func (t *Top[T]) All() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for i, key := range t.keys {
			if !yield(key, &t.tallies[i]) {
				return
			}
		}
	}
}

// A Distinct counts distinct names in at most 16 KiB, to within about 1 %
// (HyperLogLog). The hash is keyed at random: nobody can make up names that look
// like more, or fewer, than they are. Make one with NewDistinct; it is not safe
// for concurrent use.
type Distinct struct {
	seed   maphash.Seed
	sketch *hyperloglog.Sketch
}

// NewDistinct returns a Distinct that has seen nothing.
func NewDistinct() *Distinct { return &Distinct{maphash.MakeSeed(), hyperloglog.New()} }

// Fresh is a Distinct that has seen nothing and can be merged with d.
func (d *Distinct) Fresh() *Distinct { return &Distinct{d.seed, hyperloglog.New()} }

// Merge counts what other has seen as well. Both come from one by Fresh.
func (d *Distinct) Merge(other *Distinct) {
	_ = d.sketch.Merge(other.sketch) // fails only for one of another precision
}

// Add counts a name.
func (d *Distinct) Add(name string) { d.sketch.InsertHash(maphash.String(d.seed, name)) }

// Count is how many different names came, about.
func (d *Distinct) Count() int { return int(d.sketch.Estimate()) }
