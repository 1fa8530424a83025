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

// A Brand is the site's appearance on public pages.
type Brand struct {
	// Name is the site's name; empty shows authguard's own name and mark.
	Name string
	// Logo is an SVG, PNG or JPEG file shown instead of Name, which becomes its alternative text; empty for none.
	Logo []byte
	// Colour is #rrggbb, for buttons and, in readable shades, for links; empty for the default.
	Colour string
	// Help is an https: or mailto: URL; empty for no link.
	Help string
	// Forgot is the https: or mailto: URL where users ask for a new password; empty for no link.
	Forgot string
}

// LargestLogo is the size limit of a logo in bytes.
const LargestLogo = 100 << 10

// An Asset is a file under /static/ that belongs to a look.
type Asset struct {
	Type string
	Body []byte
	// Policy is its Content-Security-Policy; empty for that of all pages.
	Policy string
}

const (
	logoFile    = "logo"
	coloursFile = "colours.css"
)

// svgPolicy stops scripts and requests when a browser opens the SVG by itself.
const svgPolicy = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

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

// logo detects the type by content, because a file name can lie about it.
func logo(body []byte) (Asset, error) {
	if len(body) > LargestLogo {
		return Asset{}, fmt.Errorf("must have at most %d KiB", LargestLogo>>10)
	}
	for kind, decode := range map[string]func(io.Reader) (image.Config, error){"image/png": png.DecodeConfig,
		"image/jpeg": jpeg.DecodeConfig} {
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

// isSVG reports whether the root element of an XML document is svg.
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
