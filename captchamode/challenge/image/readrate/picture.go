package main

import "image"

// picturesShown is the number of training images: a few minutes of one core.
const picturesShown = 4000

func networkReads(s setting, n int) (right int, how string, err error) {
	net, err := train(picturesShown, func() (strip, error) {
		samples, err := draw(s, 1)
		if err != nil {
			return strip{}, err
		}
		return lookAt(samples[0]), nil
	})
	if err != nil {
		return 0, "", err
	}
	samples, err := draw(s, n)
	for _, one := range samples {
		if look := lookAt(one); look.read(net, "").text == one.digits {
			right++
		}
	}
	return right, "", err
}

// lookAt converts an image to a strip: at half size, with its columns as positions.
func lookAt(one sample) strip {
	b := one.picture.Bounds()
	black := gray(one.picture)
	half := halve(black)
	digits := len(one.digits)
	apart := apart(b.Dx(), b.Dy(), digits)
	begin := mostInk(black, digits*apart)
	s := strip{long: b.Dx() / 2, step: 2, near: apart/2 - 6, far: apart/2 + 6, digits: one.digits}
	for i := range digits {
		s.guess = append(s.guess, (begin+i*apart+apart/2)/2)
	}
	s.see = func(at int) []float32 {
		cut := make([]float32, rows*cols)
		top := (len(half) - rows) / 2
		for y := range rows {
			for x := range cols {
				if from := at + x - cols/2; from >= 0 && from < len(half[0]) && y+top >= 0 && y+top < len(half) {
					cut[y*cols+x] = half[y+top][from]
				}
			}
		}
		return cut
	}
	return s
}

func mostInk(black *image.Gray, width int) (begin int) {
	b := black.Bounds()
	most := -1
	for from := 0; from+width <= b.Dx(); from++ {
		ink := 0
		for x := from; x < from+width; x++ {
			for y := b.Dy() / 5; y < b.Dy()*4/5; y++ {
				if black.GrayAt(x, y).Y < 128 {
					ink++
				}
			}
		}
		if ink > most {
			most, begin = ink, from
		}
	}
	return begin
}

// apart returns the library's distance between digits, in pixels.
func apart(width, height, digits int) int {
	border := min(width, height) / 4
	wide := float64(width-2*border) / float64(digits)
	if wide*18/12 > float64(height-2*border) {
		wide = 12.0 / 18 * float64(height-2*border)
	}
	return int(wide)
}

func halve(m *image.Gray) [][]float32 {
	b := m.Bounds()
	half := make([][]float32, b.Dy()/2)
	for y := range half {
		half[y] = make([]float32, b.Dx()/2)
		for x := range half[y] {
			for _, p := range [...]image.Point{{2 * x, 2 * y}, {2*x + 1, 2 * y}, {2 * x, 2*y + 1}, {2*x + 1, 2*y + 1}} {
				half[y][x] += 0.25 - float32(m.GrayAt(p.X, p.Y).Y)/1020
			}
		}
	}
	return half
}
