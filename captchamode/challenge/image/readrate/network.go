package main

import (
	"math"
	"math/rand/v2"
)

// The network is as small as possible: two convolutional layers with max pooling, one dense layer, and the ten
// digits. It reads a map of rows × cols and is trained with Adam (Kingma and Ba, 2014). Attackers can write one in an
// afternoon.
const (
	rows, cols = 40, 22
	hidden     = 64
	batch      = 32
	none       = 10 // output without a digit
	answers    = 11
)

// A network recognizes one digit.
type network struct {
	first, second convolution
	third, last   dense
	layers        []*weights
	steps         int
}

func newNetwork(random *rand.Rand) *network {
	n := &network{
		first:  newConvolution(random, 1, 8, rows, cols, 5),
		second: newConvolution(random, 8, 24, (rows-4)/2, (cols-4)/2, 3),
	}
	n.third = newDense(random, n.second.pooled(), hidden)
	n.last = newDense(random, hidden, answers)
	n.layers = []*weights{&n.first.weights, &n.second.weights, &n.third.weights, &n.last.weights}
	return n
}

// read returns the log probability of each output.
func (n *network) read(in []float32) [answers]float64 {
	out := n.last.forward(relu(n.third.forward(n.second.forward(n.first.forward(in)))))
	var likely [answers]float64
	top, sum := float64(out[0]), 0.0
	for _, v := range out {
		top = max(top, float64(v))
	}
	for _, v := range out {
		sum += math.Exp(float64(v) - top)
	}
	for i, v := range out {
		likely[i] = float64(v) - top - math.Log(sum)
	}
	return likely
}

// learn trains with one digit, and updates the weights once per batch.
func (n *network) learn(in []float32, digit byte, rate float64) {
	likely := n.read(in)
	wrong := make([]float32, answers)
	for i, l := range likely {
		wrong[i] = float32(math.Exp(l))
	}
	wrong[digit]--
	back := n.last.backward(wrong)
	for i := range back {
		if n.last.in[i] == 0 {
			back[i] = 0
		}
	}
	n.first.backward(n.second.backward(n.third.backward(back)))
	if n.steps++; n.steps%batch == 0 {
		for _, w := range n.layers {
			w.adam(rate, n.steps/batch)
		}
	}
}

type weights struct {
	value, change, mean, square []float32
}

func newWeights(random *rand.Rand, n, inputs int) weights {
	w := weights{make([]float32, n), make([]float32, n), make([]float32, n), make([]float32, n)}
	for i := range w.value {
		w.value[i] = float32(random.NormFloat64() * math.Sqrt(2/float64(inputs)))
	}
	return w
}

func (w *weights) adam(rate float64, step int) {
	rate *= math.Sqrt(1-math.Pow(0.999, float64(step))) / (1 - math.Pow(0.9, float64(step)))
	for i, c := range w.change {
		c /= batch
		w.mean[i] += (c - w.mean[i]) * 0.1
		w.square[i] += (c*c - w.square[i]) * 0.001
		w.value[i] -= float32(rate) * w.mean[i] / (float32(math.Sqrt(float64(w.square[i]))) + 1e-8)
		w.change[i] = 0
	}
}

// A dense layer has a weight for each pair of input and output, and a bias for each output.
type dense struct {
	weights
	in   []float32
	outs int
}

func newDense(random *rand.Rand, ins, outs int) dense {
	return dense{weights: newWeights(random, (ins+1)*outs, ins), outs: outs}
}

func (d *dense) forward(in []float32) []float32 {
	d.in = in
	out := make([]float32, d.outs)
	for o := range out {
		w := d.value[o*(len(in)+1):][:len(in)+1]
		out[o] = w[len(in)] + dot(w[:len(in)], in)
	}
	return out
}

func (d *dense) backward(wrong []float32) []float32 {
	back := make([]float32, len(d.in))
	for o, v := range wrong {
		from := o * (len(d.in) + 1)
		add(back, d.value[from:][:len(d.in)], v)
		add(d.change[from:][:len(d.in)], d.in, v)
		d.change[from+len(d.in)] += v
	}
	return back
}

// A convolution applies the same weights to every square of its input, then ReLU and 2×2 max pooling.
type convolution struct {
	weights
	ins, outs, rows, cols, size int

	in     []float32
	chosen []int // index of the maximum of the four; -1: none was above zero
}

func newConvolution(random *rand.Rand, ins, outs, rows, cols, size int) convolution {
	n := ins * size * size
	return convolution{weights: newWeights(random, outs*(n+1), n), ins: ins, outs: outs, rows: rows, cols: cols,
		size: size}
}

func (c *convolution) full() (rows, cols int) { return c.rows - c.size + 1, c.cols - c.size + 1 }

func (c *convolution) pooled() int {
	rows, cols := c.full()
	return c.outs * (rows / 2) * (cols / 2)
}

func (c *convolution) forward(in []float32) []float32 {
	c.in = in
	rows, cols := c.full()
	out := make([]float32, 0, c.pooled())
	c.chosen = c.chosen[:0]
	plane := make([]float32, rows*cols)
	for o := range c.outs {
		w := c.of(c.value, o)
		for i := range plane {
			plane[i] = w[len(w)-1]
		}
		c.each(func(i, y, x, at int) {
			for r := range rows {
				add(plane[r*cols:][:cols], in[(i*c.rows+r+y)*c.cols+x:][:cols], w[at])
			}
		})
		for r := 0; r+1 < rows; r += 2 {
			for x := 0; x+1 < cols; x += 2 {
				best, largest := -1, float32(0)
				for _, at := range [...]int{r*cols + x, r*cols + x + 1, (r+1)*cols + x, (r+1)*cols + x + 1} {
					if plane[at] > largest {
						best, largest = at, plane[at]
					}
				}
				c.chosen = append(c.chosen, best)
				out = append(out, largest)
			}
		}
	}
	return out
}

func (c *convolution) backward(wrong []float32) []float32 {
	rows, cols := c.full()
	back := make([]float32, len(c.in))
	plane := make([]float32, rows*cols)
	each := len(c.chosen) / c.outs
	for o := range c.outs {
		clear(plane)
		w, change := c.of(c.value, o), c.of(c.change, o)
		for i, at := range c.chosen[o*each:][:each] {
			if at >= 0 {
				plane[at] = wrong[o*each+i]
				change[len(change)-1] += plane[at]
			}
		}
		c.each(func(i, y, x, at int) {
			for r := range rows {
				from := (i*c.rows+r+y)*c.cols + x
				change[at] += dot(plane[r*cols:][:cols], c.in[from:][:cols])
				add(back[from:][:cols], plane[r*cols:][:cols], w[at])
			}
		})
	}
	return back
}

func (c *convolution) of(all []float32, out int) []float32 {
	n := c.ins*c.size*c.size + 1
	return all[out*n:][:n]
}

func (c *convolution) each(do func(in, y, x, at int)) {
	at := 0
	for i := range c.ins {
		for y := range c.size {
			for x := range c.size {
				do(i, y, x, at)
				at++
			}
		}
	}
}

func relu(v []float32) []float32 {
	for i := range v {
		v[i] = max(v[i], 0)
	}
	return v
}

func dot(a, b []float32) (sum float32) {
	b = b[:len(a)]
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}

func add(to, what []float32, times float32) {
	what = what[:len(to)]
	for i := range to {
		to[i] += what[i] * times
	}
}
