// Package integrations measures two of authguard's integrations beside a bare echo handler, which binds
// the same input and makes no decision: the login endpoint, when it stops attempts before the password
// check, and the decision API with counters in memory. wrk sends the requests to separate servers.
package integrations

import (
	"context"
	"errors"
	"fmt"
	"os"

	"authguard/bench/wrk"
)

// A Result is one scene with authguard and the bare handler.
type Result struct {
	Scene      string
	Ours, Bare wrk.Figures
}

// A scene is one kind of request, and the configuration of the server for it.
type scene struct {
	name, config string // in addition to common
	request      wrk.Request
	// ready prepares a server so that it answers all further requests alike; may be nil.
	ready func(ctx context.Context, ours *wrk.Server) error
	// done checks that the server still answers so; may be nil.
	done func(ctx context.Context, ours *wrk.Server) error
}

// common keeps CAPTCHA mode off.
const common = `listen: 127.0.0.1:0
admin: {listen: ""}
passwords: {cost: 10}
captcha_mode: {threshold: 1000000000}
`

// delayed delays an account's second attempt from the same IP address.
const delayed = `limits:
  pair_delay: 1/2h delay 1h to 1h
  known_client: [] # it could never be reached, which is an error
`

// Login measures the login endpoint. The working folder is the bench module's.
func Login(ctx context.Context, p wrk.Plan) ([]Result, error) { return run(ctx, p, login) }

// API measures the decision API. The working folder is the bench module's.
func API(ctx context.Context, p wrk.Plan) ([]Result, error) { return run(ctx, p, api) }

func run(ctx context.Context, p wrk.Plan, scenes func(folder string) []scene) (results []Result, err error) {
	folder, err := os.MkdirTemp("", "authguard-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	d, err := wrk.NewDriver(folder, p)
	if err := errors.Join(err, wrk.Build(ctx, "..", folder+"/authguard", "./cmd/authguard"),
		wrk.Build(ctx, ".", folder+"/bare", "./bare"), os.WriteFile(folder+"/api.lua", script, 0o600)); err != nil {
		return nil, err
	}
	for i, s := range scenes(folder) {
		r, err := s.measure(ctx, d, folder, fmt.Sprintf("%s/scene-%d", folder, i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// measure starts both servers and sends them requests in turn.
func (s scene) measure(ctx context.Context, d *wrk.Driver, programs, data string) (r Result, err error) {
	if err := os.WriteFile(data+".yaml", []byte(common+"data: "+data+"\n"+s.config), 0o600); err != nil {
		return r, err
	}
	ours, err := wrk.Start(ctx, []string{"AUTHGUARD_CONFIG=" + data + ".yaml"}, programs+"/authguard", "serve")
	if err != nil {
		return r, err
	}
	defer ours.Stop()
	bare, err := wrk.Start(ctx, nil, programs+"/bare")
	if err != nil {
		return r, err
	}
	defer bare.Stop()
	if s.ready != nil {
		if err := s.ready(ctx, ours); err != nil {
			return r, err
		}
	}
	figures, err := d.Turns(ctx, []*wrk.Server{bare, ours}, s.request)
	if err != nil {
		return r, err
	}
	if s.done != nil {
		err = s.done(ctx, ours)
	}
	return Result{s.name, figures[1], figures[0]}, err
}
