package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Audio is analyzed as a spectrogram: the volume of cols frequency bands every 16 ms. One digit has at most rows of
// these, 0.64 s.
const (
	hop   = 128 // samples
	frame = 256
	rate  = 8000
	beeps = 56 // rows of the signal before the first digit
)

// A heard sound is its bands, one row per 16 ms, with its solution.
type heard struct {
	bands  [][]float32
	digits string
}

func listen(wav []byte, digits string) heard {
	pcm := wav[44:]
	h := heard{digits: digits}
	for from := 0; from+frame <= len(pcm); from += hop {
		h.bands = append(h.bands, bands(pcm[from:from+frame]))
	}
	return h
}

// bands returns the log volume of cols frequencies from 150 to 3,600 Hz, spaced by perceived pitch (Goertzel's
// algorithm).
func bands(pcm []byte) []float32 {
	out := make([]float32, cols)
	var faded [frame]float64
	for n, v := range pcm {
		faded[n] = (float64(v) - 128) * (0.5 - 0.5*math.Cos(2*math.Pi*float64(n)/frame))
	}
	for i := range out {
		pitch := 700 * (math.Pow(1+3600.0/700, (float64(i)+1)/cols) - 1)
		turn := 2 * math.Cos(2*math.Pi*pitch/rate)
		var a, b float64
		for _, v := range faded {
			a, b = v+turn*a-b, a
		}
		out[i] = float32(math.Log(a*a + b*b - turn*a*b + 100))
	}
	return out
}

// at returns the map from a moment on, with mean 0 and deviation 1.
func (h *heard) at(from int) []float32 {
	cut := make([]float32, 0, rows*cols)
	for i := range rows {
		if at := from + i; at >= 0 && at < len(h.bands) {
			cut = append(cut, h.bands[at]...)
		} else {
			cut = append(cut, make([]float32, cols)...)
		}
	}
	return normal(cut)
}

func normal(v []float32) []float32 {
	var sum, squares float64
	for _, x := range v {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	mean := sum / float64(len(v))
	deviation := math.Sqrt(squares/float64(len(v))-mean*mean) + 1e-6
	for i, x := range v {
		v[i] = float32((float64(x) - mean) / deviation)
	}
	return v
}

// strip converts a sound to a strip, with the rows as positions. Digits are one to four seconds apart.
func (h *heard) strip(digits int) strip {
	return strip{
		see: h.at, long: len(h.bands), step: 3, again: 8, near: 60, far: 4 * 63, digits: h.digits, guess: make([]int, digits),
	}
}

// rehearse plays digits at known positions between reversed recordings, much as the library does.
func rehearse(voices [][]byte, digits int) strip {
	sum := make([]float64, (digits*3+3)*rate)
	mix := func(at int, voice []byte, speed, level float64) {
		for i, v := range stretch(voice, speed) {
			if at+i < len(sum) {
				sum[at+i] += level * (float64(v) - 128)
			}
		}
	}
	for at := 0; at < len(sum); at += rate / 10 {
		voice := slices.Clone(voices[rand.IntN(10)])
		slices.Reverse(voice)
		mix(at+rand.IntN(rate/10), voice, 0.8+0.6*rand.Float64(), 0.3+0.16*rand.Float64())
	}
	var text []byte
	var places []int
	at := rate
	for range digits {
		digit := rand.IntN(10)
		mix(at, voices[digit], 0.85+0.4*rand.Float64(), 0.75+0.45*rand.Float64())
		text, places = append(text, byte('0'+digit)), append(places, at/hop-10)
		at += rate + rand.IntN(2*rate)
	}
	wav := make([]byte, 44+len(sum))
	for i, v := range sum {
		wav[44+i] = byte(min(max(128+v*0.8, 0), 255))
	}
	h := listen(wav, string(text))
	s := h.strip(digits)
	s.guess, s.known = places, true
	return s
}

// Training sounds: first generated ones, then real ones.
const (
	soundsRehearsed = 1000
	soundsHeard     = 400
)

func listenerReads(s setting, n int) (right int, how string, err error) {
	voices, err := recordings()
	if err != nil {
		return 0, "", err
	}
	shown := 0
	net, err := train(soundsRehearsed+soundsHeard, func() (strip, error) {
		if shown++; shown <= soundsRehearsed {
			return rehearse(voices, s.digits), nil
		}
		wav, digits, err := speak(s)
		if err != nil {
			return strip{}, err
		}
		h := listen(wav, digits)
		return h.strip(s.digits), nil
	})
	for range n {
		if err != nil {
			break
		}
		var wav []byte
		var digits string
		wav, digits, err = speak(s)
		h := listen(wav, digits)
		if sound := h.strip(s.digits); sound.read(net, "").text == digits {
			right++
		}
	}
	return right, "", err
}
