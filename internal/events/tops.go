package events

import (
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"math/rand/v2"

	"github.com/axiomhq/hyperloglog"
	"github.com/dchest/siphash"
)

// A Top keeps a tally of each of the most frequent names. It is Space-Saving (Metwally and others, 2005) with
// randomized admission (Ben Basat and others, 2017). A new name replaces the rarest one with a probability of one in
// its count. With 256 slots, 600,000 invented names displace names with fewer than about 70 attempts; the plain
// algorithm loses those with up to 2,300. Create it with NewTop; it is not safe for concurrent use.
type Top[T any] struct {
	places  map[string]int
	keys    []string
	tallies []T
	weights []int32 // apart from the tallies, so that finding the rarest touches little memory
	draw    func(below int32) int32
}

// NewTop returns a Top of at most slots names.
func NewTop[T any](slots int) *Top[T] {
	return &Top[T]{places: make(map[string]int), keys: make([]string, 0, slots), draw: rand.Int32N}
}

// SeededTop is NewTop with deterministic results, for the same source and names.
func SeededTop[T any](slots int, source rand.Source) *Top[T] {
	t := NewTop[T](slots)
	t.draw = rand.New(source).Int32N
	return t
}

// Of counts a name and returns its tally, or nil if it gets no slot. A tally starts at zero when its name gets a slot,
// so its sums are lower bounds. It is valid until the next call.
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

// All yields the names with their tallies, unordered.
func (t *Top[T]) All() iter.Seq2[string, *T] {
	return func(yield func(string, *T) bool) {
		for i, key := range t.keys {
			if !yield(key, &t.tallies[i]) {
				return
			}
		}
	}
}

// A Distinct counts distinct names in at most 16 KiB, within about 1 % (HyperLogLog). The hash is keyed, so that an
// attacker cannot choose names that distort the count. It is not safe for concurrent use.
type Distinct struct {
	hash   func(string) uint64
	sketch *hyperloglog.Sketch
}

// NewDistinct returns an empty Distinct with a keyed hash. Counts with one key can be merged.
func NewDistinct(hash func(string) uint64) *Distinct { return &Distinct{hash, hyperloglog.New()} }

// KeyedHash returns a hash for NewDistinct. It is the same for all processes with the secret.
func KeyedHash(secret []byte) func(string) uint64 {
	key := sha256.Sum256(append([]byte("authguard tops "), secret...))
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:16])
	return func(name string) uint64 { return siphash.Hash(k0, k1, []byte(name)) }
}

// Add counts a name.
func (d *Distinct) Add(name string) { d.sketch.InsertHash(d.hash(name)) }

// Count estimates the number of distinct names.
func (d *Distinct) Count() int { return int(d.sketch.Estimate()) }

// Save returns the data for Load. It reveals no name.
func (d *Distinct) Save() []byte {
	data, _ := d.sketch.MarshalBinary() // never fails
	return data
}

// Load adds the names of saved data with the same key. It ignores damaged data.
func (d *Distinct) Load(data []byte) {
	if other := hyperloglog.New(); other.UnmarshalBinary(data) == nil {
		_ = d.sketch.Merge(other)
	}
}

// A Seen is a Bloom filter of keyed hashes in 256 KiB. False positives are one in 10,000 after 50,000 names and one in
// 9 after 500,000. The zero Seen is empty; it is not safe for concurrent use.
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

// Has reports whether a name may have been added; true if it was.
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

// bitOf returns one of a name's bits; two hashes suffice (Kirsch and Mitzenmacher, 2006).
func bitOf(hash, i uint64) uint64 { return (hash>>32 + i*(hash&(1<<32-1)|1)) % seenBits }
