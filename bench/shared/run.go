package shared

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A Plan is how much is measured.
type Plan struct {
	Rounds int           // of each contender in turn
	Takes  time.Duration // one round
}

// Results are all measurements.
type Results struct {
	Redis   string // its version
	Rows    []Row
	Weights []Weight
	Nodes   Nodes
}

// A Row is one contender's median round.
type Row struct {
	Name  string
	Times int  // attempts per key; 0: other keys
	own   bool // authguard's
	Figures
}

// Figures are those of one round. All but Rate are per attempt.
type Figures struct {
	Rate    float64 // attempts per second
	Trips   float64 // round trips, including the nodes' heartbeat
	Scripts float64 // scripts in Redis
	In, Out float64 // bytes that Redis received and sent
	CPU     float64 // CPU time of Redis in microseconds
	Own     float64 // CPU time of this process in microseconds
}

// Floor is the rate of the script of three INCRs with a number of attempts per key.
func (r *Results) Floor(times int) float64 { return r.row(threeINCR, times).Rate }

// RedisRate is the rate of redis_rate with a number of attempts per key.
func (r *Results) RedisRate(times int) float64 { return r.row(redisRate, times).Rate }

// Full is the row of attempts at a limit that the node knows to be full.
func (r *Results) Full() *Row { return r.row(FullLimit, 0) }

// Compared are authguard's rows that are compared with the floor.
func (r *Results) Compared() (rows []Row) {
	for _, row := range r.Rows {
		if row.own && row.Name != FullLimit {
			rows = append(rows, row)
		}
	}
	return rows
}

func (r *Results) row(name string, times int) *Row {
	for i := range r.Rows {
		if r.Rows[i].Name == name && r.Rows[i].Times == times {
			return &r.Rows[i]
		}
	}
	return new(Row)
}

// Run measures everything.
func Run(ctx context.Context, p Plan, say func(string, ...any)) (r Results, err error) {
	s, err := start(ctx)
	if err != nil {
		return r, err
	}
	defer s.stop()
	r.Redis = s.version(ctx)
	say("Redis: bytes per failure")
	if r.Weights, err = weigh(ctx, s); err != nil {
		return r, err
	}
	if r.Rows, err = race(ctx, s, p, say); err != nil {
		return r, err
	}
	say("Redis: two nodes")
	r.Nodes, err = measureNodes(ctx, s, p)
	return r, err
}

// race opens all contenders and runs their rounds in turn.
func race(ctx context.Context, s *server, p Plan, say func(string, ...any)) (rows []Row, err error) {
	var runners []*runner
	defer func() {
		for _, r := range runners {
			r.close()
		}
	}()
	say("Redis: filling")
	for _, c := range contenders() {
		opened, err := c.open(ctx, s, c.times)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		r := &runner{contender: c, counter: opened}
		runners = append(runners, r)
		if _, err := r.turn(ctx, s, p.Takes/2); err != nil { // to warm up
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
	}
	say("Redis: %d rounds", p.Rounds)
	for range p.Rounds {
		for _, r := range runners {
			f, err := r.turn(ctx, s, p.Takes)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.name, err)
			}
			r.rounds = append(r.rounds, f)
		}
	}
	for _, r := range runners {
		rows = append(rows, Row{r.name, r.times, r.own, middle(r.rounds)})
	}
	return rows, nil
}

// A runner is an open contender with its rounds.
type runner struct {
	contender
	counter
	next   atomic.Int64 // attempt
	rounds []Figures
}

// turn is one valid round.
func (r *runner) turn(ctx context.Context, s *server, takes time.Duration) (f Figures, err error) {
	if r.whole == nil {
		return r.round(ctx, s, takes)
	}
	err = r.whole(func() (err error) {
		f, err = r.round(ctx, s, takes)
		return err
	})
	return f, err
}

// round makes attempts as fast as possible for the duration of a round.
func (r *runner) round(ctx context.Context, s *server, takes time.Duration) (f Figures, err error) {
	before, err := s.read(ctx)
	if err != nil {
		return f, err
	}
	first, trips, own, begun := r.next.Load(), r.trips.n.Load(), used(), time.Now()
	err = inParallel(takes, func() error { return r.attempt(ctx, r.key(int(r.next.Add(1)-1))) })
	if err != nil {
		return f, err
	}
	took, made, mine := time.Since(begun).Seconds(), float64(r.next.Load()-first), used()-own
	after, err := s.read(ctx)
	return Figures{
		Rate: made / took, Trips: float64(r.trips.n.Load()-trips) / made, Scripts: (after.scripts - before.scripts) / made,
		In: (after.in - before.in) / made, Out: (after.out - before.out) / made, CPU: 1e6 * (after.cpu - before.cpu) / made,
		Own: 1e6 * mine / made,
	}, err
}

// used is the CPU time of this process in seconds, including the kernel's.
func used() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for this process
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// inParallel calls do from as many goroutines as there are connections, for a time or until it fails.
func inParallel(takes time.Duration, do func() error) error {
	var over atomic.Bool
	defer time.AfterFunc(takes, func() { over.Store(true) }).Stop()
	var all sync.WaitGroup
	errs := make(chan error, connections)
	for range connections {
		all.Go(func() {
			for !over.Load() {
				if err := do(); err != nil {
					over.Store(true)
					errs <- err
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

// middle is the median of every figure.
func middle(rounds []Figures) (f Figures) {
	of := func(figure func(*Figures) float64) float64 {
		var all []float64
		for i := range rounds {
			all = append(all, figure(&rounds[i]))
		}
		return median(all)
	}
	return Figures{
		Rate:    of(func(f *Figures) float64 { return f.Rate }),
		Trips:   of(func(f *Figures) float64 { return f.Trips }),
		Scripts: of(func(f *Figures) float64 { return f.Scripts }),
		In:      of(func(f *Figures) float64 { return f.In }),
		Out:     of(func(f *Figures) float64 { return f.Out }),
		CPU:     of(func(f *Figures) float64 { return f.CPU }),
		Own:     of(func(f *Figures) float64 { return f.Own }),
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
