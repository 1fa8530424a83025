package main

import (
	"math"
	mathrand "math/rand/v2"
)

// A strip is something with digits in a row, and what the network sees at each
// place of it.
type strip struct {
	see    func(at int) []float32
	long   int   // the places are 0 to long-1
	step   int   // one in so many is looked at
	near   int   // digits are at least so many places apart
	far    int   // and at most so many
	guess  []int // where they may be, before the network knows anything
	known  bool  // that is where they are
	again  int   // how often each is shown, at least once
	digits string
}

// A reading is what stands where.
type reading struct {
	text   string
	places []int
}

// read finds the places, near to far apart, where the network is surest that there
// are digits (dynamic programming). With said, it looks for these.
func (s *strip) read(n *network, said string) reading {
	count := len(s.guess)
	places := (s.long + s.step - 1) / s.step
	likely := make([][answers]float64, places)
	for i := range likely {
		likely[i] = n.read(s.see(i * s.step))
	}
	gain := func(digit, at int) float64 {
		l := likely[at]
		if said != "" {
			return l[said[digit]-'0'] - l[none]
		}
		return l[largest(l)] - l[none]
	}
	best := make([][]float64, count)
	from := make([][]int, count)
	for d := range count {
		best[d], from[d] = make([]float64, places), make([]int, places)
		for at := range places {
			before := 0.0
			if d > 0 {
				before = math.Inf(-1)
				for p := max(0, at-s.far/s.step); p <= at-s.near/s.step; p++ {
					if best[d-1][p] > before {
						before, from[d][at] = best[d-1][p], p
					}
				}
			}
			best[d][at] = before + gain(d, at)
		}
	}
	at := 0
	for p, b := range best[count-1] {
		if b > best[count-1][at] {
			at = p
		}
	}
	r := reading{places: make([]int, count)}
	text := make([]byte, count)
	for d := count - 1; d >= 0; d-- {
		r.places[d], text[d] = at*s.step, byte('0'+largest(likely[at]))
		at = from[d][at]
	}
	r.text = string(text)
	return r
}

func largest(likely [answers]float64) (digit int) {
	for i := range none {
		if likely[i] > likely[digit] {
			digit = i
		}
	}
	return digit
}

// train teaches a network with strips of its own making: whoever has the program
// has as many as he likes, with their solutions. Where the digits are it is not
// told: it looks for them with what it has learned so far.
func train(lessons int, next func() (strip, error)) (*network, error) {
	random := mathrand.New(mathrand.NewPCG(1, 2))
	n := newNetwork(random)
	for done := range lessons {
		s, err := next()
		if err != nil {
			return nil, err
		}
		places := s.guess
		if done > lessons/10 && !s.known {
			places = s.read(n, s.digits).places
		}
		rate := 0.002
		if done > lessons*2/3 {
			rate = 0.0005
		}
		for range max(s.again, 1) {
			for i, at := range places {
				n.learn(s.see(at+random.IntN(2*s.step+1)-s.step), s.digits[i]-'0', rate)
				if i > 0 {
					n.learn(s.see((places[i-1]+at)/2), none, rate)
				}
			}
		}
	}
	return n, nil
}
