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
// (HyperLogLog). The hash is keyed: nobody can make up names that look like more, or
// fewer, than they are. Make one with NewDistinct or NewKeyed; it is not safe for
// concurrent use.
type Distinct struct {
	hash   func(string) uint64
	sketch *hyperloglog.Sketch
}

// NewDistinct returns a Distinct that has seen nothing, with a key that nobody else has.
func NewDistinct() *Distinct {
	seed := maphash.MakeSeed()
	return NewKeyed(func(name string) uint64 { return maphash.String(seed, name) })
}

// NewKeyed is NewDistinct with a keyed hash of the caller's, so that what several
// processes have seen can be merged.
func NewKeyed(hash func(string) uint64) *Distinct { return &Distinct{hash, hyperloglog.New()} }

// Fresh is a Distinct that has seen nothing and can be merged with d.
func (d *Distinct) Fresh() *Distinct { return NewKeyed(d.hash) }

// Merge counts what other has seen as well. Both come from one by Fresh, or have one key.
func (d *Distinct) Merge(other *Distinct) {
	_ = d.sketch.Merge(other.sketch) // fails only for one of another precision
}

// Add counts a name.
func (d *Distinct) Add(name string) { d.sketch.InsertHash(d.hash(name)) }

// Count is how many different names came, about.
func (d *Distinct) Count() int { return int(d.sketch.Estimate()) }

// Save is what Load of another one reads. No name can be read from it.
func (d *Distinct) Save() []byte {
	data, _ := d.sketch.MarshalBinary() // never fails
	return data
}

// Load counts what was saved as well, of one with the same key. What is damaged counts
// nothing.
func (d *Distinct) Load(data []byte) {
	if other := hyperloglog.New(); other.UnmarshalBinary(data) == nil {
		_ = d.sketch.Merge(other)
	}
}

// A Seen remembers keyed hashes of names in 256 KiB, and forgets none: it is a Bloom
// filter, which takes others for seen the more often the fuller it is: one in 10,000 after
// 50,000 names, one in 9 after 500,000. The zero Seen has seen nothing; it is not safe for
// concurrent use.
type Seen struct{ bits []uint64 }

const (
	seenBits = 1 << 21
	seenEach = 4 // bits a name sets
)

// Add remembers a name by its hash.
func (s *Seen) Add(hash uint64) {
	if s.bits == nil {
		s.bits = make([]uint64, seenBits/64)
	}
	for i := range uint64(seenEach) {
		at := bitOf(hash, i)
		s.bits[at/64] |= 1 << (at % 64)
	}
}

// Has reports whether a name may have been added; without fail if it was.
func (s *Seen) Has(hash uint64) bool {
	if s.bits == nil {
		return false
	}
	for i := range uint64(seenEach) {
		if at := bitOf(hash, i); s.bits[at/64]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

// bitOf is one of a name's bits (Kirsch and Mitzenmacher, 2006: two hashes make all).
func bitOf(hash, i uint64) uint64 { return (hash>>32 + i*(hash&(1<<32-1)|1)) % seenBits }

// Scattered reports whether attempts come from so many names, each so seldom, that no list of
// them tells anything: the addresses of a botnet, or invented accounts. A few loud ones do
// not hide the others: loud is how many of the busiest, most first, have more than a
// twentieth of what is left without those before them.
func Scattered(attempts, names int64, busiest []int64) (loud int, ok bool) {
	left := attempts
	for loud < len(busiest) && 20*busiest[loud] > left {
		left -= busiest[loud]
		loud++
	}
	others := names - int64(loud)
	return loud, loud < max(len(busiest), 1) && others >= 50 && left <= 4*others
}
