package pages

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
)

// A Brand is what the pages for the public show of their site.
type Brand struct {
	// Name is the site's; empty: authguard's own name and mark are shown.
	Name string
	// Logo is an SVG, PNG or JPEG file that stands in place of the name, which
	// is then its alternative text; empty: there is none.
	Logo []byte
	// Colour is #rrggbb, of buttons and, in shades that can be read, of links;
	// empty: ours.
	Colour string
	// Help is an https: or mailto: URL; empty: there is no such link.
	Help string
}

// LargestLogo is how large a logo's file may be, in bytes.
const LargestLogo = 100 << 10

// An Asset is a file that a look has beside the static ones.
type Asset struct {
	Type string
	Body []byte
	// Policy is the Content-Security-Policy that it is served with; empty: that
	// of all pages.
	Policy string
}

// The names of the assets that a look may have, under /static/.
const (
	logoFile    = "logo"
	coloursFile = "colours.css"
)

// svgPolicy lets an SVG be drawn and nothing else: opened by itself, a script in it
// does not run and nothing is loaded.
const svgPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

// assets are the files of a brand, by name.
func (b Brand) assets() (all map[string]Asset, err error) {
	all = map[string]Asset{}
	if len(b.Logo) > 0 {
		if all[logoFile], err = logo(b.Logo); err != nil {
			return nil, fmt.Errorf("pages.logo: %w", err)
		}
	}
	if b.Colour != "" {
		c, err := newColour(b.Colour)
		if err != nil {
			return nil, fmt.Errorf("pages.color: %w", err)
		}
		all[coloursFile] = Asset{Type: "text/css; charset=utf-8", Body: []byte(c.colours())}
	}
	return all, nil
}

// logo finds out what kind of file a logo is, by what is in it: its name may lie, and
// what is served as a picture must be one.
func logo(body []byte) (Asset, error) {
	if len(body) > LargestLogo {
		return Asset{}, fmt.Errorf("must have at most %d KiB", LargestLogo>>10)
	}
	for kind, decode := range map[string]func(io.Reader) (image.Config, error){"image/png": png.DecodeConfig, "image/jpeg": jpeg.DecodeConfig} {
		if of, err := decode(bytes.NewReader(body)); err == nil {
			if of.Width > 4096 || of.Height > 4096 {
				return Asset{}, fmt.Errorf("must have at most 4096 × 4096 points, not %d × %d", of.Width, of.Height)
			}
			return Asset{Type: kind, Body: body}, nil
		}
	}
	if isSVG(body) {
		return Asset{Type: "image/svg+xml", Body: body, Policy: svgPolicy}, nil
	}
	return Asset{}, errors.New("must be an SVG, PNG or JPEG file")
}

// isSVG reports whether the outermost element of an XML document is an SVG's.
func isSVG(body []byte) bool {
	d := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		if e, ok := token.(xml.StartElement); ok {
			return e.Name.Local == "svg" && e.Name.Space == "http://www.w3.org/2000/svg"
		}
	}
}
