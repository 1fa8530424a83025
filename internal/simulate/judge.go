package simulate

import (
	"context"

	"authguard/internal/replay"
)

// mostAttempts is how many of a log's newest attempts are used. mostAtOnce setups are tested in parallel, each with its
// own counters.
const mostAttempts, mostAtOnce = 1_000_000, 6

// OfLogs scores by logs: wrong passwords that were checked and were not corrected typos.
func OfLogs(paths []string, how replay.Config) Judge {
	skip := int64(-1)
	return func(ctx context.Context, setups []replay.Setup) (all []Score, err error) {
		if skip < 0 {
			n, err := attempts(paths, how)
			if err != nil {
				return nil, err
			}
			skip = max(0, n-mostAttempts)
		}
		for len(setups) > 0 {
			some := setups[:min(len(setups), mostAtOnce)]
			setups = setups[len(some):]
			log, err := replay.Open(paths, how)
			if err != nil {
				return nil, err
			}
			r, err := replay.Run(ctx, log, some, replay.Options{Skip: skip})
			log.Close()
			if err != nil {
				return nil, err
			}
			for _, p := range r.Policies {
				all = append(all, Score{Checked: p.Guesses.Checked - p.Guesses.Slips, Met: p.Logins.Hindered,
					KeptOut: p.Logins.KeptOut, Logins: p.Logins.All})
			}
		}
		return all, nil
	}
}

func attempts(paths []string, how replay.Config) (n int64, err error) {
	log, err := replay.Open(paths, how)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	for {
		var a replay.Attempt
		more, err := log.Next(&a)
		if err != nil {
			return 0, err
		}
		if !more {
			return n, nil
		}
		n++
	}
}

// OfScenarios scores by scenarios: right guesses that got in and, among equals, checked guesses.
func OfScenarios(scenarios []Scenario) Judge {
	return func(ctx context.Context, setups []replay.Setup) ([]Score, error) {
		all := make([]Score, len(setups))
		for _, s := range scenarios {
			r, err := Run(ctx, s, setups, nil, nil)
			if err != nil {
				return nil, err
			}
			for i, one := range r.Results {
				all[i].Let += int64(one.Let)
				all[i].Checked += int64(one.Checked)
				all[i].Met += int64(one.Challenges + one.Delayed + one.WaysIn + one.Stopped)
				all[i].KeptOut += int64(one.Stopped)
				all[i].Logins += int64(one.Logins)
			}
		}
		return all, nil
	}
}
