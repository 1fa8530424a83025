package replay

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"authguard/internal/events"
)

const batchSize = 2048

// Options configure a replay.
type Options struct {
	// Solving is who solves challenges that the log does not contain.
	Solving Solving
	// Cases is the number of worst cases to keep; default 10.
	Cases int
	// Skip is the number of attempts to skip at the start.
	Skip int64
}

// Solving is who solves challenges. The zero value is UsersSolve.
type Solving uint8

const (
	// UsersSolve: clients whose login succeeded in the log solve them.
	UsersSolve Solving = iota
	// NoneSolve: challenges also keep users out.
	NoneSolve
	// AllSolve: an attacker who pays for it solves them, too.
	AllSolve
)

// Run runs every attempt of a log through a site per setup and reports what would have happened. The sites run in
// parallel on the same attempts, while the next ones are read.
func Run(ctx context.Context, log *Log, setups []Setup, o Options) (*Report, error) {
	o.Cases = cmp.Or(o.Cases, 10)
	hash := events.KeyedHash(nil) // a report is the same each time
	in := &input{log: log, skip: o.Skip, accounts: events.NewDistinct(hash), addresses: events.NewDistinct(hash)}
	batch, err := in.read(nil)
	if err != nil {
		return nil, err
	}
	runs := make([]*run, len(setups))
	for i := range setups {
		if len(batch) > 0 { // the first attempts decide whether the log has accounts
			named := slices.ContainsFunc(batch, func(a Attempt) bool { return a.Named })
			if runs[i], err = newRun(setups[i], batch[0].At, named, o); err != nil {
				return nil, err
			}
		}
	}
	for spare := []Attempt(nil); len(batch) > 0 && ctx.Err() == nil; {
		var work sync.WaitGroup
		errs := make([]error, len(runs)+1)
		for i, r := range runs {
			work.Go(func() { errs[i] = r.all(batch) })
		}
		work.Go(func() { spare, errs[len(runs)] = in.read(spare[:0]) })
		work.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		batch, spare = spare, batch
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	report := &Report{Log: log.Stats(), Accounts: in.accounts.Count(), Addresses: in.addresses.Count()}
	for i, r := range runs {
		result := Result{}
		if r != nil {
			if result, err = r.result(); err != nil {
				return nil, err
			}
		}
		result.Name = setups[i].Name
		report.Policies = append(report.Policies, result)
	}
	return report, nil
}

// input reads a log in batches, and counts its names.
type input struct {
	log                 *Log
	skip                int64
	accounts, addresses *events.Distinct
}

// read returns the next attempts in a batch's memory; none after the last.
func (in *input) read(batch []Attempt) ([]Attempt, error) {
	for len(batch) < batchSize {
		var a Attempt
		if more, err := in.log.Next(&a); !more || err != nil {
			return batch, err
		}
		if in.skip--; in.skip >= 0 {
			continue
		}
		if a.Named {
			in.accounts.Add(a.Account)
		}
		if a.Address.IsValid() {
			bytes := a.Address.As16()
			in.addresses.Add(string(bytes[:]))
		}
		batch = append(batch, a)
	}
	return batch, nil
}
