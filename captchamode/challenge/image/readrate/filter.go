package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"math/bits"
	"math/cmplx"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func filterReads(s setting, n int) (right int, how string, err error) {
	voices, err := recordings()
	if err != nil {
		return 0, "", err
	}
	f := filter{voices: voices}
	for range n {
		wav, digits, err := speak(s)
		if err != nil {
			return 0, "", err
		}
		if f.read(wav, s.digits) == digits {
			right++
		}
	}
	return right, "", nil
}

// recordings are the library's English voice, by digit, from its published source.
func recordings() (digits [][]byte, err error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/dchest/captcha").Output()
	if err != nil {
		return nil, fmt.Errorf("finding the library's source: %w", err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "sounds.go"), nil, 0)
	if err != nil {
		return nil, err
	}
	ast.Inspect(file, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if key, ok := pair.Key.(*ast.BasicLit); ok && key.Value == `"en"` {
			for _, one := range pair.Value.(*ast.CompositeLit).Elts {
				digits = append(digits, pcm(one.(*ast.CompositeLit)))
			}
		}
		return false
	})
	if len(digits) != 10 {
		return nil, fmt.Errorf("the library's source has %d recordings of English digits, not 10", len(digits))
	}
	return digits, nil
}

func pcm(list *ast.CompositeLit) []byte {
	out := make([]byte, len(list.Elts))
	for i, e := range list.Elts {
		v, _ := strconv.ParseUint(e.(*ast.BasicLit).Value, 0, 8)
		out[i] = byte(v)
	}
	return out
}

// A filter contains the recordings to search for.
type filter struct{ voices [][]byte }

// The library plays a digit at 0.9 to 1.2 times its length; one percent more, and the waves no longer match.
const (
	slowest  = 1.2
	fastest  = 0.9
	fineness = 0.01
)

// read returns the digits at this many best matches, at least 0.9 s apart.
func (f *filter) read(wav []byte, digits int) string {
	sound := wav[44:]
	size := 1
	for size < len(sound) {
		size *= 2
	}
	spectrum := fourier(wave(sound, size), false)
	fit, said := make([]float64, len(sound)), make([]byte, len(sound))
	for digit, voice := range f.voices {
		for speed := fastest; speed <= slowest; speed += fineness {
			shape := wave(stretch(voice, speed), size)
			loud := 0.0
			for _, v := range shape {
				loud += real(v) * real(v)
			}
			shape = fourier(shape, false)
			for i, v := range shape {
				shape[i] = spectrum[i] * complex(real(v), -imag(v))
			}
			for at, v := range fourier(shape, true)[:len(sound)] {
				if v := real(v) / math.Sqrt(loud); v > fit[at] {
					fit[at], said[at] = v, byte('0'+digit)
				}
			}
		}
	}
	return peaks(fit, said, digits)
}

func peaks(fit []float64, said []byte, count int) string {
	var found []int
	for range count {
		top := -1
		for at, v := range fit {
			if (top < 0 || v > fit[top]) &&
				!slices.ContainsFunc(found, func(f int) bool { return max(at-f, f-at) < rate*9/10 }) {
				top = at
			}
		}
		if top < 0 {
			break
		}
		found = append(found, top)
	}
	slices.Sort(found)
	text := ""
	for _, at := range found {
		text += string(rune(said[at]))
	}
	return text
}

// stretch slows a recording down as the library does: it repeats some samples.
func stretch(voice []byte, speed float64) []byte {
	out := make([]byte, int(float64(len(voice))*speed))
	for i := range out {
		out[i] = voice[min(int(float64(i)/speed), len(voice)-1)]
	}
	return out
}

func wave(pcm []byte, size int) []complex128 {
	out := make([]complex128, size)
	for i, v := range pcm {
		out[i] = complex(float64(v)-128, 0)
	}
	return out
}

// fourier transforms in place (Cooley and Tukey, 1965); the inverse does not divide.
func fourier(v []complex128, back bool) []complex128 {
	shift := 64 - bits.Len(uint(len(v)-1))
	for i := range v {
		if j := int(bits.Reverse64(uint64(i)) >> shift); i < j {
			v[i], v[j] = v[j], v[i]
		}
	}
	turn := -2 * math.Pi
	if back {
		turn = -turn
	}
	for half := 1; half < len(v); half *= 2 {
		root := cmplx.Rect(1, turn/float64(2*half))
		w := complex(1, 0)
		for k := range half {
			for from := k; from < len(v); from += 2 * half {
				a, b := v[from], v[from+half]*w
				v[from], v[from+half] = a+b, a-b
			}
			w *= root
		}
	}
	return v
}
