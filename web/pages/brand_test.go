package pages

import (
	"bytes"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"authguard/web/texts"
)

// Whatever the site's colour is, what is written in it, on it and beside it can be
// read (WCAG 2.2, 1.4.3, AA), by day and by night, and under the mouse.
func TestEveryColourCanBeRead(t *testing.T) {
	t.Parallel()
	part := regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`)
	for r := 0; r <= 255; r += 15 {
		for g := 0; g <= 255; g += 15 {
			for b := 0; b <= 255; b += 15 {
				c := colour{float64(r) / 255, float64(g) / 255, float64(b) / 255}
				sheets := strings.Split(c.colours(), "@media")
				for i, ground := range []string{"#eaf3f3", "#182a2a"} {
					of := map[string]colour{}
					for _, m := range part.FindAllStringSubmatch(sheets[i], -1) {
						of[m[1]], _ = newColour(m[2])
					}
					on, _ := newColour(ground)
					for what, ratio := range map[string]float64{
						"links": contrast(of["accent"], on), "links under the mouse": contrast(of["accent-deep"], on),
						"the mark": contrast(of["accent"], of["on-accent"]), "buttons": contrast(of["fill"], of["on-fill"]), "buttons under the mouse": contrast(of["fill-deep"], of["on-fill"]),
					} {
						if ratio < 4.5 {
							t.Fatalf("%v on %s: %s have a contrast of %.2f", c, ground, what, ratio)
						}
					}
					if of["fill"] != c {
						t.Fatalf("buttons are %v, not %v", of["fill"], c)
					}
				}
			}
		}
	}
}

// The grounds that colours are measured against are the worst of the style sheet.
func TestTheGroundsAreThoseOfTheStyleSheet(t *testing.T) {
	t.Parallel()
	css := read(t, "../static/authguard.css")
	light, dark, _ := strings.Cut(css, "prefers-color-scheme: dark")
	dark, _, _ = strings.Cut(dark, "Ground")
	for _, scheme := range []struct {
		css    string
		ground colour
		mixed  colour
	}{{light, lightGround, black}, {dark, darkGround, white}} {
		for _, m := range regexp.MustCompile(`--(?:paper|sheet|sunk|calm-wash): (#[0-9a-f]{6});`).FindAllStringSubmatch(scheme.css, -1) {
			c, err := newColour(m[1])
			if err != nil || contrast(c, scheme.mixed) < contrast(scheme.ground, scheme.mixed)-0.001 {
				t.Errorf("%s is nearer to the shades than %v, or %v", m[1], scheme.ground, err)
			}
		}
	}
}

func picture(t *testing.T, encode func(*bytes.Buffer, image.Image) error, side int) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := encode(&b, image.NewGray(image.Rect(0, 0, side, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestALogoIsWhatItsBytesSay(t *testing.T) {
	t.Parallel()
	asPNG := func(b *bytes.Buffer, i image.Image) error { return png.Encode(b, i) }
	asJPEG := func(b *bytes.Buffer, i image.Image) error { return jpeg.Encode(b, i, nil) }
	asGIF := func(b *bytes.Buffer, i image.Image) error { return gif.Encode(b, i, nil) }
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"/>`
	for _, tc := range []struct {
		name string
		file []byte
		want string
	}{
		{"png", picture(t, asPNG, 10), "image/png"},
		{"jpeg", picture(t, asJPEG, 10), "image/jpeg"},
		{"svg", []byte("<!-- made by hand -->\n" + svg), "image/svg+xml"},
		{"gif", picture(t, asGIF, 10), "must be an SVG, PNG or JPEG file"},
		{"html", []byte("<html><body>" + svg), "must be an SVG, PNG or JPEG file"},
		{"text", []byte("logo"), "must be an SVG, PNG or JPEG file"},
		{"an svg of nobody's", []byte("<svg/>"), "must be an SVG, PNG or JPEG file"},
		{"wide", picture(t, asPNG, 5000), "must have at most 4096 × 4096 points, not 5000 × 1"},
		{"large", append([]byte(svg), make([]byte, LargestLogo)...), "must have at most 100 KiB"},
	} {
		a, err := logo(tc.file)
		if got := a.Type; err == nil && got != tc.want || err != nil && err.Error() != tc.want {
			t.Errorf("%s: %s, %v", tc.name, got, err)
		}
		if err == nil && (a.Policy != "") != (tc.name == "svg") {
			t.Errorf("%s is served with %q", tc.name, a.Policy)
		}
	}
}

func TestABrandIsOnEveryPageButTheAdministrations(t *testing.T) {
	t.Parallel()
	set := texts.Standard()
	svg := []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`)
	page := newLook(t, Brand{Name: `A&B "<i>`, Help: "https://example.org/help", Logo: svg, Colour: "#ff8800"}, set).For("en")
	for name, draw := range public(page) {
		doc := parse(t, draw)
		said := inner(doc) + attr(elements(doc, "img")[0], "alt")
		if attr(elements(doc, "img")[0], "class") != "logo" || !strings.Contains(said, `A&B "<i>`) || strings.Contains(said, "authguard") {
			t.Errorf("%s does not bear the site's name", name)
		}
		var links, sheets []string
		for _, n := range elements(doc, "a", "link") {
			links = append(links, attr(n, "href"))
			if attr(n, "rel") == "stylesheet" {
				sheets = append(sheets, attr(n, "href"))
			}
		}
		if !strings.Contains(strings.Join(links, " "), "https://example.org/help") || len(sheets) != 2 || !strings.HasSuffix(sheets[1], "/static/colours.css") {
			t.Errorf("%s: %v", name, links)
		}
	}
	if _, err := NewLook(Brand{Colour: "red"}, set); err == nil || !strings.Contains(err.Error(), "pages.color: must be a color") {
		t.Errorf("red: %v", err)
	}
}
