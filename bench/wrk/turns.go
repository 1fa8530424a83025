package wrk

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Plan is how much is measured.
type Plan struct {
	Rounds int           // of each server, alternating
	Takes  time.Duration // the duration of a round
}

// Figures are one server's medians.
type Figures struct {
	Rate  float64 // requests per second
	Share float64 // the last server's rate in the same round, divided by this one
	CPU   float64 // CPU time per request, in microseconds
}

// Turns sends requests to all servers in turn, so that a slow moment of the machine affects all alike.
// The first round opens connections and fills caches, and is not counted.
func (d *Driver) Turns(ctx context.Context, servers []*Server, r Request) ([]Figures, error) {
	rounds := make([][]Figures, len(servers))
	for round := range d.plan.Rounds + 1 {
		now := make([]Figures, len(servers))
		for i, to := range servers {
			before := to.Spent()
			rate, err := d.Drive(ctx, to.URL+r.Path, r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", to.URL, err)
			}
			now[i] = Figures{Rate: rate, CPU: float64((to.Spent() - before).Microseconds()) / rate / d.plan.Takes.Seconds()}
		}
		for i := range now {
			now[i].Share = now[len(now)-1].Rate / now[i].Rate
			if round > 0 {
				rounds[i] = append(rounds[i], now[i])
			}
		}
	}
	medians := make([]Figures, len(servers))
	for i, all := range rounds {
		medians[i] = Figures{
			Rate:  median(all, func(f Figures) float64 { return f.Rate }),
			Share: median(all, func(f Figures) float64 { return f.Share }),
			CPU:   median(all, func(f Figures) float64 { return f.CPU }),
		}
	}
	return medians, nil
}

func median(of []Figures, figure func(Figures) float64) float64 {
	var all []float64
	for _, f := range of {
		all = append(all, figure(f))
	}
	slices.Sort(all)
	return all[len(all)/2]
}
