package login

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"time"

	"authguard/bench/wrk"
)

// A Plan is how much is measured.
type Plan struct {
	Rounds int           // of each server in turn
	Takes  time.Duration // one round
}

// A Result is the median rates of one scene, in attempts a second.
type Result struct {
	Scene string
	Ours  float64
	Bare  float64
}

// Run measures every scene. The working folder is the bench module's.
func Run(ctx context.Context, p Plan) ([]Result, error) {
	folder, err := os.MkdirTemp("", "authguard-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	d, err := wrk.NewDriver(folder, p.Takes)
	if err != nil {
		return nil, err
	}
	ours, bare := folder+"/authguard", folder+"/bare"
	if err := wrk.Build(ctx, "..", ours, "./cmd/authguard"); err != nil {
		return nil, err
	}
	if err := wrk.Build(ctx, ".", bare, "./login/bare"); err != nil {
		return nil, err
	}
	var results []Result
	for i, s := range scenes {
		r, err := s.measure(ctx, p, d, fmt.Sprintf("%s/scene-%d", folder, i), ours, bare)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measure starts both servers, fails once so that every further attempt is
// stopped, and drives them in turn.
func (s scene) measure(ctx context.Context, p Plan, d *wrk.Driver, folder, oursProgram, bareProgram string) (r Result, err error) {
	ours, err := s.startOurs(ctx, folder, oursProgram)
	if err != nil {
		return r, err
	}
	defer ours.Stop()
	bare, err := wrk.Start(ctx, nil, bareProgram)
	if err != nil {
		return r, err
	}
	defer bare.Stop()
	if err := s.expect(ours, http.StatusUnauthorized); err != nil {
		return r, err
	}
	if err := s.expect(ours, s.status); err != nil {
		return r, err
	}
	var oursRates, bareRates []float64
	request := wrk.Request{Method: http.MethodPost, Headers: []string{"Content-Type: application/x-www-form-urlencoded", "Accept: " + s.accept}, Bodies: []string{attempt}, Refused: true}
	for range p.Rounds {
		for _, one := range []struct {
			s  *wrk.Server
			to *[]float64
		}{{bare, &bareRates}, {ours, &oursRates}} {
			rate, err := d.Drive(ctx, one.s.URL, request)
			if err != nil {
				return r, err
			}
			*one.to = append(*one.to, rate)
		}
	}
	r = Result{Scene: s.name, Ours: middle(oursRates), Bare: middle(bareRates)}
	return r, s.expect(ours, s.status)
}

func (s scene) startOurs(ctx context.Context, folder, program string) (*wrk.Server, error) {
	if err := os.Mkdir(folder, 0o700); err != nil {
		return nil, err
	}
	path := folder + "/authguard.yaml"
	config := common + "data: " + folder + "/data\n" + s.config
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		return nil, err
	}
	return wrk.Start(ctx, []string{"AUTHGUARD_CONFIG=" + path}, program, "serve")
}

func middle(rates []float64) float64 {
	slices.Sort(rates)
	return rates[len(rates)/2]
}
