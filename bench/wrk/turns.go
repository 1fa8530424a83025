package wrk

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A Plan is how much is measured.
type Plan struct {
	Rounds int           // of each server in turn
	Takes  time.Duration // one round
}

// Figures are one server's medians.
type Figures struct {
	Rate float64 // requests a second
	Part float64 // of this rate that the last server reached in the same round
	CPU  float64 // microseconds of processor time that the server spent on a request
}

// Turns drives all servers in turn, so that a slow moment of the machine hits them
// alike, after a round that is not counted: it opens connections and fills caches.
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
			now[i].Part = now[len(now)-1].Rate / now[i].Rate
			if round > 0 {
				rounds[i] = append(rounds[i], now[i])
			}
		}
	}
	medians := make([]Figures, len(servers))
	for i, all := range rounds {
		medians[i] = Figures{
			Rate: median(all, func(f Figures) float64 { return f.Rate }),
			Part: median(all, func(f Figures) float64 { return f.Part }),
			CPU:  median(all, func(f Figures) float64 { return f.CPU }),
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
