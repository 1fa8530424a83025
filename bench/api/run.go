// Package api measures the decision API, in memory, beside a bare handler that reads and
// writes the same JSON and decides nothing. Both are servers of their own, driven by wrk.
package api

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"authguard/bench/wrk"
)

//go:embed api.lua
var script []byte

// A Plan is how much is measured.
type Plan struct {
	Rounds int           // of each server in turn
	Takes  time.Duration // one round
}

// A Result is one scene: the median rates in requests a second, the median of authguard's
// part of the bare handler's rate in the same round, and the processor time that each
// spent on a request, in microseconds.
type Result struct {
	Scene            string
	Ours, Bare, Part float64
	OursCPU, BareCPU float64
}

type scene struct{ name, key string }

// A login that succeeds is written to the database, with the place that it makes known;
// the others are counted in memory.
var scenes = []scene{
	{"begin: proceed", "begin"},
	{"begin: wait", "stopped"},
	{"an event: proceed", "event"},
	{"an event: refuse", "exceeded"},
	{"begin, settle failed", "guess"},
	{"begin, settle succeeded", "login"},
}

const token = "a-token-of-the-benchmark-of-32-characters"

// config keeps the site's mode off.
const config = `listen: 127.0.0.1:0
admin: {listen: ""}
api: {tokens: [` + token + `]}
site: {floor: 1000000, ceiling: 1000000}
`

// slowDown stops an account's second attempt from the same address.
const slowDown = `limits:
  pair_delay: {first: 1h, max: 1h, window: 2h, after: 1}
  privileged_pair: [] # it could never be reached, which is an error
`

// events are limited as in the README.
const events = `events: {password-reset: [5/1h refuse by account, 20/1d refuse by address]}
`

// Run measures every scene. The working folder is the bench module's.
func Run(ctx context.Context, p Plan) (results []Result, err error) {
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
	if err := errors.Join(wrk.Build(ctx, "..", ours, "./cmd/authguard"), wrk.Build(ctx, ".", bare, "./api/bare"),
		os.WriteFile(folder+"/api.lua", script, 0o600)); err != nil {
		return nil, err
	}
	for _, s := range scenes {
		r, err := s.measure(ctx, p, d, folder, ours, bare)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measure drives both in turn, after a round that is not counted.
func (s scene) measure(ctx context.Context, p Plan, d *wrk.Driver, folder, oursProgram, bareProgram string) (r Result, err error) {
	path, settings := folder+"/"+s.key+".yaml", config+"data: "+folder+"/"+s.key+"\n"
	switch s.key {
	case "stopped":
		settings += slowDown
	case "event", "exceeded":
		settings += events
	}
	if err := os.WriteFile(path, []byte(settings), 0o600); err != nil {
		return r, err
	}
	ours, err := wrk.Start(ctx, []string{"AUTHGUARD_CONFIG=" + path}, oursProgram, "serve")
	if err != nil {
		return r, err
	}
	defer ours.Stop()
	bare, err := wrk.Start(ctx, nil, bareProgram)
	if err != nil {
		return r, err
	}
	defer bare.Stop()
	if s.key == "stopped" {
		if err := fail(ctx, root(ours)); err != nil {
			return r, err
		}
	}
	var rates, cpus [2][]float64
	var parts []float64
	for round := range p.Rounds + 1 {
		var now [2]float64
		for i, to := range []*wrk.Server{ours, bare} {
			before := to.Spent()
			rate, err := d.Drive(ctx, root(to), wrk.Request{Script: folder + "/api.lua", Env: []string{"BENCH_SCENE=" + s.key, "BENCH_TOKEN=" + token}})
			if err != nil {
				return r, err
			}
			now[i] = rate
			if round > 0 {
				rates[i] = append(rates[i], rate)
				cpus[i] = append(cpus[i], float64((to.Spent()-before).Microseconds())/rate/p.Takes.Seconds())
			}
		}
		if round > 0 {
			parts = append(parts, now[0]/now[1])
		}
	}
	return Result{s.name, middle(rates[0]), middle(rates[1]), middle(parts), middle(cpus[0]), middle(cpus[1])}, nil
}

func root(s *wrk.Server) string { return strings.TrimSuffix(s.URL, "/login") }

// fail begins one attempt that nobody settles.
func fail(ctx context.Context, url string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/attempts", strings.NewReader(`{"account":"nobody-in-particular","address":"198.18.0.1"}`))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		err = answer.Body.Close()
	}
	time.Sleep(6 * time.Second) // until it is no longer undecided, and nobody waits for it
	return err
}

func middle(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}
