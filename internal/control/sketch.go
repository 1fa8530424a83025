package control

import (
	"math/rand/v2"
	"time"
)

// sketchSlots is how many names one minute remembers.
const sketchSlots = 256

// A sketch finds the names that come most often in one minute, with a bounded
// number of slots. It is Space-Saving (Metwally and others, 2005) with one
// change: a new name takes the place of the rarest one not always but with a
// probability of one in that one's count (randomised admission, Ben Basat and
// others, 2017). With the plain algorithm, 600,000 made-up names in a minute
// push out whoever came less than 2,300 times; with this one, less than about
// 70 times.
type sketch struct {
	minute  int64 // Unix minutes
	places  map[string]int
	tallies []tally
	weights []int32 // apart, so that looking for the rarest touches little memory
	random  *rand.Rand
}

// A tally is what came under one name since it has its slot. A slot's weight
// is that and what those before it in the slot had.
type tally struct {
	key      string
	name     string // as it was seen last
	failures int
	stopped  int
	seen     time.Time
}

func newSketch(minute int64, random *rand.Rand) *sketch {
	return &sketch{minute: minute, places: make(map[string]int), random: random}
}

// of is the name's tally; nil if it gets no slot this time.
func (s *sketch) of(key string) *tally {
	place, ok := s.places[key]
	switch {
	case ok:
	case len(s.tallies) < sketchSlots:
		place = len(s.tallies)
		s.tallies, s.weights = append(s.tallies, tally{key: key}), append(s.weights, 0)
	default:
		place = s.rarest()
		if s.random.Int32N(s.weights[place]+1) > 0 {
			return nil
		}
		delete(s.places, s.tallies[place].key)
		s.tallies[place] = tally{key: key}
	}
	s.places[key] = place
	s.weights[place]++
	return &s.tallies[place]
}

func (s *sketch) rarest() (place int) {
	for i, w := range s.weights {
		if w < s.weights[place] {
			place = i
		}
	}
	return place
}
