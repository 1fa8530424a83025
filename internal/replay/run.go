package replay

import (
	"context"
	"sync"
)

const batchSize = 2048

// Options configure a trial.
type Options struct {
	// Solving is who solves challenges that the log does not contain.
	Solving Solving
	// Cases is the number of worst cases to keep; default 10.
	Cases int
	// Skip is the number of attempts to skip at the start.
	Skip int64
}

// Solving is who solves challenges. The zero value is People.
type Solving uint8

const (
	// People: clients whose login succeeded in the log solve them.
	People Solving = iota
	// Nobody solves them: challenges also keep users out.
	Nobody
	// Everybody solves them, including an attacker who pays for it.
	Everybody
)

// Run runs every attempt of a log through a site per setup and reports what would have happened. The sites run in
// parallel on the same attempts.
func Run(ctx context.Context, log *Log, setups []Setup, o Options) (*Report, error) {
	if o.Cases == 0 {
		o.Cases = 10
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	pool := sync.Pool{New: func() any { return new(batch) }}
	inputs, runs := make([]chan *batch, len(setups)), make([]*run, len(setups))
	report := &Report{Policies: make([]Result, len(setups))}
	named := true // the first attempt decides
	start := func(first *Attempt) error {
		named = first.Named
		for i, setup := range setups {
			r, err := newRun(setup, first.At, named, o)
			if err != nil {
				return err
			}
			runs[i], inputs[i] = r, make(chan *batch, 4)
			running.Go(func() {
				for b := range inputs[i] {
					if ctx.Err() == nil {
						if err := r.all(b.attempts); err != nil {
							stop(err)
						}
					}
					b.done(&pool)
				}
			})
		}
		return nil
	}
	facts := newFacts()
	err := read(ctx, log, o.Skip, &pool, facts, func(b *batch) error {
		if runs[0] == nil {
			if err := start(&b.attempts[0]); err != nil {
				return err
			}
		}
		b.users.Store(int32(len(inputs)))
		for _, input := range inputs {
			input <- b
		}
		return nil
	})
	for _, input := range inputs {
		if input != nil {
			close(input)
		}
	}
	running.Wait()
	if err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	report.Log, report.Accounts, report.Addresses = log.Stats(), facts.accounts.Count(), facts.addresses.Count()
	for i, r := range runs {
		report.Policies[i].Name = setups[i].Name
		if r != nil { // the log has attempts
			report.Policies[i] = r.result(setups[i].Name)
		}
	}
	return report, nil
}
