package shared

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"authguard/guard"
)

// Nodes are failed attempts with new keys by one node with one core, and by two such nodes.
type Nodes struct {
	One, Two Figures
}

// Share is the load of Redis's core, from 0 to 1.
func (f *Figures) Share() float64 { return f.Rate * f.CPU / 1e6 }

// measureNodes runs nodes as separate processes with a core each: one, then two, in turn.
func measureNodes(ctx context.Context, s *server, p Plan) (n Nodes, err error) {
	first, err := launch(ctx, s, 0)
	if err != nil {
		return n, err
	}
	defer first.end()
	second, err := launch(ctx, s, 1)
	if err != nil {
		return n, err
	}
	defer second.end()
	if _, err := together(ctx, s, p.Takes/2, first, second); err != nil { // to warm up
		return n, err
	}
	var ones, twos []Figures
	for range p.Rounds {
		one, err := together(ctx, s, p.Takes, first)
		if err != nil {
			return n, err
		}
		two, err := together(ctx, s, p.Takes, first, second)
		if err != nil {
			return n, err
		}
		ones, twos = append(ones, one), append(twos, two)
	}
	return Nodes{middle(ones), middle(twos)}, nil
}

// together has nodes make attempts at the same time.
func together(ctx context.Context, s *server, takes time.Duration, nodes ...*process) (f Figures, err error) {
	before, err := s.read(ctx)
	if err != nil {
		return f, err
	}
	for _, n := range nodes {
		if _, err := fmt.Fprintln(n.in, takes.Milliseconds()); err != nil {
			return f, err
		}
	}
	var made float64
	for _, n := range nodes {
		one, err := n.answer()
		if err != nil {
			return f, err
		}
		made += one
	}
	after, err := s.read(ctx)
	return Figures{
		Rate: made / takes.Seconds(), Scripts: (after.scripts - before.scripts) / made,
		In: (after.in - before.in) / made, Out: (after.out - before.out) / made, CPU: 1e6 * (after.cpu - before.cpu) / made,
	}, err
}

// A process is a node that reads durations, makes attempts for so long, and writes their numbers.
type process struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// NodeCommand is the first argument with which the program is a node. NodeMain gets the others.
const NodeCommand = "node"

func launch(ctx context.Context, s *server, number int) (*process, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.CommandContext(ctx, program, NodeCommand, s.addr, strconv.Itoa(number))}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), "GOMAXPROCS=1"), os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	return p, p.cmd.Start()
}

func (p *process) answer() (float64, error) {
	if !p.out.Scan() {
		return 0, errors.Join(errors.New("a node ended early"), p.out.Err())
	}
	return strconv.ParseFloat(p.out.Text(), 64)
}

func (p *process) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait()
}

// NodeMain is a node. It reads milliseconds from in until in ends.
func NodeMain(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	number, err := strconv.Atoi(strings.Join(args[1:], ""))
	if err != nil {
		return err
	}
	n, err := newNode(args[0], how{prefix: "t:", policy: guard.DefaultPolicy()})
	if err != nil {
		return err
	}
	defer n.Close()
	next := new(atomic.Int64)
	next.Store(int64(number) << 23) // half of the networks of addressOf
	for lines := bufio.NewScanner(in); lines.Scan(); {
		ms, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		var made int64
		err = n.whole(func() error {
			first := next.Load()
			err := inParallel(time.Duration(ms)*time.Millisecond, func() error {
				i := int(next.Add(1))
				_, err := n.attempt(ctx, attempt{account: i, address: i}, guard.Failed)
				return err
			})
			made = next.Load() - first
			return err
		})
		if err != nil {
			return err
		}
		fmt.Fprintln(out, made)
	}
	return nil
}
