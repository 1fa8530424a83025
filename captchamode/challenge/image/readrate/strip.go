package main

import (
	"math"
	mathrand "math/rand/v2"
)

// A strip is a row of digits, with the network's input at each position.
type strip struct {
	see    func(at int) []float32
	long   int   // positions are 0 to long-1
	step   int   // use every step-th position
	near   int   // minimum distance of digits
	far    int   // maximum distance of digits
	guess  []int // possible positions before training
	known  bool  // guess is correct
	again  int   // how often each is shown, at least once
	digits string
}

// A reading is which digit is at which position.
type reading struct {
	text   string
	places []int
}

// read returns the positions, near to far apart, where the network is most certain that there are digits (dynamic
// programming). With said, it searches for these digits.
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

// train trains a network on generated strips: attackers can run the program to get any number with solutions.
// Positions are not given; train searches for them with what it has learned so far.
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
