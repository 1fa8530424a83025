package image_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"image/color"
	"image/png"
	"strings"
	"sync"
	"testing"
	"unicode"

	"authguard/captchamode/challenge"
	"authguard/captchamode/challenge/image"
)

func provider(t testing.TB, config image.Config) *image.Provider {
	t.Helper()
	p, err := image.New(config)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func render(t testing.TB, p *image.Provider, seed challenge.Seed, ext string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := p.Render(&out, seed, ext); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func check(t testing.TB, p *image.Provider, seed challenge.Seed, answer string) bool {
	t.Helper()
	right, err := p.Check(t.Context(), challenge.Task{Seed: seed}, answer)
	if err != nil {
		t.Fatal(err)
	}
	return right
}

func TestPeopleTypeDigitsInManyWays(t *testing.T) {
	t.Parallel()
	p := provider(t, image.Config{})
	seed := challenge.Seed{1}
	s := p.Solution(seed)
	in := func(zero rune) string {
		return strings.Map(func(r rune) rune { return zero + r - '0' }, s)
	}
	for name, answer := range map[string]string{
		"as it is":       s,
		"around":         "  " + s + "\t\n",
		"grouped":        s[:3] + " " + s[3:],
		"apart":          strings.Join(strings.Split(s, ""), " "),
		"no-break space": s[:3] + "\u00a0" + s[3:],
		"wide space":     s[:3] + "\u3000" + s[3:],
		"full width":     in('０'),
		"Arabic":         in('٠'),
		"Persian":        in('۰'),
		"Devanagari":     in('०'),
		"Adlam":          in('𞥐'),
		"mixed":          in('０')[:3*3] + s[3:],
	} {
		if !check(t, p, seed, answer) {
			t.Errorf("%s: %q was not accepted", name, answer)
		}
	}
}

func TestAnythingElseIsWrongAndNoError(t *testing.T) {
	t.Parallel()
	p := provider(t, image.Config{})
	seed := challenge.Seed{1}
	s := p.Solution(seed)
	for _, answer := range []string{
		"", " ", s[1:], s + "0", "0" + s, s[1:] + s[:1] + "1", s + "x", s + "\x00", "-" + s, "+" + s,
		s[:3] + "." + s[3:], "\xff" + s, "½" + s, "①" + s, s + strings.Repeat(" ", 64), "e30=",
	} {
		if check(t, p, seed, answer) {
			t.Errorf("%q was accepted", answer)
		}
	}
}

// digitValue in answer.go relies on this.
func TestUnicodeKeepsTheDigitsOfAScriptTogether(t *testing.T) {
	t.Parallel()
	claim := func(lo, hi, stride uint32) {
		if stride != 1 || (hi-lo+1)%10 != 0 {
			t.Errorf("%U to %U by %d", lo, hi, stride)
		}
	}
	for _, r := range unicode.Nd.R16 {
		claim(uint32(r.Lo), uint32(r.Hi), uint32(r.Stride))
	}
	for _, r := range unicode.Nd.R32 {
		claim(r.Lo, r.Hi, r.Stride)
	}
}

func TestEveryDigitIsEquallyLikely(t *testing.T) {
	t.Parallel()
	p := provider(t, image.Config{})
	const n = 20_000
	var seen [6][10]int
	for i := range n {
		var seed challenge.Seed
		// Any well-mixed 64 bits will do: seeds are pseudo-random.
		binary.BigEndian.PutUint64(seed[:], uint64(i)*0x9e3779b97f4a7c15)
		for at, r := range p.Solution(seed) {
			seen[at][r-'0']++
		}
	}
	for at, digits := range seen {
		for digit, count := range digits {
			if count < n/10*9/10 || count > n/10*11/10 {
				t.Errorf("digit %d at %d: %d of %d", digit, at, count, n)
			}
		}
	}
}

func TestThePictureIsStableAndOpaque(t *testing.T) {
	t.Parallel()
	p := provider(t, image.Config{})
	seed := challenge.Seed{2}
	drawn := render(t, p, seed, "png")
	if !bytes.Equal(drawn, render(t, p, seed, "png")) {
		t.Error("one seed was drawn in two ways")
	}
	picture, err := png.Decode(bytes.NewReader(drawn))
	if err != nil {
		t.Fatal(err)
	}
	if b := picture.Bounds(); b.Dx() != 240 || b.Dy() != 80 {
		t.Errorf("the picture is %v", b)
	}
	colours := map[color.RGBA]bool{}
	for y := range 80 {
		for x := range 240 {
			colours[color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA)] = true
		}
	}
	if len(colours) != 2 || !colours[color.RGBA{255, 255, 255, 255}] {
		t.Errorf("the colours are %v: want opaque white and one more", colours)
	}
}

func TestTheFilesDoNotNameTheDigits(t *testing.T) {
	t.Parallel()
	p := provider(t, image.Config{})
	seed := challenge.Seed{3}
	for _, ext := range []string{"png", "wav"} {
		if bytes.Contains(render(t, p, seed, ext), []byte(p.Solution(seed))) {
			t.Errorf("the %s contains its solution", ext)
		}
	}
}

func TestEveryLanguageSpeaks(t *testing.T) {
	t.Parallel()
	seed := challenge.Seed{4}
	spoken := map[string]bool{}
	for _, lang := range []string{"en", "ja", "pt", "ru", "zh"} {
		p := provider(t, image.Config{Lang: lang})
		sound := render(t, p, seed, "wav")
		if !bytes.HasPrefix(sound, []byte("RIFF")) || !bytes.Equal(sound[8:12], []byte("WAVE")) {
			t.Errorf("%s: no WAVE file", lang)
		}
		if size := binary.LittleEndian.Uint32(sound[4:]); int(size) != len(sound)-8 {
			t.Errorf("%s: says %d bytes and has %d", lang, size, len(sound)-8)
		}
		if !bytes.Equal(sound, render(t, p, seed, "wav")) {
			t.Errorf("%s: one seed was spoken in two ways", lang)
		}
		spoken[string(sound)] = true
	}
	if len(spoken) != 5 {
		t.Errorf("five languages sound like %d", len(spoken))
	}
}

func TestRenderingIsSafeInParallel(t *testing.T) {
	t.Parallel()
	p := provider(t, image.Config{})
	want := render(t, p, challenge.Seed{5}, "png")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			var out bytes.Buffer
			if err := p.Render(&out, challenge.Seed{5}, "png"); err != nil || !bytes.Equal(out.Bytes(), want) {
				t.Errorf("drawn differently in parallel: %v", err)
			}
		})
	}
	group.Wait()
}

func TestConfigsThatCannotBeDrawnAreErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []image.Config{
		{Digits: 3}, {Digits: 9}, {Digits: -1}, {Width: 240}, {Height: 80}, {Width: 10, Height: 10},
		{Width: 240, Height: 5000}, {Lang: "de"},
	} {
		if p, err := image.New(c); err == nil || p != nil {
			t.Errorf("%+v was accepted", c)
		}
	}
	p := provider(t, image.Config{})
	if err := p.Render(new(bytes.Buffer), challenge.Seed{}, "gif"); err == nil {
		t.Error("rendered a gif")
	}
}

func FuzzAnswer(f *testing.F) {
	p := provider(f, image.Config{})
	seed := challenge.Seed{6}
	f.Add(p.Solution(seed))
	f.Add("１２３ ４５６")
	f.Fuzz(func(t *testing.T, answer string) {
		var digits strings.Builder
		for _, r := range answer {
			if r >= '0' && r <= '9' {
				digits.WriteRune(r)
			}
		}
		plain := !strings.ContainsFunc(answer, func(r rune) bool { return r > 127 })
		if check(t, p, seed, answer) && plain && digits.String() != p.Solution(seed) {
			t.Fatalf("%q was accepted", answer)
		}
	})
}

func BenchmarkRender(b *testing.B) {
	p := provider(b, image.Config{})
	for _, ext := range []string{"png", "wav"} {
		b.Run(ext, func(b *testing.B) {
			size := 0
			for i := 0; b.Loop(); i++ {
				var seed challenge.Seed
				copy(seed[:], fmt.Sprint(i))
				size += len(render(b, p, seed, ext))
			}
			b.ReportMetric(float64(size)/float64(b.N), "bytes")
		})
	}
}
