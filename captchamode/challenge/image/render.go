package image

import (
	"bytes"
	"fmt"
	"image/color"
	"image/png"
	"io"

	"github.com/dchest/captcha"

	"authguard/captchamode/challenge"
)

func (p *Provider) draw(w io.Writer, seed challenge.Seed) error {
	picture := p.picture(seed)
	flatten(picture.Palette)
	if err := png.Encode(w, bend(picture.Paletted, random(seed, "picture"))); err != nil {
		return fmt.Errorf("image: writing the picture: %w", err)
	}
	return nil
}

func (p *Provider) picture(seed challenge.Seed) *captcha.Image {
	return captcha.NewImage(noise(seed), p.digits(seed), p.config.Width, p.config.Height)
}

func (p *Provider) speak(w io.Writer, seed challenge.Seed) error {
	voice := captcha.NewAudio(noise(seed), p.digits(seed), p.config.Lang)
	var wave bytes.Buffer
	if _, err := voice.WriteTo(&wave); err != nil {
		return fmt.Errorf("image: making the sound: %w", err)
	}
	if _, err := w.Write(waver(wave.Bytes(), random(seed, "sound"))); err != nil {
		return fmt.Errorf("image: writing the sound: %w", err)
	}
	return nil
}

// flatten reduces the image to two colors. The library's background is transparent, which makes digits illegible on
// dark pages. Its digits and dots have different colors, which lets a program separate them.
func flatten(palette color.Palette) {
	for i := range palette {
		palette[i] = ink
	}
	palette[0] = color.White
}

var ink = color.RGBA{R: 0x20, G: 0x20, B: 0x50, A: 0xff}

// tryDrawing reports whether the digits fit. The library panics if they do not, depending only on the sizes.
func (p *Provider) tryDrawing() (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("image: %d digits do not fit into %d by %d pixels",
				p.config.Digits, p.config.Width, p.config.Height)
		}
	}()
	p.picture(challenge.Seed{})
	return nil
}
