package image

import (
	"crypto/sha256"
	"encoding/binary"
	"image"
	"math"
	"math/rand/v2"

	"authguard/captchamode/challenge"
)

// The library's output has regular features that programs rely on: digits at equal distances, and public recordings
// played at one speed. This file varies both as far as users tolerate; docs/explanation/challenges.md has the effect on programs.

// random returns the random numbers of a seed for one form.
func random(seed challenge.Seed, what string) *rand.Rand {
	return rand.New(rand.NewChaCha8(sha256.Sum256(append(seed[:], what...))))
}

func between(r *rand.Rand, low, high float64) float64 { return low + (high-low)*r.Float64() }

// A swing is a sine wave of amplitude high and period long, with the phase begun.
type swing struct{ high, long, begun float64 }

func (s swing) at(x float64) float64 { return s.high * math.Sin(2*math.Pi*x/s.long+s.begun) }

func swinging(r *rand.Rand, high, long [2]float64) swing {
	return swing{between(r, high[0], high[1]), between(r, long[0], long[1]), between(r, 0, 2*math.Pi)}
}

// bend varies the width of the digits and the height of their baseline.
func bend(flat *image.Paletted, r *rand.Rand) *image.Paletted {
	height := float64(flat.Rect.Dy())
	width := swinging(r, [2]float64{height / 24, height / 14}, [2]float64{height, 2 * height})
	slant := swinging(r, [2]float64{height / 32, height / 20}, [2]float64{1.5 * height, 3 * height})
	line := swinging(r, [2]float64{height / 40, height / 25}, [2]float64{0.6 * height, 1.2 * height})
	bent := image.NewPaletted(flat.Rect, flat.Palette)
	for y := range flat.Rect.Dy() {
		for x := range flat.Rect.Dx() {
			fx, fy := float64(x), float64(y)
			from := image.Pt(int(fx+width.at(fx)+slant.at(fy)), int(fy+line.at(fx)))
			if from.In(flat.Rect) {
				bent.SetColorIndex(x, y, flat.ColorIndexAt(from.X, from.Y))
			}
		}
	}
	return bent
}

const (
	waveHeader = 44   // bytes of a WAVE file before its samples
	sampleRate = 8000 // per second; a sample is a byte, silence is 128
)

// waver varies the speed and adds an echo, so that no recording matches as a whole at any speed.
func waver(wave []byte, r *rand.Rand) []byte {
	const second = sampleRate
	quick := swinging(r, [2]float64{0.08, 0.12}, [2]float64{0.12 * second, 0.25 * second})
	slow := swinging(r, [2]float64{0.08, 0.12}, [2]float64{0.4 * second, 0.9 * second})
	echo, late := between(r, 0.25, 0.4), int(between(r, 0.02, 0.05)*second)
	flat := wave[waveHeader:]
	said := make([]float64, 0, len(flat)*5/4)
	for at := 0.0; int(at)+1 < len(flat); at += 1 + quick.at(float64(len(said))) + slow.at(float64(len(said))) {
		i := int(at)
		v := (1-at+float64(i))*float64(flat[i]) + (at-float64(i))*float64(flat[i+1]) - 128
		if len(said) >= late {
			v += echo * said[len(said)-late]
		}
		said = append(said, v)
	}
	out := append(make([]byte, 0, waveHeader+len(said)+1), wave[:waveHeader]...)
	for _, v := range said {
		out = append(out, byte(min(max(128+v*0.8, 0), 255)))
	}
	size := len(out) - waveHeader
	if size%2 == 1 { // a chunk is padded to an even length, which is not counted
		out = append(out, 0)
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	binary.LittleEndian.PutUint32(out[40:], uint32(size))
	return out
}
