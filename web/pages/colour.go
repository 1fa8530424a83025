package pages

import (
	"encoding/hex"
	"fmt"
	"math"
	"strings"
)

// A colour is a color: red, green and blue, each from 0 to 1.
type colour [3]float64

func newColour(text string) (c colour, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "#"))
	if err != nil || len(b) != 3 || text[0] != '#' {
		return c, fmt.Errorf("must be a color such as #0f665e, not %.20q", text)
	}
	for i := range c {
		c[i] = float64(b[i]) / 255
	}
	return c, nil
}

func (c colour) String() string {
	var b [3]byte
	for i := range b {
		b[i] = byte(math.Round(c[i] * 255))
	}
	return "#" + hex.EncodeToString(b[:])
}

// luminance is WCAG 2.2's relative luminance.
func (c colour) luminance() float64 {
	linear := func(v float64) float64 {
		if v <= 0.04045 {
			return v / 12.92
		}
		return math.Pow((v+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast is WCAG 2.2's contrast ratio, from 1 to 21.
func contrast(a, b colour) float64 {
	light, dark := a.luminance(), b.luminance()
	return (max(light, dark) + 0.05) / (min(light, dark) + 0.05)
}

func (c colour) towards(other colour, part float64) (mixed colour) {
	for i := range c {
		mixed[i] = c[i] + (other[i]-c[i])*part
	}
	return mixed
}

var black, white = colour{}, colour{1, 1, 1}

// readable is the contrast that text needs (WCAG 2.2, 1.4.3, AA), plus a margin for rounding colors to bytes.
const readable = 4.55

// shade mixes c with black or white until it is readable on a background.
func (c colour) shade(with, ground colour) colour {
	for part := 0.0; part < 1; part += 1.0 / 64 {
		if mixed := c.towards(with, part); contrast(mixed, ground) >= readable {
			return mixed
		}
	}
	return with
}

// The backgrounds of links and lines in authguard.css: the darkest light one and the lightest dark one.
var lightGround, darkGround = colour{0xea / 255.0, 0xf3 / 255.0, 0xf3 / 255.0}, colour{0x18 / 255.0, 0x2a / 255.0,
	0x2a / 255.0}

// colours returns a style sheet with the site's color. Buttons have it unchanged, with black or white text, one of
// which is readable. Links, lines and the focus have a readable shade, darker in light mode and lighter in dark mode.
func (c colour) colours() string {
	on, away := white, black
	if contrast(c, black) > contrast(c, white) {
		on, away = black, white
	}
	scheme := func(with, ground colour) string {
		accent := c.shade(with, ground)
		return fmt.Sprintf(":root { --accent: %v; --accent-deep: %v; --on-accent: %v; --fill: %v; --fill-deep: %v; "+
			"--on-fill: %v; }",
			accent, accent.towards(with, 0.3), ground, c, c.towards(away, 0.15), on)
	}
	return scheme(black, lightGround) + "\n@media (prefers-color-scheme: dark) {\n  " + scheme(white, darkGround) + "\n}\n"
}
