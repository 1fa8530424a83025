package main

import (
	"image"
	"image/color"
)

// A cleaning is one step of preparing an image for recognition.
type cleaning struct {
	name  string
	apply func(image.Image) *image.Gray
}

var cleanings = []cleaning{
	{"enlarged ×3", func(m image.Image) *image.Gray { return pad(blur(enlarge(gray(m), 3), 2)) }},
	{"main colour, despeckled ×3", func(m image.Image) *image.Gray {
		return pad(threshold(blur(enlarge(median(mainColour(m), 1), 3), 3), 128))
	}},
	{"despeckled", func(m image.Image) *image.Gray { return pad(median(threshold(gray(m), 200), 1)) }},
	{"despeckled ×3", func(m image.Image) *image.Gray {
		return pad(threshold(blur(enlarge(median(threshold(gray(m), 200), 1), 3), 3), 128))
	}},
	{"despeckled twice ×2", func(m image.Image) *image.Gray {
		return pad(blur(enlarge(median(median(threshold(gray(m), 200), 1), 2), 2), 2))
	}},
	{"dots closed", func(m image.Image) *image.Gray {
		return pad(blur(enlarge(threshold(blur(threshold(gray(m), 200), 2), 110), 2), 1))
	}},
	{"dots closed more", func(m image.Image) *image.Gray {
		return pad(blur(enlarge(threshold(blur(threshold(gray(m), 200), 3), 100), 2), 1))
	}},
}

func gray(m image.Image) *image.Gray {
	out := image.NewGray(m.Bounds())
	each(out, func(x, y int) uint8 { return color.GrayModel.Convert(m.At(x, y)).(color.Gray).Y })
	return out
}

func each(m *image.Gray, value func(x, y int) uint8) {
	b := m.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			m.SetGray(x, y, color.Gray{Y: value(x, y)})
		}
	}
}

func threshold(m *image.Gray, level uint8) *image.Gray {
	out := image.NewGray(m.Bounds())
	each(out, func(x, y int) uint8 {
		if m.GrayAt(x, y).Y >= level {
			return 255
		}
		return 0
	})
	return out
}

// mainColour keeps the most frequent color except white: the digits, without most dots of the library's images.
func mainColour(m image.Image) *image.Gray {
	seen := map[color.RGBA]int{}
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(m.At(x, y)).(color.RGBA) }
	out := image.NewGray(m.Bounds())
	each(out, func(x, y int) uint8 { seen[at(x, y)]++; return 255 })
	delete(seen, color.RGBA{255, 255, 255, 255})
	var main color.RGBA
	for c, n := range seen {
		if n > seen[main] {
			main = c
		}
	}
	each(out, func(x, y int) uint8 {
		if at(x, y) == main {
			return 0
		}
		return 255
	})
	return out
}

// median removes lines thinner than half the square around a pixel.
func median(m *image.Gray, radius int) *image.Gray {
	return window(m, radius, func(sum, count int) uint8 {
		if sum*2 >= count*255 {
			return 255
		}
		return 0
	})
}

func blur(m *image.Gray, radius int) *image.Gray {
	return window(m, radius, func(sum, count int) uint8 { return uint8(sum / count) })
}

func window(m *image.Gray, radius int, value func(sum, count int) uint8) *image.Gray {
	out := image.NewGray(m.Bounds())
	each(out, func(x, y int) uint8 {
		sum, count := 0, 0
		around := image.Rect(x-radius, y-radius, x+radius+1, y+radius+1).Intersect(m.Bounds())
		for v := around.Min.Y; v < around.Max.Y; v++ {
			for u := around.Min.X; u < around.Max.X; u++ {
				sum, count = sum+int(m.GrayAt(u, v).Y), count+1
			}
		}
		return value(sum, count)
	})
	return out
}

func enlarge(m *image.Gray, times int) *image.Gray {
	b := m.Bounds()
	out := image.NewGray(image.Rect(0, 0, b.Dx()*times, b.Dy()*times))
	each(out, func(x, y int) uint8 { return m.GrayAt(x/times, y/times).Y })
	return out
}

// pad adds the white margin that tesseract needs.
func pad(m *image.Gray) *image.Gray {
	const margin = 20
	b := m.Bounds()
	out := image.NewGray(image.Rect(0, 0, b.Dx()+2*margin, b.Dy()+2*margin))
	each(out, func(x, y int) uint8 {
		if at := image.Pt(x-margin, y-margin); at.In(b) {
			return m.GrayAt(at.X, at.Y).Y
		}
		return 255
	})
	return out
}
