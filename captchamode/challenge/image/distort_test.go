//go:build !race

package image

import (
	"bytes"
	"image"
	"image/color"
	"math"
	"testing"

	"github.com/dchest/captcha"

	"authguard/captchamode/challenge"
)

// The library draws digits of one width at equal distances. A small network read
// 74 % of them by that.
func TestNoTwoDigitsAreTheSameDistanceApart(t *testing.T) {
	t.Parallel()
	palette := color.Palette{color.White, ink}
	for i := range 50 {
		comb := image.NewPaletted(image.Rect(0, 0, 240, 80), palette)
		for x := 40; x < 200; x += 26 {
			for y := range 80 {
				comb.SetColorIndex(x, y, 1)
			}
		}
		bent := bend(comb, random(challenge.Seed{byte(i)}, "picture"))
		var apart []int
		for x, last := 0, 0; x < 240; x++ {
			if bent.ColorIndexAt(x, 40) == 1 && (x == 0 || bent.ColorIndexAt(x-1, 40) == 0) {
				if last > 0 {
					apart = append(apart, x-last)
				}
				last = x
			}
		}
		least, most := math.MaxInt, 0
		for _, d := range apart {
			least, most = min(least, d), max(most, d)
		}
		if least*5 > most*4 || least < 10 {
			t.Errorf("seed %d: lines 26 pixels apart are %v apart", i, apart)
		}
	}
}

func TestBendingLosesNoDigit(t *testing.T) {
	t.Parallel()
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	count := func(m *image.Paletted) (ink int) {
		for _, v := range m.Pix {
			if v != 0 {
				ink++
			}
		}
		return ink
	}
	for i := range 200 {
		seed := challenge.Seed{byte(i)}
		flat := p.picture(seed).Paletted
		before, after := count(flat), count(bend(flat, random(seed, "picture")))
		if after < before*85/100 || after > before*115/100 {
			t.Errorf("seed %d: %d pixels of ink became %d", i, before, after)
		}
	}
}

// The library's recordings are public, and it says them at one speed each. A
// matched filter read 30 of 30 by that.
func TestNoPartOfTheSoundIsAsTheLibrarySaysIt(t *testing.T) {
	t.Parallel()
	p, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	seed := challenge.Seed{7}
	var flat, served bytes.Buffer
	if _, err := captcha.NewAudio(noise(seed), p.digits(seed), "en").WriteTo(&flat); err != nil {
		t.Fatal(err)
	}
	if err := p.speak(&served, seed); err != nil {
		t.Fatal(err)
	}
	const piece = sampleRate / 5 // shorter than any digit
	from, to := flat.Bytes()[waveHeader:], served.Bytes()[waveHeader:]
	if fit := best(from[8*piece:9*piece], from, 8*piece); fit < 0.99 {
		t.Errorf("a piece fits where it comes from by %.2f only: this test measures nothing", fit)
	}
	pieces, sum := 0, 0.0
	for at := 8 * piece; at+4*piece < len(from); at += 3 * piece {
		pieces, sum = pieces+1, sum+best(from[at:at+piece], to, at)
	}
	if mean := sum / float64(pieces); mean > 0.7 {
		t.Errorf("%d pieces of a fifth of a second fit by %.2f on average", pieces, mean)
	}
}

// best is how well a piece fits a sound within half a second of a moment, 0 to 1.
func best(piece, sound []byte, at int) (top float64) {
	for lag := max(0, at-sampleRate/2); lag < at+sampleRate/2 && lag+len(piece) <= len(sound); lag += 1 {
		var ab, aa, bb float64
		for i, v := range piece {
			a, b := float64(v)-128, float64(sound[lag+i])-128
			ab, aa, bb = ab+a*b, aa+a*a, bb+b*b
		}
		top = max(top, ab/math.Sqrt(aa*bb+1))
	}
	return top
}
